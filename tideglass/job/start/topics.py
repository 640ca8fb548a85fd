"""Beginning to read topics: the offsets a run starts from, and what a topic no longer holds.

generation's directory ──stopped──▶ Stopped ──begin_topics──▶ TopicBegin ──▶ Spark's source, ingress

The offsets are looked up once, before anything is written, and kept with the generation: a run that goes on
with it begins at the same messages, whatever has come or gone meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tideglass.connect.dataframes.input import EVENTS_OF_A_MESSAGE
from tideglass.connect.environment import resolved
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
    """Where reading of topics begins. Offsets per input and partition.

    offsets: of the first message to be read; a topic that is absent begins as the project says. begins: the
    partitions the first batch has something of, and those that must be known before their first message.
    places: of the first message whose rows are given again; without any, all rows are.
    """

    offsets: Offsets = field(default_factory=dict[str, Any])
    begins: Mapping[str, Mapping[str, PartitionBegin]] = field(default_factory=dict[str, Any])
    places: Offsets = field(default_factory=dict[str, Any])


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
    messages are all older begins behind the last of them. raised_from_ticks: per input, see `ReadBack`.
    stop_points: of the run before; nothing it had not read is read again. after_ticks: its watermark, where
    its rows are gone on with; of a topic it has not read, what arrived before is taken for read.
    accept_partial: take what is there.
    Raises InputError that names topic, partition, what is needed and what is there.
    """
    offsets: dict[str, dict[str, int]] = {}
    begins: dict[str, dict[str, PartitionBegin]] = {}
    places: dict[str, dict[str, int]] = {}
    missing: list[Missing] = []
    for name, topic in topics.items():
        from_ticks = read_from_ticks.get(name)
        from_ms = _millisecond(from_ticks)
        known = (stop_points or {}).get(name)
        offsets[name], begins[name], places[name] = {}, {}, {}
        if known is None and after_ticks is not None:
            held_then = lookup(topic, _millisecond(after_ticks)).items()
            places[name] = {str(n): _first(held, _millisecond(after_ticks)) for n, held in held_then}
        for number, held in sorted(lookup(topic, from_ms).items()):
            partition = str(number)
            first = _first(held, from_ms)
            began = 0 if known is None else known.began.get(partition, 0)
            idle_periods = journal.of((name, partition))
            raised_ticks = (raised_from_ticks or {}).get(name)
            raised = None if raised_ticks is None else first_reaching(idle_periods, raised_ticks)
            if raised is not None:
                first = min(first, max(held.earliest, raised // EVENTS_OF_A_MESSAGE))
            first = max(first, began)
            if known is not None and partition in known.next_offsets:
                places[name][partition] = known.next_offsets[partition]
                first = max(min(first, known.next_offsets[partition]), held.earliest)
            elif known is not None:  # it came while nobody looked
                first = held.earliest
            offsets[name][partition] = first
            if held.end > first if known is None else known.knows(partition, first):
                begins[name][partition] = _begin(number, first, idle_periods)
            if held.earliest > began and _may_lack(held, from_ms, now_ticks // TICKS_PER_MILLISECOND):
                oldest_ticks = None if held.oldest_ms is None else held.oldest_ms * TICKS_PER_MILLISECOND
                lost = (
                    f"topic {resolved(topic.topic, os.environ)!r} holds nothing before offset {held.earliest}"
                )
                missing.append(Missing(name, partition, from_ticks, oldest_ticks, lost))
    if not accept_partial:
        check_held(missing)
    return TopicBegin(offsets, begins, {} if after_ticks is None else places)


def input_begin(read_plan: ReadPlan, name: str) -> InputBegin:
    """Where the state of a topic's ingress begins."""
    partitions = read_plan.begins.get(name, {})
    first = read_plan.offsets.get(name, {})
    until = {
        partition: offset * EVENTS_OF_A_MESSAGE
        for partition, offset in read_plan.places.get(name, {}).items()
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

    Nobody knows the stamps of what is gone; but none is behind the oldest that is there, nor in the future.
    """
    if held.earliest == 0:
        return False
    if from_ms is None:
        return True
    if from_ms >= now_ms:
        return False
    return held.oldest_ms is None or held.oldest_ms >= from_ms
