"""What happens to a job in time, as a list of steps: the `transcript` of a case file.

    --- transcript              (or: --- transcript files dataframes: on these drivers only)
    batch @61                   a micro-batch at this second of the clock, and the events that come in it:
    events/0      {"t": "@60"}  input, partition and payload; the event arrives when the batch is run
    events/1 @57  {"t": "@60"}  or earlier
    idle @75                    a micro-batch without an event
    restart                     the job ends and goes on from its state
    rebuild                     the job ends, its state is thrown away and built anew from its inputs
    end                         the inputs are finished; everything is flushed
    rows output                 all rows that the output was given since it was last asked for are:
    {"n": 1, "at": "@70"}
    watermark events/0 = @70    of an input partition, or `watermark stage 1 = @70`; `none` before any
    metric LateInputEvents = 1  of the job; or of a partition: `metric events/0 accepted = 7`

`@61.5` is a time: so many seconds after the start of 2026. As a text of an event or a row it stands for that
time as ISO text. A row that came out and is asked for by no `rows` is a difference too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from support.times import at, ticks_at
from tideglass.core.time import BEFORE_ALL_TICKS, format_ticks

#: A time is so many seconds after the start of 2026.
TIME = re.compile(r"@(-?\d+(?:\.\d+)?)")
PLACE = re.compile(r"(?P<input>\w+)/(?P<partition>\w+)")
EVENT = re.compile(rf"{PLACE.pattern}(?: +(?P<time>{TIME.pattern}))? +(?P<payload>\{{.*)")
#: The drivers a transcript may be meant for; without one it holds on all.
DRIVERS = ("files", "topics", "dataframes")


@dataclass(frozen=True)
class Event:
    """An event that comes in a batch. arrival_ticks: when the broker received it."""

    input: str
    partition: str
    arrival_ticks: int
    payload: dict[str, Any]


@dataclass(frozen=True)
class Batch:
    """A micro-batch at a time of the clock; without events, the job is idle."""

    clock_ticks: int
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Restart:
    """The job ends and goes on from its state."""


@dataclass(frozen=True)
class Rebuild:
    """The job ends and its state is built anew from its inputs, which emits no row."""


@dataclass(frozen=True)
class End:
    """The inputs are finished."""


@dataclass(frozen=True)
class ExpectedRows:
    """All rows of an output since it was last asked for, in any order."""

    output: str
    rows: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class ExpectedWatermark:
    """`of` is `input/partition` or `stage N`; BEFORE_ALL_TICKS stands for no watermark yet."""

    of: str
    ticks: int


@dataclass(frozen=True)
class ExpectedMetric:
    """`of` is `input/partition`, or empty for the job; `name` as the service or `Counters` has it."""

    of: str
    name: str
    value: float


Action: TypeAlias = Batch | Restart | Rebuild | End
Expectation: TypeAlias = ExpectedRows | ExpectedWatermark | ExpectedMetric


@dataclass(frozen=True)
class Step:
    """A line of a transcript, and what lies below it. line: its number in the transcript, from 1."""

    line: int
    does: Action | Expectation


@dataclass(frozen=True)
class Transcript:
    """The steps of a case. drivers: those it holds on."""

    steps: tuple[Step, ...]
    drivers: tuple[str, ...] = DRIVERS

    @property
    def events(self) -> Iterator[Event]:
        """All events, in the order in which they come."""
        for step in self.steps:
            if isinstance(step.does, Batch):
                yield from step.does.events

    @property
    def inputs(self) -> dict[str, list[dict[str, Any]]]:
        """All events as the test kit takes them."""
        found: dict[str, list[dict[str, Any]]] = {}
        for event in self.events:
            place = {"_arrival": format_ticks(event.arrival_ticks), "_partition": int(event.partition)}
            found.setdefault(event.input, []).append(event.payload | place)
        return found

    @property
    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """All rows every output is expected to be given."""
        found: dict[str, list[dict[str, Any]]] = {}
        for step in self.steps:
            if isinstance(step.does, ExpectedRows):
                found.setdefault(step.does.output, []).extend(step.does.rows)
        return found

    def does(self, *kinds: type[Action]) -> bool:
        """Whether a step is of one of these kinds."""
        return any(isinstance(step.does, kinds) for step in self.steps)

    @property
    def idles(self) -> bool:
        """Whether the clock goes on without an event."""
        return any(isinstance(step.does, Batch) and not step.does.events for step in self.steps)

    @property
    def partition_appears(self) -> bool:
        """Whether a partition of an input sends its first event after another has sent one."""
        first: dict[str, set[str]] = {}
        for step in self.steps:
            if isinstance(step.does, Batch):
                now: dict[str, set[str]] = {}
                for event in step.does.events:
                    now.setdefault(event.input, set()).add(event.partition)
                if any(
                    not partitions <= first.setdefault(name, partitions) for name, partitions in now.items()
                ):
                    return True
        return False


def parse(drivers: str, body: Sequence[str]) -> Transcript:
    """The transcript in the lines of a section; raises ValueError, naming the line, for what is none."""
    for driver in drivers.split():
        if driver not in DRIVERS:
            raise ValueError(f"no driver is named {driver!r}; there are {', '.join(DRIVERS)}")
    blocks: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(map(str.strip, body), 1):
        if not line:
            continue
        if line.startswith("{") or EVENT.fullmatch(line):
            if not blocks:
                raise ValueError(f"line {number} of the transcript: {line!r} belongs to no step")
            blocks[-1][2].append(line)
        else:
            blocks.append((number, line, []))
    return Transcript(tuple(_steps(blocks)), tuple(drivers.split()) or DRIVERS)


def _steps(blocks: Iterable[tuple[int, str, list[str]]]) -> Iterator[Step]:
    clock_ticks = BEFORE_ALL_TICKS
    for number, line, below in blocks:
        try:
            does = _step(line, below)
        except ValueError as error:
            raise ValueError(f"line {number} of the transcript: {error}") from error
        if isinstance(does, Batch):
            if does.clock_ticks < clock_ticks:
                raise ValueError(f"line {number} of the transcript: the clock runs backwards")
            clock_ticks = does.clock_ticks
        yield Step(number, does)


def _step(line: str, below: Sequence[str]) -> Action | Expectation:
    verb, _, rest = line.partition(" ")
    left, _, right = (part.strip() for part in rest.rpartition("="))
    match verb:
        case "batch" if below:
            clock_ticks = ticks(rest)
            return Batch(clock_ticks, tuple(_event(each, clock_ticks) for each in below))
        case "rows" if rest:
            return ExpectedRows(rest, tuple(_row(each) for each in below))
        case _ if below:
            raise ValueError(f"nothing belongs below {line!r}")
        case "idle":
            return Batch(ticks(rest))
        case "restart" | "rebuild" | "end" if not rest:
            return {"restart": Restart, "rebuild": Rebuild, "end": End}[verb]()
        case "watermark":
            if not PLACE.fullmatch(left) and not re.fullmatch(r"stage \d+", left):
                raise ValueError(f"{left!r} is neither an input partition nor a stage")
            return ExpectedWatermark(left, BEFORE_ALL_TICKS if right == "none" else ticks(right))
        case "metric":
            of, _, name = left.rpartition(" ")
            return ExpectedMetric(of, name, float(right))
        case _:
            raise ValueError(f"{line!r} is no step")


def _event(line: str, clock_ticks: int) -> Event:
    found = EVENT.fullmatch(line)
    if found is None:
        raise ValueError(f"{line!r} is no event")
    arrival_ticks = clock_ticks if found["time"] is None else ticks(found["time"])
    if arrival_ticks > clock_ticks:
        raise ValueError(f"{line!r} arrives after its batch")
    return Event(found["input"], found["partition"], arrival_ticks, _row(found["payload"]))


def ticks(text: str) -> int:
    """The time of `@61.5`."""
    found = TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no time; write @61.5, seconds after the start of 2026")
    return ticks_at(float(found[1]))


def _row(text: str) -> dict[str, Any]:
    return _with_times(json.loads(text))


def _with_times(value: Any) -> Any:
    """The value with every text that is a time written as ISO text."""
    if isinstance(value, dict):
        return {name: _with_times(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_times(each) for each in value]
    found = TIME.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else at(float(found[1]))
