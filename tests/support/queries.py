"""Queries of several steps for property tests: windows over windows, unions, shared steps, substreams."""

from __future__ import annotations

from hypothesis import strategies as st

from oracle.strategies import (
    Trial,
    clocks,
    events,
    filters,
    havings,
    selections,
    session_windows,
    settings,
    windows,
)

AT = "System.Timestamp() AS at"


#: Keys of three GROUP BYs, one above the other. Where a key stays, rows are together already.
KEYS_BY_STEP = [
    ("k, LEN(s)", "k", ""),
    ("k, LEN(s)", "n", "n"),
    ("k", "k", "k"),
    ("k", "", ""),
    ("PartitionId, k", "k, PartitionId", "PartitionId"),
]


@st.composite
def windows_over_windows(draw: st.DrawFn) -> Trial:
    """Three GROUP BYs, one above the other, by keys that agree with those below or do not."""
    first, second, third = draw(st.sampled_from(KEYS_BY_STEP))
    shown = first.replace("LEN(s)", "LEN(s) AS n") + ("" if "LEN" in first else ", COUNT(*) AS n")
    middle, last = (f"{keys}, " if keys else "" for keys in (second, third))
    having = draw(st.sampled_from(["", " HAVING COUNT(*) > 1", " HAVING SUM(c) >= 2"]))
    query = (
        f"WITH a AS (SELECT {shown}, SUM(v) AS v, MAX(v) AS h FROM {draw(clocks())}{draw(filters())} "
        f"GROUP BY {first}, {draw(windows())}), "
        f"b AS (SELECT {middle}COUNT(*) AS c, AVG(v) AS v, MIN(h) AS h FROM a "
        f"GROUP BY {middle}{draw(windows())}) "
        f"SELECT {last}COUNT(*) AS c, SUM(v) AS v, MAX(h) AS h, {AT} INTO last FROM b "
        f"GROUP BY {last}{draw(windows())}{having} "
        f"SELECT *, {AT} INTO middle FROM b"
    )
    return Trial(query, {"events": draw(events(most=12))}, draw(settings()))


@st.composite
def unions_of_levels(draw: st.DrawFn) -> Trial:
    """Rows of an input, of a window over it and of another input's window meet in one step."""
    clock = draw(st.sampled_from([" TIMESTAMP BY t", ""]))
    again = draw(st.sampled_from(["", ", fine AS (SELECT k, SUM(v) AS v FROM w GROUP BY k, {0})"]))
    last = "fine" if again else "w"
    query = (
        f"WITH w AS (SELECT k, SUM(v) AS v FROM x{clock}{draw(filters())} GROUP BY k, {draw(windows())})"
        f"{again.format(draw(windows(session_over='k')))}, "
        f"other AS (SELECT k, MAX(v) AS v FROM y TIMESTAMP BY t GROUP BY k, {draw(windows())}), "
        f"both AS (SELECT k, v FROM {last} UNION SELECT k, v FROM x{clock}{draw(filters())} "
        f"UNION SELECT k, v FROM other) "
        f"SELECT k, COUNT(*) AS n, SUM(v) AS v, {AT} INTO grouped FROM both GROUP BY k, {draw(windows())} "
        f"SELECT COUNT(*) AS n, MIN(v) AS v, {AT} INTO alone FROM both GROUP BY {draw(windows())} "
        f"SELECT k, v, {AT} INTO every FROM both"
    )
    inputs = {"x": draw(events(most=8)), "y": draw(events(most=6))}
    return Trial(query, inputs, draw(settings()))


@st.composite
def substreams_of_two_steps(draw: st.DrawFn) -> Trial:
    """A watermark per key through two GROUP BYs."""
    source = "events TIMESTAMP BY t OVER k, PartitionId PARTITION BY PartitionId"
    keys = "k, PartitionId"
    query = (
        f"WITH a AS (SELECT {keys}, v, COUNT(*) AS n FROM {source}{draw(filters())} "
        f"GROUP BY {keys}, v, {draw(windows(sessions=False))}) "
        f"SELECT {keys}, SUM(n) AS n, MAX(v) AS v, {AT} INTO coarse FROM a "
        f"GROUP BY {keys}, {draw(windows(sessions=False))} "
        f"SELECT *, {AT} INTO fine FROM a"
    )
    return Trial(query, {"events": draw(events())}, draw(settings()))


@st.composite
def sessions(draw: st.DrawFn) -> Trial:
    """Sessions of the whole step, of a key, or of a part of the keys, alone and side by side."""
    over = draw(st.sampled_from([None, "k", "k", "PartitionId"]))
    window = draw(session_windows(over))
    if draw(st.booleans()):
        other = draw(session_windows(draw(st.sampled_from([None, "k", "PartitionId"]))))
        window = f"Windows(Window('one', {window}), Window('two', {other}))"
    query = (
        f"SELECT k, PartitionId, {draw(selections(ordered=False))}, System.Window().Id AS w, {AT} "
        f"FROM {draw(clocks())}{draw(filters())} GROUP BY k, PartitionId, {window}{draw(havings())}"
    )
    return Trial(query, {"events": draw(events())}, draw(settings()))


def chained() -> st.SearchStrategy[Trial]:
    """Any query of this module."""
    return st.one_of(windows_over_windows(), unions_of_levels(), substreams_of_two_steps(), sessions())
