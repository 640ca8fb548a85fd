"""The journal of idle periods: what estimated arrival times moved the watermarks of a job (`asa.md` 1.5).

One line for each, added when the batch that saw it is committed; of those at one place of a partition the
last counts. A run that reads the same events again applies them at the same places. Once the next event has
arrived no earlier than estimated, an idle period has changed nothing and is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tideglass.core.documents import Document
from tideglass.core.errors import FRESH, damaged
from tideglass.ingress.idle_periods import IdlePeriod
from tideglass.ingress.reports import PartitionReport
from tideglass.storage import StoragePath, storage_path

#: An input and one of its partitions, by their names.
Place: TypeAlias = tuple[str, str]

#: An idle partition adds a line a second; a longer file is written anew with what counts.
LONGEST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class IdleEntry:
    """A line of the journal.

    input, partition: their names.
    offset: the idle period was after all events of the partition before this one.
    until_ticks: the arrival time that was estimated at its end.
    """

    input: str
    partition: str
    offset: int
    until_ticks: int


_DOCUMENT = Document(IdleEntry)


@dataclass(slots=True)
class IdleJournal:
    """The journal in the file `path`."""

    path: StoragePath
    _until_ticks: dict[Place, dict[int, int]] = field(default_factory=dict[Place, dict[int, int]])
    _loaded: bool = False
    _most_bytes: int = LONGEST_BYTES

    def __post_init__(self) -> None:
        self.path = storage_path(self.path)

    def of(self, place: Place) -> tuple[IdlePeriod, ...]:
        """The idle periods of a partition, in the order of their places."""
        self._load()
        return tuple(IdlePeriod(*each) for each in sorted(self._until_ticks.get(place, {}).items()))

    def take(self, report: PartitionReport) -> None:
        """Add the idle period a scan reports, if there was one. Taking a report again changes nothing."""
        self._load()
        known = self._until_ticks.setdefault((report.input, report.partition), {})
        if report.idle_held:
            before = [offset for offset in known if offset < report.next_offset]
            known.pop(max(before, default=-1), None)
        until_ticks = report.quiet_until_ticks
        if until_ticks is None:
            return
        if known.get(report.next_offset, until_ticks - 1) >= until_ticks:
            return
        known[report.next_offset] = until_ticks
        entry = IdleEntry(report.input, report.partition, report.next_offset, until_ticks)
        self.path.append_lines([_DOCUMENT.text(entry)])
        if self._size > self._most_bytes:
            self._write_anew()
            self._most_bytes = max(LONGEST_BYTES, 2 * self._size)

    def forget(self) -> None:
        """A job that begins anew has no idle periods yet."""
        self._until_ticks, self._loaded = {}, True
        self.path.unlink(missing_ok=True)

    def _load(self) -> None:
        if self._loaded:
            return
        try:
            for line in self.path.read_lines():
                entry = _DOCUMENT.of_text(line)
                known = self._until_ticks.setdefault((entry.input, entry.partition), {})
                known[entry.offset] = max(entry.until_ticks, known.get(entry.offset, entry.until_ticks))
        except ValueError as error:
            raise damaged(self.path, f"does not say when inputs were idle ({error})", FRESH) from error
        self._loaded = True

    def _write_anew(self) -> None:
        lines = (
            _DOCUMENT.text(IdleEntry(*place, offset, until_ticks))
            for place, known in self._until_ticks.items()
            for offset, until_ticks in sorted(known.items())
        )
        self.path.write("".join(f"{line}\n" for line in lines).encode())

    @property
    def _size(self) -> int:
        found = self.path.status()
        return 0 if found is None else found.size
