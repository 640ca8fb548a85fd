"""A sample of an input: its newest events with their metadata, and what the time policies decide about each.

The events are read beside a running job: nothing is committed, marked or written. The policies see a few
hundred events before those that are shown, and none of the state a job has, so an event that is late in the
job only because of events long before is on time here.
"""

from __future__ import annotations

import json
import time
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pyarrow as pa

from tideglass.connect.dataframes.input import EVENTS_OF_A_MESSAGE
from tideglass.connect.files.input import FileInput
from tideglass.connect.files.newest_events import newest_chunks
from tideglass.connect.files.reading import OFFSET_BITS
from tideglass.connect.files.source_columns import with_source_columns
from tideglass.connect.formats.decoded import column_name
from tideglass.core.columns import unify
from tideglass.core.errors import ProjectError
from tideglass.core.events import Chunk, Fields, Rejected
from tideglass.core.json_rows import rows_of
from tideglass.core.partition_numbers import partition_numbers
from tideglass.core.time import format_ticks
from tideglass.core.types import ARRIVAL, EVENT_HUB, EVENT_ID, OFFSET, PAYLOAD, USER
from tideglass.ingress.decisions import Decision
from tideglass.job.options import JobPlan
from tideglass.plan.topology import Reader
from tideglass.simulate.events import timed_events
from tideglass.simulate.simulation import simulate

#: The policies see so many events of a partition before those that are shown.
EVENTS_BEFORE = 200
_IOT_HUB = "IoTHub"


@dataclass(frozen=True, slots=True)
class SampledEvent:
    """An event of an input.

    partition: its name.
    offset: its place in the partition of a topic, or in the file.
    file: that holds it; empty for a topic.
    arrival_ticks: when it arrived; None where nobody knows.
    event_time_ticks: what TIMESTAMP BY reads, or the arrival; None: no time.
    timestamp_ticks: its System.Timestamp(); None: it was dropped.
    decision: of the time policies.
    words: the decision in words.
    event_id: what the query calls its EventId.
    event: what it holds.
    metadata: records that a hub attaches, by their names.
    """

    partition: str
    offset: int
    file: str
    arrival_ticks: int | None
    event_time_ticks: int | None
    timestamp_ticks: int | None
    decision: Decision
    words: str
    event_id: str
    event: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def plain(self) -> dict[str, Any]:
        """As JSON; times are ISO text."""
        times = {
            "arrival": self.arrival_ticks,
            "eventTime": self.event_time_ticks,
            "systemTimestamp": self.timestamp_ticks,
        }
        return {
            "partition": self.partition,
            "offset": self.offset,
            **({"file": self.file} if self.file else {}),
            **{name: None if ticks is None else format_ticks(ticks) for name, ticks in times.items()},
            "decision": self.decision.name.lower(),
            "words": self.words,
            "eventId": self.event_id,
            "event": self.event,
            **({"metadata": self.metadata} if self.metadata else {}),
        }


@dataclass(frozen=True, slots=True)
class NewestEvents:
    """What was found in an input.

    events: the newest, in the order of their arrival.
    refused: events the deserializer refuses, by reason, each with the partition.
    partitions: that hold an event of those that were looked at.
    looked_at: how many events were decoded.
    """

    events: Sequence[SampledEvent]
    refused: Sequence[tuple[str, Rejected]]
    partitions: Sequence[str]
    looked_at: int


def sample(
    job: JobPlan, reader: Reader, environment: Mapping[str, str], most: int, most_bytes: int, seconds: float
) -> NewestEvents:
    """The `most` newest events of the input a reader reads.

    most_bytes: read at most, about. seconds: looked for at most, about.
    Raises InputError for an input that is not there, ProjectError for one that cannot be looked at.
    """
    until = time.monotonic() + seconds
    topic, source = job.topics.get(reader.input), job.inputs.get(reader.input)
    own = job.compiled.topology.fields[reader.input]
    captured = isinstance(source, FileInput) and source.spec.capture is not None
    records = topic.records if topic is not None else "EventHub" if captured else ""
    added = ((EVENT_HUB,), (USER,), *([(_IOT_HUB,)] if records == _IOT_HUB else [])) if records else ()
    wanted = replace(own, whole=True, paths=tuple(sorted({*own.paths, *added})), event_ids=True)
    wanted = replace(wanted, blob_names=topic is None)
    level, most_events = job.compiled.topology.level, most + EVENTS_BEFORE
    if topic is not None:
        from tideglass.connect.kafka.newest_messages import newest_topic_chunks

        found = newest_topic_chunks(topic, environment, wanted, level, most_events, most_bytes, until)
    elif isinstance(source, FileInput):
        shares = max(1, len(source.partitions()))
        found = newest_chunks(source, wanted, level, most_events, max(1 << 16, most_bytes // shares), until)
    else:
        raise ProjectError(
            f"the input {reader.input!r} is of a package of its own, which cannot be looked at"
        )
    return _sample(list(found), reader, wanted, level, most, records)


def _sample(
    found: Sequence[tuple[str, Chunk]], reader: Reader, fields: Fields, level: str, most: int, records: str
) -> NewestEvents:
    names = list(dict.fromkeys(partition for partition, _ in found))
    numbers = partition_numbers(names)
    refused = [(partition, each) for partition, chunk in found for each in chunk.rejected]
    events: list[SampledEvent] = []
    looked_at = 0
    for name in names:
        chunks = [
            with_source_columns(reader.input, name, chunk, fields)
            for partition, chunk in found
            if partition == name and chunk.table.num_rows
        ]
        if not chunks:
            continue
        files = [chunk.file for chunk in chunks for _ in range(chunk.table.num_rows)]
        table = unify([chunk.table for chunk in chunks])
        kept = min(table.num_rows, most + EVENTS_BEFORE)
        looked_at += table.num_rows
        table, files = table.slice(table.num_rows - kept), files[len(files) - kept :]
        events += _events(table, files, name, numbers[name], reader, level, records)[-most:]
    events.sort(key=lambda each: (each.arrival_ticks or 0, each.partition, each.file, each.offset))
    return NewestEvents(events[-most:], refused, names, looked_at)


def _events(
    table: pa.Table,
    files: Sequence[str],
    partition: str,
    number: int,
    reader: Reader,
    level: str,
    records: str,
) -> list[SampledEvent]:
    timed = timed_events(table, reader, level, number)
    rows = simulate(timed, reader.policies, bool(reader.over)).rows
    payloads = rows_of(table.select([PAYLOAD]))
    ids = table[column_name((EVENT_ID,))].to_pylist()
    offsets = cast("list[int]", table[OFFSET].to_pylist())
    arrivals = cast("list[int | None]", table[ARRIVAL].to_pylist())
    metadata = _metadata(table, records)
    return [
        SampledEvent(
            partition,
            _place(offsets[place], files[place]),
            files[place],
            arrivals[place],
            row.event.event_time_ticks,
            row.system_timestamp_ticks,
            row.decision,
            "on time" if row.decision is Decision.ACCEPTED else row.words,
            ids[place],
            payloads[place],
            metadata[place],
        )
        for place, row in enumerate(rows)
    ]


def _place(offset: int, file: str) -> int:
    """The place of an event in its file, or the offset of its message."""
    return offset & ((1 << OFFSET_BITS) - 1) if file else offset // EVENTS_OF_A_MESSAGE


def _metadata(table: pa.Table, records: str) -> list[dict[str, Any]]:
    """The records of a hub's messages, without what nobody has set."""
    if not records:
        return [{} for _ in range(table.num_rows)]
    names = {column_name((name,)): name.removeprefix("$") for name in (EVENT_HUB, USER, _IOT_HUB)}
    chosen = [name for name in names if name in table.column_names]
    shown = table.select(chosen).rename_columns([names[name] for name in chosen])
    return [
        {
            name: {key: each for key, each in value.items() if each is not None}
            for name, value in row.items()
            if isinstance(value, dict)
        }
        for row in rows_of(shown)
    ]


# ---------------------------------------------------------------- for people


def masked_controls(text: str) -> str:
    r"""The text with characters that steer a terminal, or hide others, written as escapes.

    >>> masked_controls("a\x1b[2Jb\u202ec\x9d")
    'a\\u001b[2Jb\\u202ec\\u009d'
    """
    if text.isprintable():
        return text
    return "".join(
        f"\\u{ord(each):04x}" if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp") else each
        for each in text
    )


def lines_of(found: NewestEvents, width: int) -> Iterable[str]:
    """The sample for a terminal of `width` columns; no line is longer."""
    for number, each in enumerate(found.events, start=1):
        place = f"offset {each.offset}" + (f" of {each.file}" if each.file else "")
        yield _cut(f"{number}  partition {each.partition}, {place}", width)
        arrived = "unknown" if each.arrival_ticks is None else format_ticks(each.arrival_ticks)
        yield _cut(f"   arrived {arrived}  EventId {each.event_id}", width)
        read = "none" if each.event_time_ticks is None else format_ticks(each.event_time_ticks)
        if each.event_time_ticks != each.arrival_ticks:
            yield _cut(f"   TIMESTAMP BY {read}", width)
        stamp = (
            "" if each.timestamp_ticks is None else f", System.Timestamp {format_ticks(each.timestamp_ticks)}"
        )
        yield _cut(f"   {each.words}{stamp}", width)
        for name, record in each.metadata.items():
            if record:
                yield _cut(f"   {name} {_json(record)}", width)
        yield _cut(f"   {_json(each.event)}", width)
    for partition, each in found.refused:
        example = f": {each.examples[0]}" if each.examples else ""
        yield _cut(f"refused  partition {partition}, {each.count} × {each.error_type}", width)
        yield _cut(f"   {each.message}{example}", width)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _cut(line: str, width: int) -> str:
    shown = masked_controls(line)
    if _columns(shown) <= width:
        return shown
    while shown and _columns(shown) > width - 1:
        shown = shown[: len(shown) - max(1, (_columns(shown) - width) // 2)]
    return shown + "…"


def _columns(text: str) -> int:
    """How wide a terminal shows it."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def counts_in_words(found: NewestEvents) -> str:
    """One line: how many events were decided how."""
    decided: dict[str, int] = {}
    for each in found.events:
        word = (
            "on time" if each.decision is Decision.ACCEPTED else each.decision.name.lower().replace("_", " ")
        )
        decided[word] = decided.get(word, 0) + 1
    parts = [f"{count} {word}" for word, count in decided.items()]
    if found.refused:
        parts.append(f"{sum(each.count for _, each in found.refused)} refused")
    return ", ".join(parts) or "no events"
