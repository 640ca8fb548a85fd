"""Catching up: how far a run has come in what its inputs already held when it started (`asa.md` 7.3).

The service shows nothing while a job recovers. What is left to read is known from the positions of the
inputs, in their own units (bytes of a file); how many events that will be is told from those read so far.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tideglass.connect.inputs.stream import StreamInput
from tideglass.job.status import CatchUpStatus

#: Per input and partition, how far it is read; as in the offsets of `spark.source`.
Positions: TypeAlias = Mapping[str, Mapping[str, Sequence[Sequence[Any]]]]


def size(positions: Positions) -> int:
    """How much lies before the positions, in the units of the inputs."""
    return sum(
        int(end) - int(begin)
        for partitions in positions.values()
        for pieces in partitions.values()
        for _, begin, end, _ in pieces
    )


def there_now(inputs: Iterable[StreamInput], read: Positions) -> Positions:
    """The positions at the end of what the inputs hold at this moment. Looks at directories."""
    result: dict[str, Mapping[str, Sequence[Sequence[Any]]]] = {}
    for source in inputs:
        at = read.get(source.name, {})
        # First comes what is to be read again, then what is new.
        result[source.name] = source.latest(at if source.is_replayed(at) else source.latest(at))
    return result


@dataclass(slots=True)
class CatchUp:
    """Follows a run until it has read all that was there when it started.

    began_from: where it began, in words. began_size, goal_size: of the positions then, and of the end of
    what was there. Seconds are of one clock; times before the first batch count too, since the user waits.
    """

    cause: str
    began_from: str
    began_size: int
    goal_size: int
    began_seconds: float
    reached_size: int = 0
    events: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.reached_size = self.began_size

    def advance(self, reached: Positions, events: int, now_seconds: float) -> None:
        """A batch is done: the positions at its end, and the events read since the start."""
        self.reached_size = max(self.reached_size, size(reached))
        self.events = events
        self.seconds = now_seconds - self.began_seconds

    @property
    def done(self) -> bool:
        return self.reached_size >= self.goal_size

    @property
    def share(self) -> float:
        """What part of it is read, 0 to 1."""
        whole = self.goal_size - self.began_size
        return 1.0 if whole <= 0 else min(1.0, (self.reached_size - self.began_size) / whole)

    def status(self, now_seconds: float) -> CatchUpStatus:
        """How it stands; the rate, and with it the time left, counts from the start of the run."""
        seconds = now_seconds - self.began_seconds
        known = self.share > 0 and self.seconds > 0
        spent = self.seconds / self.share * (1 - self.share) - (seconds - self.seconds) if known else None
        return CatchUpStatus(
            self.cause,
            self.began_from,
            self.events,
            round(self.events / self.share) if known else None,
            self.events / self.seconds if known else None,
            self.share,
            seconds,
            None if spent is None else max(0.0, spent),
        )


def logged_sources(checkpoint: Path, batch_id: int) -> list[dict[str, Any] | None]:
    """The offset of every source at the end of a batch, from Spark's log; None of one that has none yet."""
    # A version, Spark's own facts, then a line per source in the order of the query.
    lines = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[2:]
    return [None if line == "-" else json.loads(line) for line in lines]


def logged_offset(checkpoint: Path, batch_id: int) -> dict[str, Any]:
    """The offset of the job's own source at the end of a batch; `spark.source` says what it is.

    Raises LookupError where the log has none.
    """
    for each in logged_sources(checkpoint, batch_id):
        if each is not None and "inputs" in each:
            return each
    raise LookupError(f"batch {batch_id} has no offset of the job's own source")


def positions_of(offset: Mapping[str, Any]) -> Positions:
    """The positions in an offset."""
    return {
        name: {partition: state["position"] for partition, state in states.items()}
        for name, states in offset["inputs"].items()
    }


def last_batch(checkpoint: Path) -> int | None:
    """The last batch that is wholly done, from Spark's log of commits; None when there is none."""
    done = [int(file.name) for file in (checkpoint / "commits").glob("*") if file.name.isdigit()]
    return max(done, default=None)
