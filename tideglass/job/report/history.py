"""The history of a job's runs: samples of its status over time, for charts; a line each in `history.jsonl`.

A run adds a sample every two seconds, one when it starts and one when it ends. The file is bounded: past
`MOST_BYTES` older samples are thinned: the gap between two grows with their age. It is for
people only, so nobody waits for the disk; a run that starts drops a last line that a crash has cut, and a
reader leaves out what is no whole sample.

Event times are ticks as everywhere (`core.time`); AFTER_ALL_TICKS is the end of the input, None is unknown.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from tideglass.core.documents import Document
from tideglass.job.directory import JobDirectory
from tideglass.job.report.status import InputStatus, Status
from tideglass.storage import StoragePath

#: A history grows no larger; thinning takes it to `_THINNED_BYTES`.
MOST_BYTES = 2_000_000
_THINNED_BYTES = 1_400_000
#: How far apart the history of a job is written whose directory is in an object store.
STORE_SECONDS = 20.0
#: Of an input with more partitions a sample has its `InputSample` only.
MOST_PARTITIONS = 64
#: Thinning lets the gap between two samples grow to this part of their age, then to 1.5 times as much, …
_FIRST_GAP = 0.001
_AT = re.compile(rb'"at_ms":(\d+)')
_UNMARKED = b'"mark":null'


class Mark(StrEnum):
    """Which sample of its run a sample is, where that matters."""

    START = "start"
    END = "end"


class PartitionSample(NamedTuple):
    """One partition of an input, as one reader sees it; an array in the file.

    input: its name.
    reader: its number in the plan.
    partition: its name.
    watermark_ticks, event_time_ticks, last_arrival_ticks: watermark, newest event time that counts, newest
        arrival; None for none yet.
    events: read since the state began.
    """

    input: str
    reader: int
    partition: str
    watermark_ticks: int | None
    event_time_ticks: int | None
    last_arrival_ticks: int | None
    events: int


class StepSample(NamedTuple):
    """An operator over all its ranges; an array in the file.

    operator: its number.
    input_watermark_ticks, output_watermark_ticks: as in `StepStatus`.
    rows_in, rows_out: in this run.
    """

    operator: int
    input_watermark_ticks: int | None
    output_watermark_ticks: int | None
    rows_in: int
    rows_out: int


class EarlyPaneSample(NamedTuple):
    """The early panes of a window at one percentage; an array in the file.

    operator: the number of the window.
    percent, watermark_ticks, rows_out: as in `EarlyPaneStatus`.
    """

    operator: int
    percent: int
    watermark_ticks: int | None
    rows_out: int


@dataclass(frozen=True, slots=True)
class InputSample:
    """An input over all its partitions, as one reader sees it.

    input: its name.
    reader: its number in the plan.
    partitions, known: how many it has, and how many of these have a watermark.
    watermarks_ticks: least, lower quartile, median, upper quartile and largest watermark of those that have
        one; empty for none. The merged watermark is the least, once all partitions have one.
    event_time_ticks, last_arrival_ticks: the newest of all partitions; None for none yet.
    events: read since the state began.
    percentiles_ticks: by p, the least of all partitions (`ReaderReport`).
    """

    input: str
    reader: int
    partitions: int
    known: int
    watermarks_ticks: tuple[int, ...] = ()
    event_time_ticks: int | None = None
    last_arrival_ticks: int | None = None
    events: int = 0
    percentiles_ticks: Mapping[int, int] = field(default_factory=dict[int, int])


@dataclass(frozen=True, slots=True)
class HistorySample:
    """A job at one moment.

    at_ms: when, milliseconds of the epoch by the wall clock of the run.
    run: number of the run.
    state: of the job (`JobState`).
    mark: the first or last sample of its run; None for one in between. A run that was killed has no last one.
    batches, events: done and read by this run.
    rows: emitted per output by this run.
    counters: the service's metrics by API name, since the state began; those that are not 0.
    delay_seconds: the largest watermark delay of all partitions; None before any has a watermark.
    inputs: by input and reader.
    partitions: those of inputs with at most 64.
    steps: in the order of their numbers.
    backlog: per input, messages or bytes that are there and not read.
    memory_bytes: of the processes of the run; None: unknown.
    early_panes: of the windows that have some.
    """

    at_ms: int
    run: int
    state: str
    mark: Mark | None = None
    batches: int = 0
    events: int = 0
    rows: Mapping[str, int] = field(default_factory=dict[str, int])
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    delay_seconds: float | None = None
    inputs: tuple[InputSample, ...] = ()
    partitions: tuple[PartitionSample, ...] = ()
    steps: tuple[StepSample, ...] = ()
    backlog: Mapping[str, int] = field(default_factory=dict[str, int])
    memory_bytes: int | None = None
    early_panes: tuple[EarlyPaneSample, ...] = ()


_DOCUMENT = Document(HistorySample)


def sample_of(status: Status, at_ms: int, mark: Mark | None = None) -> HistorySample:
    """The sample of a status."""
    by_input: dict[tuple[str, int], list[InputStatus]] = {}
    for each in status.inputs:
        by_input.setdefault((each.input, each.reader), []).append(each)
    return HistorySample(
        at_ms=at_ms,
        run=status.run,
        state=status.state,
        mark=mark,
        batches=status.batches,
        events=status.events,
        rows=status.rows,
        counters={name: value for name, value in status.counters.items() if value},
        delay_seconds=status.watermark_delay_seconds,
        inputs=tuple(_merged(partitions) for partitions in by_input.values()),
        partitions=tuple(
            PartitionSample(
                each.input,
                each.reader,
                each.partition,
                each.watermark_ticks,
                each.event_time_ticks,
                each.last_arrival_ticks,
                each.events,
            )
            for partitions in by_input.values()
            if len(partitions) <= MOST_PARTITIONS
            for each in partitions
        ),
        steps=tuple(
            StepSample(
                each.operator,
                each.input_watermark_ticks,
                each.output_watermark_ticks,
                each.rows_in,
                each.rows_out,
            )
            for each in status.steps
        ),
        early_panes=tuple(
            EarlyPaneSample(step.operator, each.percent, each.watermark_ticks, each.rows_out)
            for step in status.steps
            for each in step.early_panes
        ),
        backlog=status.backlog,
        memory_bytes=status.memory_bytes,
    )


def _merged(partitions: Sequence[InputStatus]) -> InputSample:
    """The partitions of one input and reader as one; at least one."""
    watermarks = sorted(each.watermark_ticks for each in partitions if each.watermark_ticks is not None)
    last = len(watermarks) - 1
    percentiles: dict[int, int] = {}
    for each in partitions:
        for p, ticks in each.percentiles_ticks.items():
            percentiles[p] = min(ticks, percentiles.get(p, ticks))
    return InputSample(
        partitions[0].input,
        partitions[0].reader,
        len(partitions),
        len(watermarks),
        tuple(watermarks[last * quarter // 4] for quarter in range(5)) if watermarks else (),
        _newest([each.event_time_ticks for each in partitions]),
        _newest([each.last_arrival_ticks for each in partitions]),
        sum(each.events for each in partitions),
        percentiles,
    )


def _newest(times_ticks: Sequence[int | None]) -> int | None:
    known = [each for each in times_ticks if each is not None]
    return max(known) if known else None


class HistoryWriter:
    """Adds samples to a job's history. One at a time writes it: the run, which holds the job's lock."""

    def __init__(self, directory: JobDirectory) -> None:
        self._path = directory.history
        body = _whole_lines(self._path)
        found = self._path.status()
        if found is not None and len(body) < found.size:
            self._path.write(body, synced=False)
        self._bytes = len(body)
        self._waiting: list[bytes] = []
        self._written_seconds = 0.0

    def add(self, sample: HistorySample) -> None:
        """Add a sample, and thin the older ones when there are too many.

        In an object store, where a file is written as a whole, those of `STORE_SECONDS` are added at once.
        """
        self._waiting.append(_DOCUMENT.body(sample) + b"\n")
        recent = time.monotonic() - self._written_seconds < STORE_SECONDS
        if recent and sample.mark is None and not self._path.is_local:
            return
        lines, self._waiting = b"".join(self._waiting), []
        self._written_seconds = time.monotonic()
        self._write(lines)

    def _write(self, line: bytes) -> None:
        if self._bytes + len(line) > MOST_BYTES:
            body = _thinned(_whole_lines(self._path), _THINNED_BYTES)
            self._path.write(body, synced=False)
            self._bytes = len(body)
        self._path.append(line)
        self._bytes += len(line)


def read_history(directory: JobDirectory, after_ms: int | None = None) -> tuple[HistorySample, ...]:
    """The samples of all runs, oldest first; none of a job without a history.

    after_ms: only those behind the newest one that is not later; no line before that one is decoded, since a
        page asks every two seconds.
    Lines that are no whole sample are left out.
    """
    found: list[HistorySample] = []
    for line in reversed(_whole_lines(directory.history).splitlines()):
        sample = sample_of_line(line)
        if sample is None:
            continue
        if after_ms is not None and sample.at_ms <= after_ms:
            break
        found.append(sample)
    return tuple(reversed(found))


def sample_of_line(line: bytes) -> HistorySample | None:
    """The sample of a line of the file; None for one that is damaged or of a later version."""
    try:
        return _DOCUMENT.of_body(line)
    except ValueError:
        return None


def now_ms() -> int:
    """The wall clock as samples have it."""
    return time.time_ns() // 1_000_000


def _whole_lines(path: StoragePath) -> bytes:
    """The content of a file up to its last line end; nothing where there is no file."""
    try:
        body = path.read_bytes()
    except FileNotFoundError:
        return b""
    return body[: body.rfind(b"\n") + 1]


def _thinned(body: bytes, most_bytes: int) -> bytes:
    """The lines with fewer of the older ones: the gap between two samples grows with their age.

    The first and last samples of runs stay as long as there is anything else to leave out.
    """
    lines = [(int(match[1]), line) for line in body.splitlines(keepends=True) if (match := _AT.search(line))]
    size, gap_by_age = len(body), _FIRST_GAP
    while size > most_bytes and len(lines) > 1:
        newest_ms, kept_ms = lines[-1][0], 0
        kept: list[tuple[int, bytes]] = []
        for at_ms, line in lines:
            if at_ms - kept_ms >= (newest_ms - at_ms) * gap_by_age or _UNMARKED not in line:
                kept.append((at_ms, line))
                kept_ms = at_ms
        lines = kept if gap_by_age < 1 else kept[len(kept) // 2 :]  # nothing but starts and ends is left
        gap_by_age *= 1.5
        size = sum(len(line) for _, line in lines)
    return b"".join(line for _, line in lines)
