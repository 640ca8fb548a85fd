"""Simulation of a job's own events: its files, its TIMESTAMP BY, its settings.

The events of one input partition are decoded and TIMESTAMP BY and OVER are evaluated as a run does it;
then the simulation takes over and shows every decision.
"""

from __future__ import annotations

import pyarrow as pa

from tideglass.core.errors import ProjectError
from tideglass.core.json_rows import rows_of
from tideglass.core.partition_numbers import partition_numbers
from tideglass.core.types import ARRIVAL, Type
from tideglass.evaluate.program import Program
from tideglass.ingress.scan import with_system_columns
from tideglass.job.options import JobPlan
from tideglass.plan.expressions import Cast
from tideglass.plan.nodes import Named
from tideglass.plan.topology import Reader
from tideglass.simulate.simulation import SimulatedEvent

_EVENT_TIME = "$event"
#: Read at once per partition when an input is only looked at.
_BYTES = 64 * 1024 * 1024


def reader_of(job: JobPlan, input_name: str | None) -> Reader:
    """The reader of the named input, by default the first of the query that uses TIMESTAMP BY, if any.

    Raises ProjectError when the query reads no such input.
    """
    readers = job.compiled.topology.readers
    if input_name is None:
        return next((each for each in readers if each.timestamp is not None), readers[0])
    for reader in readers:
        if reader.input.casefold() == input_name.casefold():
            return reader
    known = ", ".join(dict.fromkeys(each.input for each in readers))
    raise ProjectError(f"the query reads no input {input_name!r}; it reads {known}")


def partitions_of(job: JobPlan, reader: Reader) -> list[str]:
    """Names of the input's partitions."""
    return list(job.inputs[reader.input].partitions())


def recorded_events(job: JobPlan, reader: Reader, partition: str, limit: int) -> list[SimulatedEvent]:
    """The first `limit` events of a partition, in the order they are read; labels count from 1.

    An event the deserializer refuses is no event. Without TIMESTAMP BY the event time is the arrival.
    """
    files = job.inputs[reader.input]
    end = files.latest({}, _BYTES).get(partition, [])
    fields = job.compiled.topology.fields[reader.input]
    level = job.compiled.topology.level
    number = partition_numbers(partitions_of(job, reader))[partition]
    events: list[SimulatedEvent] = []
    for chunk in files.read(partition, [], end, fields, level):
        events += timed_events(chunk.table.slice(0, limit - len(events)), reader, level, number, len(events))
        if len(events) >= limit:
            break
    return events


def timed_events(
    table: pa.Table, reader: Reader, level: str, partition: int, before: int = 0
) -> list[SimulatedEvent]:
    """Decoded events as a reader times them; an arrival time that is NULL is 0.

    partition: its number. before: how many events precede them; labels count on from there.
    """
    program = _program(reader, level)
    arrivals = table[ARRIVAL].fill_null(0)
    timed = with_system_columns(table, arrivals.to_numpy(), arrivals.to_numpy(), reader.id, partition)
    times = program.run(timed) if program is not None else None
    keys = _keys(times, len(reader.over))
    event_times = arrivals if times is None else times[_EVENT_TIME]
    return [
        SimulatedEvent(str(before + number), event_time, arrival, key)
        for number, (arrival, event_time, key) in enumerate(
            zip(arrivals.to_pylist(), event_times.to_pylist(), keys or [None] * table.num_rows, strict=True),
            1,
        )
    ]


def _program(reader: Reader, level: str) -> Program | None:
    if reader.timestamp is None:
        return None
    event_time = Named(_EVENT_TIME, Cast(reader.timestamp, Type.DATETIME, lenient=True))
    over = (Named(f"$over{n}", expr) for n, expr in enumerate(reader.over))
    return Program((event_time, *over), level=level)


def _keys(times: pa.Table | None, count: int) -> list[str | None]:
    """The OVER key of each event in words; None where a part of it is NULL."""
    if times is None or not count:
        return []
    # Rows show no column that begins with `$`, those being the engine's own.
    shown = times.select([f"$over{n}" for n in range(count)]).rename_columns(
        [f"key{n}" for n in range(count)]
    )
    return [
        None if any(value is None for value in row.values()) else ", ".join(map(str, row.values()))
        for row in rows_of(shown)
    ]
