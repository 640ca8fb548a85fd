"""The kernel of MATCH_RECOGNIZE: when matches come out, how far the result has come, what the state keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.depth import some
from tideglass.core.errors import EvaluationError
from tideglass.core.failing_rows import OnFailure
from tideglass.core.json_rows import rows_of, table_of
from tideglass.core.time import AFTER_ALL_TICKS, TICKS_PER_SECOND
from tideglass.core.types import ORDER_COLUMNS
from tideglass.operators.patterns.events import Definition, EventTest
from tideglass.operators.patterns.operator import Patterns
from tideglass.operators.progress import Progress
from tideglass.operators.state.store import MemoryState
from tideglass.plan.expressions import Ref
from tideglass.plan.patterns import MatchedValue, PatternState, PatternVariable
from tideglass.plan.specs import PatternSpec

SECOND = TICKS_PER_SECOND
#: A+ B, and A B.
A_PLUS_B = (
    PatternState(((0, 1),), False),
    PatternState(((0, 1), (1, 2)), False),
    PatternState((), True),
)
A_B = (PatternState(((0, 1),), False), PatternState(((1, 2),), False), PatternState((), True))
A_PLUS = (PatternState(((0, 1),), False), PatternState(((0, 1),), True))


class Equals:
    """A condition: the matched value has a value. It counts the rows it has been asked about."""

    def __init__(self, name: str, wanted: str) -> None:
        self.name, self.wanted, self.asked = name, wanted, 0

    def __call__(self, rows: pa.Table, on_failure: OnFailure | None) -> Any:
        self.asked += rows.num_rows
        return np.array([value == self.wanted for value in rows[self.name].to_pylist()], np.bool_)

    def failing(self, rows: pa.Table) -> Any:
        return np.empty(0, np.int64)


VALUES = (
    MatchedValue("A.v", "last", 0, Ref("v")),
    MatchedValue("B.v", "last", 1, Ref("v")),
    MatchedValue("First(A.n)", "first", 0, Ref("n")),
)


def kernel(states: tuple[PatternState, ...], limit: int = 10) -> Patterns:
    """Events of a key k; A has the value a, B the value b."""
    tests = [EventTest(Equals(f"{name}.v", name.lower()), (f"{name}.v",)) for name in "AB"]
    definitions = tuple(Definition(test, ()) for test in tests)
    return Patterns(spec(states, limit, {"A": "A.v", "B": "B.v"}, ("First(A.n)",)), definitions)


def spec(
    states: tuple[PatternState, ...], limit: int, reads: dict[str, str], measured: tuple[str, ...]
) -> PatternSpec:
    """reads: of the condition of each variable."""
    return PatternSpec(
        keys=("k",),
        limit_ticks=limit * SECOND,
        variables=tuple(PatternVariable(name, Ref(value)) for name, value in reads.items()),
        states=states,
        values=VALUES,
        measured=measured,
        substreams=False,
    )


def rows(*given: tuple[float, str, str], first_offset: int = 0) -> pa.Table:
    """Rows (second, key, value), arriving in this order; n is the second."""
    made = [
        {
            **dict.fromkeys(ORDER_COLUMNS, 0),
            "$ts": int(at * SECOND),
            "$offset": first_offset + n,
            "k": k,
            "v": v,
            "n": at,
        }
        for n, (at, k, v) in enumerate(given)
    ]
    return table_of(made)


def advance(
    patterns: Patterns, state: MemoryState, second: float, *tables: pa.Table
) -> tuple[list[Any], float]:
    """The first events of the matches, and the second the result has come to."""
    out, came = patterns.advance(tables, Progress(int(second * SECOND)), state)
    found = [] if out is None else [row["First(A.n)"] for row in rows_of(out)]
    return found, came.watermark_ticks / SECOND


def held(state: MemoryState) -> int:
    return sum(chunk.num_rows for bucket in state.buckets() for chunk in state.read(bucket))


def test_a_match_comes_out_as_soon_as_nothing_can_change_it() -> None:
    patterns, state = kernel(A_PLUS_B), MemoryState()
    assert advance(patterns, state, 2, rows((1, "x", "a"), (2, "x", "b"))) == ([], 2)
    assert advance(patterns, state, 2.5) == ([1], 2.5)


def test_a_repetition_waits_for_an_event_that_ends_it_or_for_its_limit() -> None:
    patterns, state = kernel(A_PLUS), MemoryState()
    assert advance(patterns, state, 3, rows((1, "x", "a"), (2, "x", "a"))) == ([], 2)
    assert advance(patterns, state, 11) == ([], 2)
    assert advance(patterns, state, 11.5) == ([1], 2)
    assert advance(patterns, state, 12, rows((11.6, "x", "b"), first_offset=2)) == ([2], 12)


def test_the_result_has_come_as_far_as_the_stamp_of_the_earliest_match_there_may_be() -> None:
    patterns, state = kernel(A_PLUS_B), MemoryState()
    assert advance(patterns, state, 5, rows((1, "x", "a"), (4, "y", "a"))) == ([], 5)
    assert advance(patterns, state, 7, rows((6, "x", "a"), first_offset=2)) == ([], 7)
    assert advance(patterns, state, 9, rows((8, "x", "b"), first_offset=3)) == ([1, 6], 9)
    late = [(10 + n / 100, "y", "a") for n in range(65)]
    patterns, state = kernel(A_PLUS_B), MemoryState()
    assert advance(patterns, state, 10.64, rows(*late[:64])) == ([], 10.64)
    assert advance(patterns, state, 11, rows(late[64], first_offset=64)) == ([], 10.64)  # not looked at yet


def test_events_that_begin_no_match_are_not_kept() -> None:
    patterns, state = kernel(A_PLUS_B), MemoryState()
    advance(patterns, state, 9, rows(*[(1, "x", "b")] * 5, *[(2, "y", "c")] * 5))
    assert held(state) == 0


def test_state_is_freed_as_the_watermark_passes() -> None:
    patterns, state = kernel(A_PLUS_B), MemoryState()
    for second in range(100):
        advance(patterns, state, second + 0.5, rows((second, "x", "a"), (second, "y", "a")))
        assert held(state) <= 2 * 3 * (10 + 3)  # events, decided ones and stamps of the limit and a bucket
    advance(patterns, state, 200)
    assert state.buckets() == []


def test_a_match_comes_out_when_it_is_decided_however_the_events_come() -> None:
    patterns, state = kernel(A_PLUS_B, limit=10_000), MemoryState()
    for second in range(60):
        assert advance(patterns, state, second + 0.5, rows((second, "x", "a")))[0] == []
    assert advance(patterns, state, 61, rows((60, "x", "b")))[0] == list(range(60))


@pytest.mark.parametrize("batch", [500, *some([7, 1], 2)])
def test_which_long_matches_have_come_out_depends_on_the_events_alone(batch: int) -> None:
    patterns, state = kernel(A_PLUS_B, limit=10_000), MemoryState()
    every = [(second, "x", "a") for second in range(400)] + [(400, "x", "b"), (401, "x", "c")]
    early: list[float] = []
    for first in range(0, len(every), batch):
        part = every[first : first + batch]
        found, _ = advance(patterns, state, part[-1][0] + 0.5, rows(*part, first_offset=first))
        early += found
    # with the last event behind them there are 384 events, 256, 192 ...; or at most 64
    assert sorted(early) == [17, 18, 145, 146, 209, 210, 273, 274, 305, 306, *range(337, 400)]
    found, _ = advance(patterns, state, AFTER_ALL_TICKS / SECOND)
    assert sorted(early + found) == list(range(400))


def test_matches_are_told_however_many_starts_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tideglass.operators.patterns.nfa.STARTS_AT_ONCE", 3)
    batch = rows(*[(second, "x", "a" if second % 3 else "b") for second in range(20)])
    found, _ = advance(kernel(A_PLUS_B), MemoryState(), 99, batch)
    assert found == [second for second in range(18) if second % 3]


def test_too_many_ways_at_once_stop_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tideglass.operators.patterns.nfa.MAX_THREADS", 5)
    states = (
        PatternState(((0, 1), (-1, 1)), False),
        PatternState(((-1, 0), (1, 2)), False),
        PatternState((), True),
    )
    never = Definition(None, (EventTest(Equals("First(A.n)", "never"), ("First(A.n)",)),))
    reads = {"A": "$ts", "B": "First(A.n)"}
    patterns = Patterns(spec(states, 99, reads, ()), (Definition(None, ()), never))
    with pytest.raises(EvaluationError, match="ways"):
        advance(patterns, MemoryState(), 99, rows(*[(second, "x", "a") for second in range(20)]))
