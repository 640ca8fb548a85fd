"""Batches of a Delta table under crashes: what a reader sees is what an undisturbed run has written."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from support.tables import typed_table
from tideglass.connect.delta.delta_commits import DeltaCommits
from tideglass.connect.delta.output import DeltaOutput
from tideglass.connect.output import Batch
from tideglass.core.errors import OutputError
from tideglass.core.types import Type
from tideglass.storage import storage_path


class Killed(Exception):
    """The run dies here."""


#: Where a publication dies: before or after the call of that name.
STEPS = [None, *((call, when) for call in ("opened", "create", "append") for when in ("before", "after"))]


@dataclass(frozen=True)
class Try:
    """One publication of a batch.

    step: of STEPS, where it dies. parts: into how many the rows are cut.
    """

    step: Any
    parts: int


@dataclass(frozen=True)
class Published:
    """A batch: its rows, and the tries before the one that succeeds. anew: a generation begins with it."""

    rows: list[int]
    tries: list[Try]
    anew: bool


TRIES = st.lists(st.builds(Try, st.sampled_from(STEPS), st.integers(1, 3)), max_size=3)
BATCHES = st.lists(
    st.builds(
        Published,
        st.lists(st.integers(0, 5), min_size=1, max_size=5),
        TRIES,
        st.sampled_from([False] * 3 + [True]),
    ),
    min_size=1,
    max_size=4,
)


def parts_of(rows: list[int], count: int) -> list[pa.Table]:
    return [typed_table(n=(rows[at::count], Type.BIGINT)) for at in range(count) if rows[at::count]]


def published(output: DeltaOutput, batch: Batch, rows: list[int], attempt: Try) -> None:
    """Publish, and die where the attempt says. Raises Killed."""
    with pytest.MonkeyPatch.context() as patch:
        if attempt.step is not None:
            call, when = attempt.step
            original = getattr(DeltaCommits, call)

            def dying(self: DeltaCommits, *arguments: Any) -> None:
                if when == "after":
                    original(self, *arguments)
                raise Killed

            patch.setattr(DeltaCommits, call, dying)
        output.publish(batch, [output.stage(part, "") for part in parts_of(rows, attempt.parts)])


@given(BATCHES)
def test_every_row_is_there_once_wherever_a_publication_dies(batches):
    with tempfile.TemporaryDirectory() as folder:
        output, generation, number = DeltaOutput("out", storage_path(folder)), 1, -1
        for each in batches:
            generation, number = (generation + 1, 0) if each.anew else (generation, number + 1)
            for attempt in [*each.tries, Try(None, 1)]:
                try:
                    published(output, Batch(generation, number, "job"), each.rows, attempt)
                except Killed:
                    continue
        wanted = sorted(row for each in batches for row in each.rows)
        assert sorted(DeltaTable(folder).to_pyarrow_table()["n"].to_pylist()) == wanted


@given(BATCHES, st.data())
def test_an_old_copy_of_a_job_directory_doubles_nothing(batches, data):
    """The run of the copy publishes batches with numbers that are taken, of the same rows or of others."""
    with tempfile.TemporaryDirectory() as folder:
        output = DeltaOutput("out", storage_path(folder))
        for number, each in enumerate(batches):
            published(output, Batch(1, number, "job"), each.rows, Try(None, 1))
        there = sorted(DeltaTable(folder).to_pyarrow_table()["n"].to_pylist())
        copy = data.draw(st.integers(0, len(batches) - 1))
        rows = batches[copy].rows if data.draw(st.booleans()) else [*batches[copy].rows, 9]
        repeats_last = copy == len(batches) - 1 and rows == batches[copy].rows
        with nullcontext() if repeats_last else pytest.raises(OutputError, match="DELTA_BATCH_DIFFERS"):
            published(output, Batch(1, copy, "job"), rows, Try(None, 1))
        assert sorted(DeltaTable(folder).to_pyarrow_table()["n"].to_pylist()) == there


def test_many_batches_leave_a_log_that_is_read_from_a_checkpoint(tmp_path: Path):
    """The library writes one every hundred commits; what the application has committed is in it."""
    output = DeltaOutput("out", storage_path(tmp_path))
    for number in range(120):
        published(output, Batch(1, number, "job"), [number], Try(None, 1))
    assert list((tmp_path / "_delta_log").glob("*.checkpoint.parquet"))
    published(output, Batch(1, 119, "job"), [119], Try(None, 1))
    with pytest.raises(OutputError, match="DELTA_BATCH_DIFFERS"):
        published(output, Batch(1, 118, "job"), [118], Try(None, 1))
    assert sorted(DeltaTable(str(tmp_path)).to_pyarrow_table()["n"].to_pylist()) == list(range(120))
