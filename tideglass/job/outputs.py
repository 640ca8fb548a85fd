"""The outputs of a job: rows are staged in its tasks, and published on the driver once all tasks are done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tideglass.connect.output import OutputConnector
from tideglass.core.arrays import pc
from tideglass.core.errors import OutputError, TideglassError
from tideglass.core.ipc import from_bytes, to_bytes
from tideglass.core.types import SYSTEM_TIMESTAMP
from tideglass.engine.messages import (
    RECORDS_HEAD,
    Kind,
    Message,
    records_body,
    records_count,
    records_newest_ticks,
)
from tideglass.job.report.output_calls import OutputCalls


@dataclass(frozen=True, slots=True)
class TaskSink:
    """Stages rows inside a task. Picklable."""

    outputs: Mapping[str, OutputConnector]

    def put(self, output: str, table: pa.Table, sender: str) -> tuple[Kind, bytes]:
        """As `engine.exchange.Sink.put`. Raises OutputError where the output takes no rows."""
        connector = self.outputs[output]
        kind = Kind.STAGED if connector.kafka_options is None else Kind.RECORDS
        newest_ticks = int(pc.max(table[SYSTEM_TIMESTAMP]).as_py())
        try:
            staged = connector.stage(table, sender)
        except TideglassError:
            raise
        except Exception as error:
            # The driver knows by the name which output failed (`OutputCalls.run_failed`).
            raise OutputError(f"the output {output!r} cannot take rows: {error}") from error
        return kind, records_body(table.num_rows, newest_ticks, to_bytes(staged))


@dataclass(frozen=True, slots=True)
class BatchRows:
    """The rows of a batch that the outputs got.

    rows: how many, per output, without those that were dropped.
    newest_ticks: the newest of their times, per output that got some.
    shown: rows for whoever watches the run, with their output.
    dropped: rows that outputs have refused and that were left out, per output.
    """

    rows: Mapping[str, int] = field(default_factory=dict[str, int])
    newest_ticks: Mapping[str, int] = field(default_factory=dict[str, int])
    shown: Sequence[tuple[str, pa.Table]] = ()
    dropped: Mapping[str, int] = field(default_factory=dict[str, int])


def rows_of_batch(messages: Sequence[Message], names: Sequence[str], calls: OutputCalls) -> BatchRows:
    """How many rows the tasks have staged for each output, by the heads of the messages.

    names: of the outputs, by ordinal, as messages refer to them.
    """
    rows = dict.fromkeys(names, 0)
    newest_ticks: dict[str, int] = {}
    for message in messages:
        if message.kind in (Kind.STAGED, Kind.RECORDS):
            name, ticks = names[message.target], records_newest_ticks(message.body)
            rows[name] += records_count(message.body)
            newest_ticks[name] = max(ticks, newest_ticks.get(name, ticks))
            calls.staged(name)
    return BatchRows(rows, newest_ticks)


def staged_tables(messages: Sequence[Message], names: Sequence[str]) -> Mapping[str, Sequence[pa.Table]]:
    """What the tasks have staged, by output, in the order of the senders."""
    found: dict[str, list[pa.Table]] = {}
    for message in sorted(messages, key=lambda each: (each.target, each.sender)):
        if message.kind is Kind.STAGED:
            found.setdefault(names[message.target], []).append(from_bytes(message.body[RECORDS_HEAD:]))
    return found
