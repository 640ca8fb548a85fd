"""Which rows of a run are emitted: rows before an output time, and those of a replay, are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tideglass.core.types import SYSTEM_TIMESTAMP
from tideglass.engine.exchange import Sink
from tideglass.engine.messages import OUTPUT_KINDS, Kind, Message


@dataclass(frozen=True, slots=True)
class OutputFilter:
    """A sink that lets through rows stamped at or after their output's start (`asa.md` 7.2). Picklable.

    sink: where the rows go then.
    from_ticks: start per output; all rows of an output that is absent are emitted.
    """

    sink: Sink
    from_ticks: Mapping[str, int]

    def put(self, output: str, table: pa.Table, sender: str) -> tuple[Kind, bytes] | None:
        start_ticks = self.from_ticks.get(output)
        if start_ticks is not None:
            emitted = table[SYSTEM_TIMESTAMP].to_numpy() >= start_ticks
            if not emitted.any():
                return None
            if not emitted.all():
                table = table.filter(pa.array(emitted))
        return self.sink.put(output, table, sender)


def emitted_messages(messages: Sequence[Message]) -> list[Message]:
    """A batch's messages, without its rows if it reads only what an earlier run has read."""
    if not any(message.kind is Kind.WITHHELD for message in messages):
        return list(messages)
    return [message for message in messages if message.kind not in OUTPUT_KINDS]
