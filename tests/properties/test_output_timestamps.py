"""Results stamped with an element are the oracle's, and hold back whatever follows (`asa.md` 11.4, 11.5)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
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
from support.against_oracle import check_event_by_event, check_rows, played, reproducible
from support.cases import Case, case_paths, load
from support.depth import depth
from support.harness import manners
from support.joins import bounds
from support.watermark_laws import breaches_of

STAMPS = ["first element", "first element", "first element after the window before", "end of window"]
AT = "System.Timestamp() AS at"
CASES = [case for path in case_paths("output_timestamps") if (case := load(path)).inputs and case.compiles]


@st.composite
def windows(draw: st.DrawFn, over: str | None = None) -> str:
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
        f"{draw(windows(draw(st.sampled_from([None, 'k']))))}{draw(havings())}), "
        f"b AS (SELECT {keys[1]}COUNT(*) AS c, SUM(n) AS n FROM a GROUP BY {keys[1]}{draw(windows())}) "
        f"SELECT {keys[2]}COUNT(*) AS c, SUM(n) AS n, {AT} INTO last FROM b "
        f"GROUP BY {keys[2]}{draw(windows())} "
        f"SELECT *, {AT} INTO middle FROM b"
    )
    return Trial(query, {"events": draw(events(most=14))}, chosen(draw, "a", "b", "last"))


@st.composite
def substreams(draw: st.DrawFn) -> Trial:
    """Each substream is held at elements of its own."""
    query = (
        f"WITH a AS (SELECT k, COUNT(*) AS n FROM events TIMESTAMP BY t OVER k{draw(filters())} "
        f"GROUP BY k, {draw(windows('k'))}) "
        f"SELECT k, SUM(n) AS s, {AT} "
        f"FROM a GROUP BY k, {draw(windows('k'))}"
    )
    return Trial(query, {"events": draw(events(partitions=1))}, chosen(draw, "a", "output"))


@st.composite
def joins(draw: st.DrawFn) -> Trial:
    """Pairs stamped with a row of either side, and a window over them."""
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN"]))
    element = "a" if kind == "LEFT JOIN" else draw(st.sampled_from("ab"))
    keys = draw(st.sampled_from(["", " AND a.k = b.k", " AND b.k = a.k AND b.v > a.v"]))
    query = (
        f"WITH j AS (SELECT a.k, a.v, b.v AS w, {AT} FROM x a TIMESTAMP BY t {kind} y b TIMESTAMP BY t "
        f"ON {draw(bounds('a', 'b'))}{keys}) "
        f"SELECT * INTO pairs FROM j "
        f"SELECT k, COUNT(*) AS n, SUM(v) AS v, {AT} INTO grouped FROM j GROUP BY k, {draw(windows())}"
    )
    inputs = {n: [without_mixed_text(row) for row in draw(events(most=10))] for n in "xy"}
    stamps = {"j": f"element of {element}", "grouped": draw(st.sampled_from(STAMPS))}
    return Trial(query, inputs, {**draw(settings()), "output_timestamps": stamps})


@given(st.one_of(windows_over_windows(), substreams(), joins()), manners())
@examples(reproducible, max_examples=depth(60))
def test_stamped_results_are_the_oracles_in_any_batches_and_restarts(trial: Trial, manner: Any) -> None:
    check_rows(trial, manner)


@given(st.one_of(windows_over_windows(), joins()), manners())
@examples(reproducible, max_examples=depth(30))
def test_what_holds_the_watermark_of_stamped_results_is_reported(trial: Trial, manner: Any) -> None:
    came = played(trial, manner)
    if came is not None:
        topology = came.compiled.topology
        assert breaches_of(topology, came.reports) == []


@pytest.mark.parametrize("case", [case for case in CASES if case.expected], ids=lambda case: case.name)
def test_a_case_of_output_timestamps_holds_event_by_event(case: Case) -> None:
    check_event_by_event(case)
