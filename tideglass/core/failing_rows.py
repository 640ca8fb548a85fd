"""Rows that make an evaluation fail: found among the others, left out and reported (`asa.md` A-33)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints
from tideglass.core.errors import EvaluationError

_Result = TypeVar("_Result")

#: Called for rows that are left out: how many, and why the first of them failed.
OnFailure: TypeAlias = Callable[[int, EvaluationError], None]


class Failed(NamedTuple):
    """How many rows an operator has left out since its state began, and the error of the first."""

    rows: int
    message: str

    def and_then(self, later: Failed) -> Failed:
        return Failed(self.rows + later.rows, self.message)


def added(before: Mapping[int, Failed], later: Mapping[int, Failed]) -> dict[int, Failed]:
    """The rows of both, by operator."""
    result = dict(before)
    for op_id, failed in later.items():
        result[op_id] = result[op_id].and_then(failed) if op_id in result else failed
    return result


def failing_rows(fails: Callable[[pa.Table], bool], table: pa.Table) -> Ints:
    """The places of all rows on which `fails` is true; it is true for a table with any such row."""
    found: list[int] = []
    parts = [(0, table.num_rows)] if table.num_rows and fails(table) else []
    while parts:
        start, count = parts.pop()
        if count == 1:
            found.append(start)
            continue
        half = count // 2
        parts += [
            (first, rows)
            for first, rows in ((start, half), (start + half, count - half))
            if fails(table.slice(first, rows))
        ]
    return np.array(sorted(found), np.int64)


def kept_of(rows: int, failing: Ints) -> pa.Array:
    """Which of so many rows are not among the failing ones."""
    kept = np.ones(rows, np.bool_)
    kept[failing] = False
    return pa.array(kept)


def of_sound_rows(
    compute: Callable[[pa.Table], _Result],
    table: pa.Table,
    on_failure: OnFailure | None,
    check: Callable[[pa.Table], object] | None = None,
    failing: Callable[[pa.Table], Ints] | None = None,
) -> _Result:
    """The result of `compute` for the table; with `on_failure`, for its rows without those that fail alone.

    check: fails on the same rows as `compute`, at less cost. failing: finds the places of these rows at
    once, where one can; else they are searched for. A failure without `on_failure`, or of rows
    none of which fails alone, is raised.
    """
    if on_failure is None:
        return compute(table)
    try:
        return compute(table)
    except EvaluationError:
        find = failing or partial(failing_rows, partial(_fails, check or compute))
        places = find(table)
        if not len(places):
            raise
    try:
        compute(table.slice(int(places[0]), 1))
    except EvaluationError as error:
        on_failure(len(places), error)
    return compute(table.filter(kept_of(table.num_rows, places)))


def _fails(compute: Callable[[pa.Table], object], table: pa.Table) -> bool:
    try:
        compute(table)
    except EvaluationError:
        return True
    return False
