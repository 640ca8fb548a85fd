"""An output of folders that dies at any operation of its store; every row is seen once."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.partitioned_files import START, numbers_in, rows_at
from tideglass.connect.files.folder_pattern import FolderPattern
from tideglass.connect.files.partitioned_output import PartitionedFileOutput, Waiting
from tideglass.connect.output import Batch
from tideglass.core.time import BEFORE_ALL_TICKS, TICKS_PER_HOUR
from tideglass.storage import storage_path
from tideglass.storage.object_store import ObjectFileSystem

PATTERN = FolderPattern("in/{date}/{time}")
PATTERN_BELOW = FolderPattern(PATTERN.below_root)
MODES = (None, Waiting(3, TICKS_PER_HOUR // 2), Waiting(once=True))
#: Operations that change a store.
_CHANGES = ("write", "move", "delete", "delete_folder")


class Killed(BaseException):
    """The process is gone; nothing handles that."""


@contextmanager
def killed_at(operation: int) -> Generator[None]:
    """All changes of a store from this one on do not happen; -1: all happen."""
    left = operation

    def counted(real: Any) -> Any:
        def change(*arguments: Any, **words: Any) -> Any:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return real(*arguments, **words)

        return change

    real_replacing = ObjectFileSystem.replacing

    @contextmanager
    def replacing(self: ObjectFileSystem, path: str, **words: Any) -> Generator[Any]:
        nonlocal left
        with real_replacing(self, path, **words) as file:
            yield file
            if left == 0:
                raise Killed
            left -= 1

    with patch.multiple(
        ObjectFileSystem,
        replacing=replacing,
        **{name: counted(getattr(ObjectFileSystem, name)) for name in _CHANGES},
    ):
        yield


@dataclass(frozen=True)
class GivenBatch:
    """A batch as a test gives it.

    times: of its rows, in quarters of an hour from the start.
    advance: by how many quarters of an hour the watermark goes on.
    kills: at which operation each attempt before the last one dies.
    parts: how many parts each attempt has.
    forgets: the job gives up its state after the batch, and goes on from there.
    """

    times: Sequence[int]
    advance: int
    kills: Sequence[int] = ()
    parts: Sequence[int] = (1,)
    forgets: bool = False


batches = st.builds(
    GivenBatch,
    st.lists(st.integers(0, 11), max_size=4),
    st.integers(0, 5),
    st.lists(st.integers(0, 14), max_size=2),
    st.lists(st.integers(1, 3), min_size=3, max_size=3),
    st.booleans(),
)


@dataclass
class OneJob:
    """A job that writes batches to a folder of its own.

    expected: the numbers of the rows of committed batches by their folder.
    """

    output: PartitionedFileOutput
    expected: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    batch: Batch = Batch(1, 0)
    watermark_ticks: int = START
    given: int = 0

    def attempt(self, rows: Sequence[tuple[int, int]], parts: int, watermark_ticks: int) -> None:
        if rows:
            split = [rows[number::parts] for number in range(parts)]
            staged = [
                self.output.stage(rows_at(part), f"i/{number}") for number, part in enumerate(split) if part
            ]
            self.output.publish(self.batch, staged)
        self.output.advance(self.batch, watermark_ticks)

    def run(self, batch: GivenBatch) -> None:
        """Run a batch until it is committed; each attempt that dies is followed by a start."""
        rows = [(START + time * TICKS_PER_HOUR // 4, self.given + n) for n, time in enumerate(batch.times)]
        self.given += len(rows)
        self.watermark_ticks += batch.advance * TICKS_PER_HOUR // 4
        known_ticks = self.watermark_ticks
        for number, kill in enumerate(batch.kills):
            try:
                with killed_at(kill):
                    self.attempt(rows, batch.parts[number], known_ticks)
            except Killed:
                pass
            known_ticks = BEFORE_ALL_TICKS  # what a new run knows first
            self.output.clear(rows=False)
        self.attempt(rows, batch.parts[-1], known_ticks)
        for time_ticks, number in rows:
            self.expected.setdefault(PATTERN.folder(time_ticks, None), []).append(number)

    def commit(self, forgets: bool, lost: Sequence[int]) -> None:
        """The batch is committed. forgets: a new generation goes on from here, after a batch that is lost."""
        after = self.batch
        self.batch = Batch(after.generation, after.number + 1)
        if forgets:
            rows = [(START + time * TICKS_PER_HOUR // 4, -1) for time in lost]
            self.attempt(rows, 1, self.watermark_ticks + TICKS_PER_HOUR)
            self.output.withdraw(after)
            self.output.clear(rows=False)
            self.batch = Batch(after.generation + 1, 0)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(MODES), st.lists(batches, min_size=1, max_size=5))
def test_every_row_is_seen_once_whatever_dies(waiting: Waiting | None, given_batches: list[GivenBatch]):
    path = storage_path(f"memory://faults/{uuid.uuid4().hex}")
    job = OneJob(PartitionedFileOutput("o", path / PATTERN.root, PATTERN_BELOW, waiting=waiting))
    for each in given_batches:
        job.run(each)
        seen = numbers_in(path)
        for folder, numbers in seen.items():
            assert set(numbers) <= set(job.expected[folder])
            assert len(set(numbers)) == len(numbers)
        if waiting is None:
            assert seen == {folder: sorted(numbers) for folder, numbers in job.expected.items()}
        job.commit(each.forgets, each.times)
    job.output.finish(job.batch)
    assert numbers_in(path) == {folder: sorted(numbers) for folder, numbers in job.expected.items()}
    assert not [*(path / PATTERN.root / "_staging").glob("*")]


@settings(deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers(0, 11), max_size=4), st.integers(0, 5)), max_size=5))
def test_rows_given_once_are_seen_when_their_hour_is_over_and_not_before(
    given_batches: list[tuple[list[int], int]],
):
    path = storage_path(f"memory://faults/{uuid.uuid4().hex}")
    job = OneJob(PartitionedFileOutput("o", path / PATTERN.root, PATTERN_BELOW, waiting=Waiting(once=True)))
    for times, advance in given_batches:
        job.run(GivenBatch(times, advance))
        over = {
            PATTERN.folder(START + hour * TICKS_PER_HOUR, None)
            for hour in range(3)
            if job.watermark_ticks >= START + (hour + 1) * TICKS_PER_HOUR - 1
        }
        assert numbers_in(path) == {
            folder: sorted(numbers) for folder, numbers in job.expected.items() if folder in over
        }
        job.commit(forgets=False, lost=())
