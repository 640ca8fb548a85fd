"""Where reading of files begins: what an earlier run left, searched by arrival time (`asa.md` 7.2).

generation's directory ──stop_point──▶ StopPoint ──begin_files──▶ ReadPlan ──▶ source

An earlier run has fixed the order in which it read the files of a partition, and with it the offsets and
arrival times of events. A replay reads them in the same order, so it emits the same rows to the bit. What a
source no longer holds is found out here, before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tideglass.connect.source import SeekResult, StreamInput
from tideglass.core.errors import InputError
from tideglass.core.events import Fields
from tideglass.core.partition_numbers import partition_numbers
from tideglass.core.positions import Position, Positions
from tideglass.core.time import format_ticks
from tideglass.core.types import ARRIVAL
from tideglass.ingress.idle_periods import IdlePeriod, first_reaching
from tideglass.ingress.read_from import PartitionBegin
from tideglass.job.progress.idle_journal import IdleJournal
from tideglass.job.progress.stop_point import PartitionStopPoints
from tideglass.job.start.read_plan import ReadPlan
from tideglass.plan.read_back import ReadBack


@dataclass(frozen=True, slots=True)
class Missing:
    """What a replay needs of a partition and its source no longer holds.

    input: its name.
    partition: its name.
    needed_from_ticks: arrival of the first event that is needed; None for the beginning.
    held_from_ticks: arrival of the oldest event there is from then on; None for nothing.
    lost: what shows it, in words.
    """

    input: str
    partition: str
    needed_from_ticks: int | None
    held_from_ticks: int | None
    lost: str

    def text(self) -> str:
        needed = "its beginning" if self.needed_from_ticks is None else _shown(self.needed_from_ticks)
        there = (
            "nothing" if self.held_from_ticks is None else f"what arrived from {_shown(self.held_from_ticks)}"
        )
        return (
            f"input {self.input!r}, partition {self.partition}: needed is what arrived from {needed} on, "
            f"there is {there}; {self.lost}"
        )


def check_held(missing: Sequence[Missing]) -> None:
    """Raises InputError that names source, partition, what is needed and what is there, if any is missing."""
    if missing:
        raise InputError(
            "[RANGE_NOT_RETAINED] the first windows would lack events:\n"
            + "".join(f"  {each.text()}\n" for each in missing)
            + "  hint: start at a later time with --start TIME, or take what is there with --accept-partial"
        )


def _shown(ticks: int) -> str:
    return format_ticks(ticks)[:19] + "Z"


def begin_files(
    sources: Mapping[str, StreamInput],
    backs: Mapping[str, ReadBack],
    from_ticks: int | None,
    stop_points: PartitionStopPoints,
    journal: IdleJournal,
    *,
    after_ticks: int | None = None,
    accept_partial: bool = False,
) -> ReadPlan:
    """Where to begin so that rows from a time on are complete.

    backs: per input, how much earlier than its output it must be read.
    from_ticks: an output time or, after a stopped run, its watermark; None reads everything there is.
    stop_points: of the run before, {} for none.
    journal: idle periods of the job so far.
    after_ticks: see `ReadPlan`; of a partition that run has not read, what arrived before counts as read.
    accept_partial: take what is there.
    Raises InputError that names source, partition, what is needed and what is there.
    """
    begins: dict[str, dict[str, PartitionBegin]] = {}
    recorded: dict[str, dict[str, Position]] = {}
    missing: list[Missing] = []
    for name, source in sources.items():
        stops = stop_points.get(name, {})
        recorded[name] = {
            partition: _without_gone(source, partition, stop.position) for partition, stop in stops.items()
        }
        pieces = _everything(source.reading_again(recorded[name]))
        needed_ticks = None if from_ticks is None else backs[name].read_from_ticks(from_ticks)
        raised_ticks = None if from_ticks is None else backs[name].raised_from_ticks(from_ticks)
        begins[name] = {}
        for partition, stop in stops.items():
            idle_periods = journal.of((name, partition))
            found = _seek(source, partition, pieces[partition], needed_ticks, raised_ticks, idle_periods)
            begins[name][partition] = PartitionBegin(
                stop.number, found.position, found.next_offset, idle_periods
            )
            lost = _lost(source, partition, stop.position, found, needed_ticks)
            if lost is not None:
                held_ticks = _oldest_arrival_ticks(source, partition, pieces[partition], found)
                missing.append(Missing(name, partition, needed_ticks, held_ticks, lost))
        numbers = [stop.number for stop in stops.values()]
        new = partition_numbers((each for each in pieces if each not in stops), numbers)
        for partition, number in new.items():
            found = source.seek(partition, pieces[partition], needed_ticks)
            begins[name][partition] = PartitionBegin(number, found.position, found.next_offset)
            if after_ticks is not None:
                recorded[name][partition] = source.seek(partition, pieces[partition], after_ticks).position
    if not accept_partial:
        check_held(missing)
    return ReadPlan(begins, recorded, after_ticks)


def _without_gone(source: StreamInput, partition: str, pieces: Position) -> Position:
    """The pieces, those whose file is gone without their content; so the others keep their offsets."""
    gone = source.gone(partition, pieces)
    return [piece.emptied if n in gone else piece for n, piece in enumerate(pieces)]


def _everything(source: StreamInput) -> Positions:
    """All pieces of every partition in reading order: those recorded, then those beyond."""
    as_recorded = source.latest({})
    return source.latest(as_recorded)


def _seek(
    source: StreamInput,
    partition: str,
    pieces: Position,
    needed_ticks: int | None,
    raised_ticks: int | None,
    idle_periods: Sequence[IdlePeriod],
) -> SeekResult:
    """Where to begin: by arrival, or before events that idle time raised to a time at which they count."""
    found = source.seek(partition, pieces, needed_ticks)
    raised = None if raised_ticks is None else first_reaching(idle_periods, raised_ticks)
    if raised is not None and raised < found.next_offset:
        return source.place_of(partition, pieces, raised)
    return found


def _lost(
    source: StreamInput, partition: str, pieces: Position, found: SeekResult, needed_ticks: int | None
) -> str | None:
    """The files that are gone and that a replay from `found` on would have to read, in words; None for none.

    By an arrival field only their events would tell when they arrived; but arrival never decreases, so
    what comes before an event that is not needed is not needed either.
    """
    gone = source.gone(partition, pieces)
    if needed_ticks is None:
        needed = list(gone)
    elif source.arrives_with_piece:
        needed = [n for n in gone if pieces[n].arrival_ticks >= needed_ticks]
    else:
        passed = max((n for n, piece in enumerate(found.position) if piece.size), default=-1)
        needed = [n for n in gone if n > passed]
    files = list(dict.fromkeys(pieces[n].where for n in needed))
    if not files:
        return None
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return f"{files[0]}{more} is gone"


def _oldest_arrival_ticks(
    source: StreamInput, partition: str, pieces: Position, found: SeekResult
) -> int | None:
    """When the first event arrived that a replay from `found` on reads."""
    for chunk in source.read(partition, found.position, pieces, Fields((), False)):
        if chunk.table.num_rows:
            return chunk.table[ARRIVAL][0].as_py()
    return None
