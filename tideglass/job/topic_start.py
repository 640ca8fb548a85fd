"""Beginning to read topics at a time: the offsets a run starts from, and what a topic no longer holds.

The offsets are looked up once, before anything is written, and kept with the generation: a run that goes on
with it begins at the same messages, whatever has come or gone meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tideglass.connect.topics import HeldPartition, TopicInput
from tideglass.core.time import TICKS_PER_MILLISECOND
from tideglass.job.replay import Missing, check_held

#: Asks the broker of a topic, by partition; the time in milliseconds is the one `HeldPartition.found` is of.
Look = Callable[[TopicInput, int | None], Mapping[int, HeldPartition]]

#: Per input and partition, the offset of the first message to be read.
Offsets = Mapping[str, Mapping[str, int]]


def begin_topics(
    topics: Mapping[str, TopicInput],
    read_from_ticks: Mapping[str, int],
    look: Look,
    now_ticks: int,
    *,
    accept_partial: bool,
) -> Offsets:
    """Where to begin so that every message that arrived at a time or later is read.

    read_from_ticks: that time per input; one that is absent is read from its beginning. A partition whose
    messages are all older begins behind the last of them. accept_partial: take what is there.
    Raises InputError that names topic, partition, what is needed and what is there.
    """
    offsets: dict[str, dict[str, int]] = {}
    missing: list[Missing] = []
    for name, topic in topics.items():
        from_ticks = read_from_ticks.get(name)
        # A broker searches by whole milliseconds; the one the time lies in is read whole.
        from_ms = None if from_ticks is None else max(0, from_ticks // TICKS_PER_MILLISECOND)
        offsets[name] = {}
        for number, held in sorted(look(topic, from_ms).items()):
            offsets[name][str(number)] = _first(held, from_ms)
            if _may_lack(held, from_ms, now_ticks // TICKS_PER_MILLISECOND):
                oldest_ticks = None if held.oldest_ms is None else held.oldest_ms * TICKS_PER_MILLISECOND
                lost = f"topic {topic.topic!r} holds nothing before offset {held.earliest}"
                missing.append(Missing(name, str(number), from_ticks, oldest_ticks, lost))
    if not accept_partial:
        check_held(missing)
    return offsets


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
