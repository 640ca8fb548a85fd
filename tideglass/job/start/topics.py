"""Where reading of topics begins: the offsets a run starts from, and what a topic no longer holds.

generation's directory ──stop_point──▶ StopPoint ──begin_topics──▶ TopicBegin ──▶ Spark's source, ingress

The offsets are asked for once, before anything is written, and kept with the generation: a run that goes on
with it begins at the same messages, whatever was added or deleted meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tideglass.connect.dataframes.input import EVENTS_OF_A_MESSAGE
from tideglass.connect.kafka.topic import STARTING_OPTIONS, HeldPartition, TopicInput
from tideglass.core.time import TICKS_PER_MILLISECOND
from tideglass.ingress.idle_periods import IdlePeriod, first_reaching
from tideglass.ingress.read_from import InputBegin, PartitionBegin
from tideglass.job.progress.idle_journal import IdleJournal
from tideglass.job.progress.stop_point import TopicStopPoint
from tideglass.job.start.files import Missing, check_held
from tideglass.job.start.read_plan import ReadPlan

#: Asks the broker of a topic, by partition; the time in milliseconds is the one `HeldPartition.found` is of.
TopicLookup = Callable[[TopicInput, int | None], Mapping[int, HeldPartition]]

#: Per input and partition, the offset of a message.
Offsets = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class TopicBegin:
    """Where reading of topics begins; offsets are per input and partition.

    offsets: of the first message to be read; a topic that is absent begins as the project says.
    begins: the partitions the first batch reads, and those that must be known before their first message.
    stop_offsets: of the first message whose rows are emitted; without any, all rows are.
    """

    offsets: Offsets = field(default_factory=dict[str, Any])
    begins: Mapping[str, Mapping[str, PartitionBegin]] = field(default_factory=dict[str, Any])
    stop_offsets: Offsets = field(default_factory=dict[str, Any])


def begin_as_configured(
    topics: Mapping[str, TopicInput], lookup: TopicLookup, *, finished: bool
) -> TopicBegin:
    """Where a first run begins that nobody asked to begin elsewhere: as the project says.

    finished: the run reads to the end of what is there. A topic whose options say where to begin is left to
    Spark's connector.
    """
    offsets: dict[str, dict[str, int]] = {}
    begins: dict[str, dict[str, PartitionBegin]] = {}
    for name, topic in topics.items():
        held = lookup(topic, None)
        first = {
            number: _configured_offset(topic, number, each, finished=finished)
            for number, each in held.items()
        }
        known = {str(number): offset for number, offset in sorted(first.items()) if offset is not None}
        if len(known) == len(held):
            offsets[name] = known
        begins[name] = {
            str(number): _begin(number, known.get(str(number), 0), ())
            for number, each in sorted(held.items())
            if each.end > known.get(str(number), 0)
        }
    return TopicBegin(offsets, begins)


def _configured_offset(topic: TopicInput, number: int, held: HeldPartition, *, finished: bool) -> int | None:
    if any(name.lower() in STARTING_OPTIONS for name in topic.options):
        return None
    starting = topic.starting or ("earliest" if finished else "latest")
    if starting in ("earliest", "latest"):
        return held.earliest if starting == "earliest" else held.end
    chosen: dict[str, int] = {}
    for of in json.loads(starting).values():
        chosen |= of
    offset = chosen.get(str(number))
    # as Spark's connector takes them
    return {-2: held.earliest, -1: held.end}.get(offset, offset) if offset is not None else None


def begin_topics(
    topics: Mapping[str, TopicInput],
    read_from_ticks: Mapping[str, int | None],
    lookup: TopicLookup,
    now_ticks: int,
    journal: IdleJournal,
    *,
    raised_from_ticks: Mapping[str, int | None] | None = None,
    stop_points: Mapping[str, TopicStopPoint] | None = None,
    after_ticks: int | None = None,
    accept_partial: bool,
) -> TopicBegin:
    """Where to begin so that every message that arrived at a time or later is read.

    read_from_ticks: that time per input; one that is absent is read from its beginning. A partition whose
        messages are all older begins after the last of them.
    lookup: asks a broker what a topic holds.
    now_ticks: the clock.
    journal: idle periods of the job so far.
    raised_from_ticks: per input, see `ReadBack`.
    stop_points: of the run before; nothing it had not read is read again.
    after_ticks: its watermark, where the run goes on after its rows; of a topic that run has not read, what
        arrived before counts as read.
    accept_partial: take what is there.
    Raises InputError that names topic, partition, what is needed and what is there.
    """
    offsets: dict[str, dict[str, int]] = {}
    begins: dict[str, dict[str, PartitionBegin]] = {}
    stop_offsets: dict[str, dict[str, int]] = {}
    missing: list[Missing] = []
    for name, topic in topics.items():
        from_ticks, raised_ticks = read_from_ticks.get(name), (raised_from_ticks or {}).get(name)
        from_ms = _millisecond(from_ticks)
        stop = (stop_points or {}).get(name)
        offsets[name], begins[name], stop_offsets[name] = {}, {}, {}
        if stop is None and after_ticks is not None:
            held_then = lookup(topic, _millisecond(after_ticks)).items()
            stop_offsets[name] = {str(n): _first(held, _millisecond(after_ticks)) for n, held in held_then}
        for number, held in sorted(lookup(topic, from_ms).items()):
            partition = str(number)
            idle_periods = journal.of((name, partition))
            raised = None if raised_ticks is None else first_reaching(idle_periods, raised_ticks)
            first = _first_offset(held, partition, from_ms, raised, stop)
            offsets[name][partition] = first
            if stop is not None and partition in stop.next_offsets:
                stop_offsets[name][partition] = stop.next_offsets[partition]
            if held.end > first if stop is None else stop.knows(partition, first):
                begins[name][partition] = _begin(number, first, idle_periods)
            began = 0 if stop is None else stop.began.get(partition, 0)
            if held.earliest > began and _may_lack(held, from_ms, now_ticks // TICKS_PER_MILLISECOND):
                oldest_ticks = None if held.oldest_ms is None else held.oldest_ms * TICKS_PER_MILLISECOND
                lost = f"topic {topic.place(os.environ)!r} holds nothing before offset {held.earliest}"
                missing.append(Missing(name, partition, from_ticks, oldest_ticks, lost))
    if not accept_partial:
        check_held(missing)
    return TopicBegin(offsets, begins, {} if after_ticks is None else stop_offsets)


def _first_offset(
    held: HeldPartition,
    partition: str,
    from_ms: int | None,
    raised: int | None,
    stop: TopicStopPoint | None,
) -> int:
    """The first message of a partition to be read.

    from_ms: arrival from which on messages are needed; None for all.
    raised: offset of the first event that idle time raised to a time at which it counts; None for none.
    stop: where the run before stopped; None without one, and of a topic it has not read.
    """
    first = _first(held, from_ms)
    if raised is not None:
        first = min(first, max(held.earliest, raised // EVENTS_OF_A_MESSAGE))
    if stop is None:
        return first
    if partition not in stop.next_offsets:  # it appeared while no run was there
        return held.earliest
    first = max(first, stop.began.get(partition, 0))
    return max(min(first, stop.next_offsets[partition]), held.earliest)


def input_begin(read_plan: ReadPlan, name: str) -> InputBegin:
    """Where the state of a topic's ingress begins."""
    partitions = read_plan.begins.get(name, {})
    first = read_plan.offsets.get(name, {})
    until = {
        partition: offset * EVENTS_OF_A_MESSAGE
        for partition, offset in read_plan.stop_offsets.get(name, {}).items()
        if offset > first.get(partition, 0)
    }
    return InputBegin(partitions, until)


def _begin(number: int, offset: int, idle_periods: Sequence[IdlePeriod]) -> PartitionBegin:
    return PartitionBegin(number, (), offset * EVENTS_OF_A_MESSAGE, tuple(idle_periods))


def _millisecond(ticks: int | None) -> int | None:
    """A broker searches by whole milliseconds; the one the time lies in is read whole."""
    return None if ticks is None else max(0, ticks // TICKS_PER_MILLISECOND)


def _first(held: HeldPartition, from_ms: int | None) -> int:
    if from_ms is None:
        return held.earliest
    return held.end if held.found is None else held.found


def _may_lack(held: HeldPartition, from_ms: int | None, now_ms: int) -> bool:
    """Whether a message that is gone may have been stamped at `from_ms` or later.

    Nobody knows the stamps of what is gone, but none is later than the oldest that is there, or than now.
    """
    if held.earliest == 0:
        return False
    if from_ms is None:
        return True
    if from_ms >= now_ms:
        return False
    return held.oldest_ms is None or held.oldest_ms >= from_ms
