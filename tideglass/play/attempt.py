"""What goes into the playground and what comes out of it, as documents: both cross a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tideglass.connect.reference.snapshot import FileSnapshot
from tideglass.core.documents import Document
from tideglass.project.settings import JobSettings

#: Of an attempt; one beyond them is refused. They bound what the page's process holds, too.
MOST_EVENTS, MOST_QUERY_CHARACTERS, MOST_EVENT_CHARACTERS = 500, 50_000, 200_000
#: Of an outcome; what is beyond is counted and left out.
MOST_ROWS, MOST_WINDOWS = 1_000, 400


@dataclass(frozen=True, slots=True)
class Tolerances:
    """The time policies of an attempt.

    late_seconds, early_seconds: the tolerances; None: no limit.
    out_of_order_seconds: the tolerance.
    drop: what is beyond the tolerances is dropped, else its time is adjusted.
    """

    late_seconds: float | None = None
    early_seconds: float | None = 300.0
    out_of_order_seconds: float = 0.0
    drop: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """A query and events to be tried.

    query: its text.
    events: a JSON object a line, in the order of arrival. `_arrival` is the arrival time (ISO text; without
        it an event arrives at its event time), `_partition` a number, `_input` the input, which a query over
        one input need not name.
    tolerances: the time policies.
    """

    query: str
    events: str
    tolerances: Tolerances = Tolerances()


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with an attempt.

    code: a stable name.
    message, hint: for people.
    severity: "error" or "warning".
    where: "query", "events" or "tolerances".
    line, column, end_line, end_column: from 1; None where there is no place.
    """

    code: str
    message: str
    hint: str = ""
    severity: str = "error"
    where: str = "query"
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None


@dataclass(frozen=True, slots=True)
class PlayedEvent:
    """An event and what the policies of one reader decided.

    line: of the events, from 1.
    input, partition, reader: where it was read.
    key: its substream; None without OVER.
    event_time_ticks: what TIMESTAMP BY reads; None: no time.
    arrival_time_ticks: when it arrived.
    decision: a name of `Decision` in lower case.
    outcome: "accepted", "adjusted" or "dropped".
    words: the decision in words.
    system_timestamp_ticks: the time it has in the query; None: it was dropped.
    watermark_before_ticks, watermark_after_ticks: of its partition, or of its substream; None: none yet.
    """

    line: int
    input: str
    partition: int
    reader: int
    key: str | None
    event_time_ticks: int | None
    arrival_time_ticks: int
    decision: str
    outcome: str
    words: str
    system_timestamp_ticks: int | None
    watermark_before_ticks: int | None
    watermark_after_ticks: int | None


@dataclass(frozen=True, slots=True)
class PlayedRow:
    """A row of an output.

    output: its name.
    at_ticks: its System.Timestamp.
    row: the columns in their order, each value as people read it: text as it is, other values as JSON, None
        for NULL. A browser would round large numbers.
    line: of the event after which it was emitted; None: at the end of the input.
    """

    output: str
    at_ticks: int
    row: tuple[tuple[str, str | None], ...]
    line: int | None

    @property
    def values(self) -> dict[str, str | None]:
        """The values by column."""
        return dict(self.row)


@dataclass(frozen=True, slots=True)
class PlayedWindow:
    """A window `(start, end]` of a GROUP BY and the events in it.

    operator: its number in the topology.
    text: the window in words.
    start_ticks, end_ticks: its ends.
    events: how many events are in it, before WHERE and grouping.
    opened_line: of the first event in it.
    closed_line: of the event whose watermark closed it; None: only the end of the input does.
    """

    operator: int
    text: str
    start_ticks: int
    end_ticks: int
    events: int
    opened_line: int
    closed_line: int | None


@dataclass(frozen=True, slots=True)
class PlayedWatermark:
    """The watermark of the whole job behind an event.

    line: of the event.
    input_ticks: the least of all partitions and readers; None: some have none yet.
    output_ticks: the least of all operators that write an output; None: some have none yet.
    """

    line: int
    input_ticks: int | None
    output_ticks: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an attempt.

    problems: errors keep it from being run; warnings do not.
    inputs: those the query reads.
    outputs: those it writes.
    events: per reader, in the order of the lines.
    watermarks: behind every event.
    windows: tumbling and hopping ones over events, in the order of their ends.
    rows: in the order in which they were emitted.
    rows_left_out, windows_left_out: beyond what an outcome holds.
    seconds: how long it took.
    """

    problems: tuple[Problem, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    events: tuple[PlayedEvent, ...] = ()
    watermarks: tuple[PlayedWatermark, ...] = ()
    windows: tuple[PlayedWindow, ...] = ()
    rows: tuple[PlayedRow, ...] = ()
    rows_left_out: int = 0
    windows_left_out: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Playground:
    """What the playground begins with, and what does not change while one plays.

    name: of the project, or of the example.
    attempt: what is shown first.
    settings: of the job; of them an attempt has tolerances of its own.
    functions: JavaScript source by name.
    references: names of reference inputs.
    snapshots: by reference input, its files as they were when the playground began, by the time from which
        each holds; one that is not there cannot be read.
    inputs: names of the inputs; empty: any.
    """

    name: str
    attempt: Attempt
    settings: JobSettings = JobSettings()
    functions: Mapping[str, str] = field(default_factory=dict[str, str])
    references: tuple[str, ...] = ()
    snapshots: Mapping[str, tuple[FileSnapshot, ...]] = field(
        default_factory=dict[str, tuple[FileSnapshot, ...]]
    )
    inputs: tuple[str, ...] = ()


ATTEMPT, OUTCOME, PLAYGROUND = Document(Attempt), Document(Outcome), Document(Playground)
