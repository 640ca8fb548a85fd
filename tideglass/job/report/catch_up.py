"""Catching up: how much a run has read of what its inputs already held when it started (`asa.md` 7.3).

The service shows nothing while a job recovers. What is left to read is known from the positions of the
inputs, in their own units (bytes of a file, messages of a topic); the number of events is estimated from
those read so far, input by input, since a byte is not a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tideglass.connect.source import StreamInput
from tideglass.core.positions import InputPositions, Positions, size_of
from tideglass.job.report.status import CatchUpStatus


def sizes(positions: InputPositions) -> dict[str, int]:
    """How much of each input lies before the positions, in its own units."""
    return {
        name: sum(size_of(position) for position in partitions.values())
        for name, partitions in positions.items()
    }


def there_now(inputs: Iterable[StreamInput], read: InputPositions) -> InputPositions:
    """The positions at the end of what the inputs hold at this moment. Looks at directories."""
    result: dict[str, Positions] = {}
    for source in inputs:
        at = read.get(source.name, {})
        # First the events to be read again, then new ones.
        result[source.name] = source.latest(at if source.is_replayed(at) else source.latest(at))
    return result


@dataclass(slots=True)
class CatchUp:
    """Follows a run until it has read all that was there when it started.

    Times before the first batch count too, since the user waits.

    cause: why the run started, in words
    began_from: where it reads on, in words
    began: by input, the size of its position at the start
    goal: by input, the size of what was there at the start
    began_seconds: when it started, by a monotonic clock
    reached: by input, the size of its position now
    events_of: by input, the events read since the start
    seconds: how long it has taken so far
    """

    cause: str
    began_from: str
    began: Mapping[str, int]
    goal: Mapping[str, int]
    began_seconds: float
    reached: dict[str, int] = field(default_factory=dict[str, int])
    events_of: Mapping[str, int] = field(default_factory=dict[str, int])
    seconds: float = 0.0

    def advance(self, reached: InputPositions, events_of: Mapping[str, int], now_seconds: float) -> None:
        """A batch is done: the positions at its end, and the events read since the start."""
        for name, now in sizes(reached).items():
            self.reached[name] = max(now, self.reached.get(name, 0))
        self.events_of = events_of
        self.seconds = now_seconds - self.began_seconds

    @property
    def events(self) -> int:
        return sum(self.events_of.values())

    @property
    def has_backlog(self) -> bool:
        """Whether there was anything to catch up with."""
        return any(size > self.began.get(name, 0) for name, size in self.goal.items())

    @property
    def done(self) -> bool:
        return all(share >= 1 for share in self._shares().values())

    @property
    def share(self) -> float:
        """What part of it is read, 0 to 1: of the events that were there, as far as their number is known."""
        shares = self._shares()
        least = min(shares.values(), default=1.0)
        read = sum(self.events_of.get(name, 0) for name in shares)
        if not (least and read):
            return least
        return read / sum(self.events_of.get(name, 0) / share for name, share in shares.items())

    def _shares(self) -> dict[str, float]:
        """The part read of each input with a backlog."""
        return {
            name: min(1.0, (self.reached.get(name, began) - began) / (goal - began))
            for name, goal in self.goal.items()
            if goal > (began := self.began.get(name, 0))
        }

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
