"""No kernel costs more than it did: figures that do not depend on the machine, against kept thresholds.

When a figure has grown for a good reason, or fallen: `make costs` keeps the new ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from kernel_costs import Cost, cost_of, excesses, thresholds
from kernel_work import QUERIES, WORK, running

from tideglass.core import sql
from tideglass.operators.windows.aggregate import WindowAggregate

Partial = Callable[..., pa.Table]


@pytest.mark.long
@pytest.mark.parametrize("case", list(WORK))
def test_a_kernel_costs_no_more_than_its_threshold(case: str) -> None:
    found = excesses(case, cost_of(WORK[case]()), thresholds()[case])
    assert not found, "\n".join(map(str, found)) + "\nif that is meant: make costs"


def test_every_threshold_belongs_to_a_kernel() -> None:
    assert thresholds().keys() == WORK.keys()


def one_by_one(plain: Partial) -> Partial:
    """A loop over the rows in Python."""

    def partial(self: WindowAggregate, rows: pa.Table, *more: Any) -> pa.Table:
        longest = max((str(value) for value in rows.column(0).to_pylist()), default="")
        return plain(self, rows, *more) if longest else rows

    return partial


def copied(plain: Partial) -> Partial:
    """A copy of every column."""

    def partial(self: WindowAggregate, rows: pa.Table, *more: Any) -> pa.Table:
        return plain(self, rows.take(pa.array(range(rows.num_rows))), *more)

    return partial


def asked_twice(plain: Partial) -> Partial:
    """A statement that would not be needed."""

    def partial(self: WindowAggregate, rows: pa.Table, *more: Any) -> pa.Table:
        for _ in range(5):
            sql.query("SELECT count(*) FROM rows", rows=rows.select([0]))
        return plain(self, rows, *more)

    return partial


@pytest.mark.parametrize(
    ("wasteful", "figures"),
    [
        (one_by_one, {"python_instructions"}),
        (copied, {"arrow_bytes"}),
        (asked_twice, {"statements", "rows"}),
    ],
)
def test_a_wasteful_kernel_is_found(
    monkeypatch: pytest.MonkeyPatch, wasteful: Callable[[Partial], Partial], figures: set[str]
) -> None:
    monkeypatch.setattr(WindowAggregate, "partial", wasteful(WindowAggregate.partial))
    found = excesses("tumbling", cost_of(running(QUERIES["tumbling"])), thresholds()["tumbling"])
    assert figures <= {excess.figure for excess in found}


def test_a_figure_may_grow_a_little_and_fall_at_will() -> None:
    kept = Cost(100_000, 1_000_000, 1_000_000, 10, 1000)
    assert not excesses("some", Cost(129_000, 1_290_000, 1_290_000, 13, 1300), kept)
    assert not excesses("some", Cost(1, 1, 1, 1, 1), kept)
    found = excesses("some", Cost(131_000, 1_000_000, 1_000_000, 14, 1000), kept)
    assert [str(excess) for excess in found] == [
        "some: python_instructions is 131,000, the threshold 100,000",
        "some: statements is 14, the threshold 10",
    ]
