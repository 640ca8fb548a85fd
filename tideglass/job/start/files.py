"""Where reading of files begins: what an earlier run left, searched by arrival time (`asa.md` 7.2).

generation's directory ──stop_point──▶ StopPoint ──begin_files──▶ ReadPlan ──▶ source

An earlier run has fixed the order in which it read the files of a partition, and with it the places and
arrival times of events. A replay reads them in the same order, so it gives the same rows to the bit. What a
source no longer holds is found out here, before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tideglass.connect.source import SeekResult, StreamInput
from tideglass.core.errors import InputError
from tideglass.core.events import Fields
from tideglass.core.partition_numbers import partition_numbers
from tideglass.core.positions import Piece, Position, Positions
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

    held_from_ticks: arrival of the oldest event there is from then on; None for nothing. lost: what shows it,
    in words.
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

    from_ticks: an output time or, behind a stopped run, its watermark; None reads everything there is.
    stop_points: of the run before, {} for none. after_ticks: see `ReadPlan`; of a partition that run has not
    read, what arrived before is taken for read. accept_partial: take what is there.
    Raises InputError that names source, partition, what is needed and what is there.
    """
    begins: dict[str, dict[str, PartitionBegin]] = {}
    recorded: dict[str, dict[str, Position]] = {}
    missing: list[Missing] = []
    for name, source in sources.items():
        known = stop_points.get(name, {})
        before = {partition: each.position for partition, each in known.items()}
        gone = {partition: source.gone(partition, pieces) for partition, pieces in before.items()}
        there = {partition: _emptied(pieces, gone[partition]) for partition, pieces in before.items()}
        every = _everything(source.reading_again(there))
        needed_ticks = None if from_ticks is None else backs[name].read_from_ticks(from_ticks)
        raised_ticks = None if from_ticks is None else backs[name].raised_from_ticks(from_ticks)
        begins[name], recorded[name] = {}, {}
        for partition, stop_point in known.items():
            idle_periods = journal.of((name, partition))
            found = _place(source, partition, every[partition], needed_ticks, raised_ticks, idle_periods)
            begins[name][partition] = PartitionBegin(
                stop_point.number, found.position, found.next_offset, idle_periods
            )
            recorded[name][partition] = there[partition]
            lost = _needed(source, before[partition], gone[partition], found, needed_ticks)
            if lost:
                held_ticks = _oldest_arrival_ticks(source, partition, every[partition], found)
                files = list(dict.fromkeys(before[partition][n].where for n in lost))
                more = f" and {len(files) - 1} more" if len(files) > 1 else ""
                lost_files = f"{files[0]}{more} is gone"
                missing.append(Missing(name, partition, needed_ticks, held_ticks, lost_files))
        taken = [each.number for each in known.values()]
        for partition, number in partition_numbers(
            (each for each in every if each not in known), taken
        ).items():
            found = source.seek(partition, every[partition], needed_ticks)
            begins[name][partition] = PartitionBegin(number, found.position, found.next_offset)
            if after_ticks is not None:
                recorded[name][partition] = source.seek(partition, every[partition], after_ticks).position
    if not accept_partial:
        check_held(missing)
    return ReadPlan(begins, recorded, after_ticks)


def _everything(source: StreamInput) -> Positions:
    """All pieces of every partition in reading order: those recorded, then those beyond."""
    as_recorded = source.latest({})
    return source.latest(as_recorded)


def _place(
    source: StreamInput,
    partition: str,
    pieces: Position,
    needed_ticks: int | None,
    raised_ticks: int | None,
    idle_periods: Sequence[IdlePeriod],
) -> SeekResult:
    """Where to begin: by arrival, or before events that silence raised to a time at which they count."""
    found = source.seek(partition, pieces, needed_ticks)
    raised = None if raised_ticks is None else first_reaching(idle_periods, raised_ticks)
    if raised is not None and raised < found.next_offset:
        return source.place_of(partition, pieces, raised)
    return found


def _emptied(pieces: Position, gone: Sequence[int]) -> list[Piece]:
    """The pieces without the content of those that are gone; the others keep their places."""
    return [piece.emptied if n in gone else piece for n, piece in enumerate(pieces)]


def _needed(
    source: StreamInput,
    pieces: Position,
    gone: Sequence[int],
    found: SeekResult,
    needed_ticks: int | None,
) -> list[int]:
    """Of the pieces that are gone, those a replay from `found` on would have to read.

    By an arrival field only their events would tell when they arrived; but arrival never decreases, so
    what comes before an event that is not needed is not needed either.
    """
    if needed_ticks is None:
        return list(gone)
    if source.arrives_with_piece:
        return [n for n in gone if pieces[n].arrival_ticks >= needed_ticks]
    passed = max((n for n, piece in enumerate(found.position) if piece.size), default=-1)
    return [n for n in gone if n > passed]


def _oldest_arrival_ticks(
    source: StreamInput, partition: str, pieces: Position, found: SeekResult
) -> int | None:
    """When the first event arrived that a replay from `found` on reads."""
    for chunk in source.read(partition, found.position, pieces, Fields((), False)):
        if chunk.table.num_rows:
            return chunk.table[ARRIVAL][0].as_py()
    return None
