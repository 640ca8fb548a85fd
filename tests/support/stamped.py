"""Random queries whose steps are stamped in random ways (`asa.md` 11.4, 11.5)."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from oracle.strategies import (
    Trial,
    clocks,
    events,
    filters,
    grid_windows,
    havings,
    session_windows,
    settings,
    without_mixed_text,
)
from support.joins import bounds

STAMPS = ["first element", "first element", "first element after the window before", "end of window"]
AT = "System.Timestamp() AS at"


@st.composite
def element_windows(draw: st.DrawFn, over: str | None = None) -> str:
    """A window that may be stamped with an element, or two of them."""
    one = st.one_of(grid_windows(), session_windows(over), st.just("System.Timestamp()"))
    if draw(st.integers(0, 4)):
        return draw(one)
    return f"Windows(Window('one', {draw(one)}), Window('two', {draw(one)}))"


def chosen(draw: st.DrawFn, *steps: str) -> dict[str, Any]:
    """Random settings with a random stamp for each step."""
    return {**draw(settings()), "output_timestamps": {step: draw(st.sampled_from(STAMPS)) for step in steps}}


@st.composite
def windows_over_windows(draw: st.DrawFn) -> Trial:
    """Three steps, each stamped in its own way, and all rows of the second."""
    keys = draw(st.sampled_from([("k", "k, ", ""), ("k, LEN(s)", "", ""), ("k", "k, ", "k, ")]))
    query = (
        f"WITH a AS (SELECT {keys[0].replace('LEN(s)', 'LEN(s) AS z')}, SUM(v) AS v, COUNT(*) AS n, "
        f"System.Window().Id AS w FROM {draw(clocks())}{draw(filters())} GROUP BY {keys[0]}, "
        f"{draw(element_windows(draw(st.sampled_from([None, 'k']))))}{draw(havings())}), "
        f"b AS (SELECT {keys[1]}COUNT(*) AS c, SUM(n) AS n FROM a "
        f"GROUP BY {keys[1]}{draw(element_windows())}) "
        f"SELECT {keys[2]}COUNT(*) AS c, SUM(n) AS n, {AT} INTO last FROM b "
        f"GROUP BY {keys[2]}{draw(element_windows())} "
        f"SELECT *, {AT} INTO middle FROM b"
    )
    return Trial(query, {"events": draw(events(most=14))}, chosen(draw, "a", "b", "last"))


@st.composite
def substreams_stamped(draw: st.DrawFn) -> Trial:
    """Each substream is held at elements of its own."""
    query = (
        f"WITH a AS (SELECT k, COUNT(*) AS n FROM events TIMESTAMP BY t OVER k{draw(filters())} "
        f"GROUP BY k, {draw(element_windows('k'))}) "
        f"SELECT k, SUM(n) AS s, {AT} "
        f"FROM a GROUP BY k, {draw(element_windows('k'))}"
    )
    return Trial(query, {"events": draw(events(partitions=1))}, chosen(draw, "a", "output"))


@st.composite
def joins_stamped(draw: st.DrawFn) -> Trial:
    """Pairs stamped with a row of either side, and a window over them."""
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN"]))
    element = "a" if kind == "LEFT JOIN" else draw(st.sampled_from("ab"))
    keys = draw(st.sampled_from(["", " AND a.k = b.k", " AND b.k = a.k AND b.v > a.v"]))
    query = (
        f"WITH j AS (SELECT a.k, a.v, b.v AS w, {AT} FROM x a TIMESTAMP BY t {kind} y b TIMESTAMP BY t "
        f"ON {draw(bounds('a', 'b'))}{keys}) "
        f"SELECT * INTO pairs FROM j "
        f"SELECT k, COUNT(*) AS n, SUM(v) AS v, {AT} INTO grouped FROM j "
        f"GROUP BY k, {draw(element_windows())}"
    )
    inputs = {n: [without_mixed_text(row) for row in draw(events(most=10))] for n in "xy"}
    stamps = {"j": f"element of {element}", "grouped": draw(st.sampled_from(STAMPS))}
    return Trial(query, inputs, {**draw(settings()), "output_timestamps": stamps})


def stamped() -> st.SearchStrategy[Trial]:
    """Any query of this module."""
    return st.one_of(windows_over_windows(), substreams_stamped(), joins_stamped())
