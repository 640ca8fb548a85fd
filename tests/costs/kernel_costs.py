"""What a kernel costs in figures that do not depend on how busy the machine is.

    python_instructions   steps of the Python interpreter: a loop over rows shows here first
    arrow_bytes           bytes Arrow's memory pool has given out, freed or not: copies of columns
    peak_bytes            most bytes of Python and numpy objects held at once
    statements, rows      SQL statements given to DuckDB, and rows handed to them

A figure is taken in a run of its own, after a first run that fills every cache.

    python tests/costs/kernel_costs.py            the figures beside their thresholds
    python tests/costs/kernel_costs.py --renew    write them as the new thresholds
"""

from __future__ import annotations

import json
import os
import sys
import tracemalloc
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

from tideglass.core import sql

THRESHOLDS = Path(__file__).with_name("thresholds.json")

#: What a figure may grow by before it counts: versions of Python, numpy and Arrow differ by less, and
#: a loop over rows, a copy of every column or a second pass costs far more.
ALLOWANCE = 1.3
#: And by how much in any case, so that a small figure is not held to a few objects.
ALLOWED = {
    "python_instructions": 5_000,
    "arrow_bytes": 65_536,
    "peak_bytes": 262_144,
    "statements": 0,
    "rows": 0,
}


@dataclass(frozen=True, slots=True)
class Cost:
    """The figures of one case; see the module."""

    python_instructions: int
    arrow_bytes: int
    peak_bytes: int
    statements: int
    rows: int


@dataclass(frozen=True, slots=True)
class Excess:
    """A figure above what its threshold allows."""

    case: str
    figure: str
    measured: int
    threshold: int

    def __str__(self) -> str:
        return f"{self.case}: {self.figure} is {self.measured:,}, the threshold {self.threshold:,}"


def cost_of(work: Callable[[], object]) -> Cost:
    """The cost of calling `work`, which must do the same at every call."""
    with _counted() as duck:
        work()
        pool = pa.default_memory_pool()
        before = pool.total_bytes_allocated(), duck.statements, duck.rows
        work()
        after = pool.total_bytes_allocated(), duck.statements, duck.rows
        arrow_bytes, statements, rows = (a - b for a, b in zip(after, before, strict=True))
        return Cost(_instructions(work), arrow_bytes, _peak_bytes(work), statements, rows)


def _instructions(work: Callable[[], object]) -> int:
    count = 0

    def step(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            count += 1
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def _peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class _CountingConnection:
    """Stands before DuckDB's connection and counts what it is given."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.statements = 0
        self.rows = 0

    def register(self, name: str, table: pa.Table) -> Any:
        self.rows += table.num_rows
        return self.real.register(name, table)

    def sql(self, text: str) -> Any:
        self.statements += 1
        return self.real.sql(text)

    def execute(self, text: str) -> Any:
        self.statements += 1
        return self.real.execute(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


#: Functions are made known to a connection once, told by its identity, which must not be given again.
_counting: list[_CountingConnection] = []


@contextmanager
def _counted() -> Generator[_CountingConnection]:
    """Meanwhile all statements of this process go through a counting connection of its own."""
    connections: dict[int, Any] = sql._connections  # type: ignore[assignment]
    connections.clear()
    _counting.append(_CountingConnection(sql.connection()))
    connections[os.getpid()] = _counting[-1]
    try:
        yield _counting[-1]
    finally:
        connections.clear()


# ---------------------------------------------------------------- thresholds


def thresholds() -> dict[str, Cost]:
    """The thresholds that are kept, by case."""
    return {case: Cost(**figures) for case, figures in json.loads(THRESHOLDS.read_text()).items()}


def renew(costs: Mapping[str, Cost]) -> None:
    """Keep these figures as the thresholds; a case that is not among them loses its own."""
    content = {case: asdict(cost) for case, cost in sorted(costs.items())}
    THRESHOLDS.write_text(json.dumps(content, indent=2) + "\n")


def excesses(case: str, cost: Cost, threshold: Cost) -> Sequence[Excess]:
    """The figures of a case that have grown beyond the allowance."""
    found: list[Excess] = []
    for each in fields(Cost):
        measured, kept = getattr(cost, each.name), getattr(threshold, each.name)
        if measured > max(kept * ALLOWANCE, kept + ALLOWED[each.name]):
            found.append(Excess(case, each.name, measured, kept))
    return found


def main() -> None:
    from kernel_work import WORK

    costs = {name: cost_of(make()) for name, make in WORK.items()}
    if "--renew" in sys.argv[1:]:
        renew(costs)
    known = thresholds()
    for name, cost in costs.items():
        kept = known.get(name, replace(cost, python_instructions=0))
        told = "  ".join(
            f"{f.name} {getattr(cost, f.name):,} ({getattr(kept, f.name):,})" for f in fields(Cost)
        )
        print(f"{name:24} {told}")


if __name__ == "__main__":
    main()
