"""Plays a transcript on Spark: its micro-batches, its offset log, its state store and its restarts.

Spark's clock cannot be told the time, so nobody may be idle in such a transcript.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from support.cases import Case
from support.players import EventFiles, Watched, compiled_of, source_job
from support.transcript import Batch, End, Expectation, Rebuild, Restart, Step
from tideglass.engine.messages import Message
from tideglass.spark.query import QueryOptions, start, wait

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY_GROUPS = 2


class SparkPlayer:
    """A streaming query over files; the events of the next batch are written when one is committed."""

    def __init__(self, case: Case, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.compiled = compiled_of(case, KEY_GROUPS)
        self.files = EventFiles(folder, self.compiled.topology)
        self.watched = Watched(self.compiled)
        self.found: list[str] = []
        self.waiting: list[Step] = []
        self.committed = -1

    def play(self, steps: Sequence[Step]) -> list[str]:
        """What differs from the steps, each with its line; a run lasts until a restart or the end."""
        self.waiting = list(steps)
        while self.waiting:
            match self.waiting[0].does:
                case Restart():
                    self.waiting.pop(0)
                case End():
                    self.waiting.pop(0)
                    self._run(finished=True)
                case Rebuild():
                    raise AssertionError("the state of this query is never thrown away")
                case Batch():
                    self._write()
                    self._run(finished=False)
                case _:
                    self._expect()
        left = [f"nobody asked for {row}" for rows in self.watched.rows.values() for row in rows]
        return self.found + left

    def _run(self, *, finished: bool) -> None:
        """Until nothing is left to read."""
        inputs = self.files.inputs(finished=finished)
        job = source_job(self.compiled.topology, inputs, self.folder, finished=True)
        options = QueryOptions(str(self.folder / "checkpoint"), job.stop_file)
        wait(start(self.spark, job, options, self._commit), threading.Event())

    def _commit(self, batch: int, messages: list[Message]) -> None:
        if batch <= self.committed:
            return
        self.committed = batch
        self.watched.take(messages)
        self._expect()
        if self.waiting and isinstance(self.waiting[0].does, Batch):
            self._write()

    def _write(self) -> None:
        batch = self.waiting.pop(0).does
        assert isinstance(batch, Batch)
        assert batch.events, "Spark's clock cannot be told the time"
        for event in batch.events:
            self.files.write(event)

    def _expect(self) -> None:
        while self.waiting and isinstance(self.waiting[0].does, Expectation):
            step = self.waiting.pop(0)
            assert isinstance(step.does, Expectation)
            self.found += [f"step {step.line}: {each}" for each in self.watched.differences(step.does)]
