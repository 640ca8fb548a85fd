"""Calls the outputs of a job on the driver: retries, rows that are refused, and outputs that are dead.

Each output of a batch is called as soon as it can be; one that does not take its rows keeps none of the
others waiting, but the batch. While a batch waits no other begins, so no event is read and nothing piles up:
the inputs hold what comes.

the output raises    OutputErrorPolicy   what is done
OutputUnavailable    any                 tried again after a pause: until it works, or stop or time-out
RowsRefused          Stop (Retry)        the same
RowsRefused          Drop                the rows are counted, logged and taken out; the rest is published
any other error      any                 the run ends
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import pyarrow as pa

from tideglass.connect.output import Batch, OutputConnector
from tideglass.connect.refused_rows import RefusedRow, RowsRefused
from tideglass.core.errors import OutputError, OutputUnavailable
from tideglass.core.failpoints import failpoint
from tideglass.core.json_rows import json_lines
from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS
from tideglass.engine.messages import Message
from tideglass.job.output_retries import Retries
from tideglass.job.outputs import BatchRows, rows_of_batch, staged_tables
from tideglass.job.progress.published import Published, place_of
from tideglass.job.report.output_calls import OutputCalls, RefusedSample
from tideglass.spark.stop_asked import StopAsked
from tideglass.storage import StoragePath

#: Waits for so many seconds; True as soon as the run is to stop.
Wait: TypeAlias = Callable[[float], bool]

#: Between two looks at whether the run still holds its job directory.
_LOOK_SECONDS = 5.0


def _waits(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _holds() -> None:
    """Nobody else can have the job directory."""


@dataclass(slots=True)
class _Dead:
    """An output whose call failed: since when, how often, when it is tried again, and the newest error."""

    since_seconds: float
    tries: int
    due_seconds: float
    error: OutputError


@dataclass(slots=True)
class OutputPublisher:
    """The outputs of a run.

    outputs: by name.
    calls: counts what became of the calls, and shows what waits.
    policy: of rows that an output refuses.
    retries: how often and how long.
    wait: waits for a retry.
    check: called before every retry; raises where the run is no longer to write.
    generation: where it is kept which outputs have their rows; None keeps nothing.
    """

    outputs: Mapping[str, OutputConnector]
    calls: OutputCalls = field(default_factory=OutputCalls)
    policy: Literal["stop", "drop"] = "stop"
    retries: Retries = Retries()
    wait: Wait = _waits
    check: Callable[[], None] = _holds
    generation: StoragePath | None = None

    # ------------------------------------------------------------ the steps of a batch

    def publish(self, batch: Batch, messages: Sequence[Message], names: Sequence[str]) -> BatchRows:
        """Make visible what the tasks have staged in a batch. May be repeated for the same batch.

        names: of the outputs, by ordinal, as messages refer to them.
        Raises StopAsked where the run is to stop before all have theirs, and OutputError that ends it.
        """
        found = rows_of_batch(messages, names, self.calls)
        shown: dict[str, Sequence[pa.Table]] = {}
        dropped: dict[str, int] = {}
        published = self._published(batch.number)

        def publishing(name: str, tables: Sequence[pa.Table]) -> Callable[[], None]:
            of_output = _Publishing(self, name, tables)

            def call() -> None:
                failpoint(f"before-publish-{name}", batch.number)
                shown[name] = of_output.publish(batch)
                dropped[name] = of_output.dropped
                failpoint(f"after-publish-{name}", batch.number)

            return call

        staged = staged_tables(messages, names)
        done = {
            name: one.dropped for name, one in published.outputs.items() if self._is_same(name, one.place)
        }
        calls = {name: publishing(name, tables) for name, tables in staged.items() if name not in done}

        def waiting(pending: Sequence[str]) -> None:
            nonlocal published
            known = published
            for name in calls:
                if name not in pending and name not in published.outputs:
                    published = published.and_also(name, self._place(name), dropped[name])
            if self.generation is not None and published is not known:
                published.save(self.generation)

        self._call_all(batch, calls, waiting)
        left_out = {name: count for name, count in {**done, **dropped}.items() if count}
        rows = {name: count - left_out.get(name, 0) for name, count in found.rows.items()}
        tables = [(name, table) for name, each in shown.items() for table in each]
        return replace(found, rows=rows, shown=tables, dropped=left_out)

    def advance(self, batch: Batch, watermarks: Mapping[str, int]) -> None:
        """Tell every output how far its rows are complete.

        watermarks: per output, the least time a later row of it may have.
        """

        def advancing(name: str) -> Callable[[], None]:
            ticks = watermarks[name]
            known = BEFORE_ALL_TICKS < ticks < AFTER_ALL_TICKS
            return lambda: self.outputs[name].advance(batch, ticks - 1 if known else ticks)

        self._call_all(batch, {name: advancing(name) for name in self.outputs}, counted=False)

    def finish(self, batch: Batch) -> None:
        """Tell every output that the run ends because its inputs have."""

        def finishing(name: str) -> Callable[[], None]:
            return lambda: self.outputs[name].finish(batch)

        failpoint("before-finish", batch.number)
        self._call_all(batch, {name: finishing(name) for name in self.outputs}, counted=False)
        failpoint("after-finish", batch.number)

    # ------------------------------------------------------------ retries

    def _call_all(
        self,
        batch: Batch,
        pending: Mapping[str, Callable[[], None]],
        waiting: Callable[[Sequence[str]], None] | None = None,
        *,
        counted: bool = True,
    ) -> None:
        """Call each until it succeeds.

        waiting: called whenever some are left, with their names.
        counted: a call counts as one also where it succeeds.
        """
        left, dead = dict(pending), dict[str, _Dead]()
        while left:
            for name, call in list(left.items()):
                if name in dead and dead[name].due_seconds > time.monotonic():
                    continue
                try:
                    with self.calls.calling(name) if counted or name in dead else self.calls.watching(name):
                        call()
                except (OutputUnavailable, RowsRefused) as error:
                    dead[name] = self._dead(name, dead.get(name), error)
                else:
                    del left[name]
                    dead.pop(name, None)
            if left:
                if waiting is not None:
                    waiting(list(left))
                self._wait_for(batch, dead, [name for name in pending if name not in left])

    def _dead(self, name: str, before: _Dead | None, error: OutputUnavailable | RowsRefused) -> _Dead:
        """The output after one more try that failed."""
        now = time.monotonic()
        since, tries = (now, 1) if before is None else (before.since_seconds, before.tries + 1)
        asked = error.retry_after_seconds if isinstance(error, OutputUnavailable) else None
        pause = self.retries.pause_seconds(name, tries, asked)
        if self.retries.timeout_seconds is not None:
            pause = min(pause, max(0.0, since + self.retries.timeout_seconds - now))
        self.calls.waits(name, pause)
        return _Dead(since, tries, now + pause, error)

    def _wait_for(self, batch: Batch, dead: Mapping[str, _Dead], done: Sequence[str]) -> None:
        """Wait until the first of them is due. Raises OutputError for one that has had its time."""
        timeout = self.retries.timeout_seconds
        while True:
            now = time.monotonic()
            for name, each in dead.items():
                if timeout is not None and now - each.since_seconds >= timeout:
                    # Without a cause: of an error in a batch Spark tells the first in a chain.
                    raise OutputError(_timeout_text(name, each, batch, now, done))
            left = min(each.due_seconds for each in dead.values()) - now
            if left <= 0:
                self.check()
                return
            if self.wait(min(left, _LOOK_SECONDS)):
                names = ", ".join(map(repr, dead))
                raise StopAsked(f"stopped while batch {batch.number} waited for {names}")
            self.check()

    # ------------------------------------------------------------ what is published already

    def _published(self, number: int) -> Published:
        return Published(number) if self.generation is None else Published.load(self.generation).of(number)

    def _place(self, name: str) -> str:
        return "" if self.generation is None else place_of(self.outputs[name], self.generation)

    def _is_same(self, name: str, place: str) -> bool:
        return name in self.outputs and place == self._place(name)


@dataclass(slots=True)
class _Publishing:
    """The rows of a batch for one output; those it refuses are taken out where the policy says so."""

    publisher: OutputPublisher
    name: str
    tables: Sequence[pa.Table]
    dropped: int = 0
    _reported: bool = False

    def publish(self, batch: Batch) -> Sequence[pa.Table]:
        """Publish the rows; answers what to show. Raises what the output raises."""
        output = self.publisher.outputs[self.name]
        while any(table.num_rows for table in self.tables):
            try:
                return output.publish(batch, self.tables)
            except RowsRefused as error:
                self._see(error)
                drops = self.publisher.policy == "drop"
                if drops or not self._reported:  # with Stop the same rows are refused again and again
                    self._reported = True
                    self.publisher.calls.refused(self.name, samples(self.tables, error.rows), dropped=drops)
                if not drops:
                    raise
                self.tables = without(self.tables, error.rows)
                self.dropped += len(error.rows)
        return ()

    def _see(self, error: RowsRefused) -> None:
        """Raises OutputError for rows that were not handed to the output."""
        places = [(each.part, each.row) for each in error.rows]
        known = all(
            0 <= part < len(self.tables) and 0 <= row < self.tables[part].num_rows for part, row in places
        )
        if not known or len(set(places)) < len(places):
            raise OutputError(
                f"the output {self.name!r} refuses rows it was not called with: {error}"
            ) from error


def without(tables: Sequence[pa.Table], refused: Sequence[RefusedRow]) -> list[pa.Table]:
    """The tables without some of their rows; those that are empty then are left out."""
    rows_of: dict[int, set[int]] = {}
    for each in refused:
        rows_of.setdefault(each.part, set()).add(each.row)
    found: list[pa.Table] = []
    for part, table in enumerate(tables):
        gone = rows_of.get(part, set())
        kept = [row not in gone for row in range(table.num_rows)] if gone else None
        found.append(table if kept is None else table.filter(pa.array(kept, pa.bool_())))
    return [table for table in found if table.num_rows]


def samples(tables: Sequence[pa.Table], refused: Sequence[RefusedRow]) -> list[RefusedSample]:
    """By kind, how many rows are refused, why the first, and that row as JSON."""
    found: dict[str, RefusedSample] = {}
    for each in refused:
        known = found.get(each.kind.value)
        if known is None:
            text = json_lines(tables[each.part].slice(each.row, 1))[0].as_py()
            found[each.kind.value] = RefusedSample(each.kind.value, 1, each.reason, text)
        else:
            found[each.kind.value] = replace(known, count=known.count + 1)
    return list(found.values())


def _timeout_text(name: str, dead: _Dead, batch: Batch, now_seconds: float, done: Sequence[str]) -> str:
    before = (
        "nothing is committed" if batch.number == 0 else f"batches up to {batch.number - 1} are committed"
    )
    others = f"; {', '.join(map(repr, done))} have their rows of it" if done else ""
    return (
        f"the output {name!r} did not take batch {batch.number} in {now_seconds - dead.since_seconds:.0f} s "
        f"({dead.tries} tries): {dead.error}\n"
        f"  {before}, batch {batch.number} is not{others}\n"
        "  hint: the next run goes on with this batch, no row is lost; --output-timeout SECONDS waits longer"
    )
