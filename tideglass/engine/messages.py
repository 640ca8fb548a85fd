"""Messages: what travels from level to level, and at last to the driver.

    kind        target            body
    CHUNK       -                 decoded events of the input partition `sender`, for the ingress of the input
    END         -                 the input of the ingress has ended
    REPLAYED    -                 all inputs are where the run before had brought them; what comes is new
    DATA        SendOp id         chunk of rows for the receiving key group
    WATERMARK   -                 JSON {send id: watermark ticks} of the sender
    SUBSTREAMS  SendOp id         chunk (substream, watermark_ticks): those ahead of the sender's watermark
    KNOWN       -                 JSON {reference input: snapshots that count in this batch}
    ROWS        output ordinal    chunk of result rows
    RECORDS     output ordinal    rows as messages for a broker: their number in 8 bytes, then a chunk
    STAGED      output ordinal    likewise, of what an output's `stage` gave, to be published by the driver
    WITHHELD    -                 the batch reads only what an earlier run has read: its rows are not emitted
    REPORT      -                 JSON: counters and watermarks for people and metrics
    PROFILE     -                 JSON: where the time of a task went
    FAILED      -                 text: a row made the query fail, so the batch must not be committed

DATA, WATERMARK, SUBSTREAMS and KNOWN are for one key group of one level; a level passes on what is for a
later one.
CHUNK, END and REPLAYED exist only where the scan is no part of the source: with inputs that are DataFrames;
there an ingress, too, is told of KNOWN, when it changes. The chunk of RECORDS goes to the broker from where
it lies; the driver is told their number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tideglass.core.errors import EvaluationError
from tideglass.plan.topology import Topology

#: Bytes of the number of rows in the body of RECORDS and STAGED.
RECORDS_HEAD = 8


class Kind(StrEnum):
    CHUNK = "chunk"
    END = "end"
    REPLAYED = "replayed"
    DATA = "data"
    WATERMARK = "watermark"
    SUBSTREAMS = "substreams"
    KNOWN = "known"
    ROWS = "rows"
    RECORDS = "records"
    STAGED = "staged"
    WITHHELD = "withheld"
    REPORT = "report"
    PROFILE = "profile"
    FAILED = "failed"


#: What holds rows of outputs; its target is the ordinal of one.
OUTPUT_KINDS = (Kind.ROWS, Kind.RECORDS, Kind.STAGED)


@dataclass(frozen=True, slots=True)
class Message:
    """One row of the exchange. `level` is the level it is for; the driver is one past the last."""

    key_group: int
    level: int
    kind: Kind
    target: int
    sender: str
    body: bytes

    def json(self) -> Any:
        """The body of a WATERMARK, KNOWN, REPORT or PROFILE."""
        return json.loads(self.body)


def records_body(rows: int, chunk: bytes) -> bytes:
    """The body of RECORDS and STAGED. Its first eight bytes are enough for `records_count`."""
    return rows.to_bytes(RECORDS_HEAD, "little") + chunk


def records_count(body: bytes) -> int:
    return int.from_bytes(body[:RECORDS_HEAD], "little")


def json_body(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def failure(topology: Topology, sender: str, error: EvaluationError) -> Message:
    """The message that a row of the sender made the query fail."""
    return Message(0, topology.levels + 1, Kind.FAILED, 0, sender, error.message.encode())


def raise_failure(messages: Iterable[Message]) -> None:
    """Raises the first EvaluationError that some task told of, if any."""
    for message in messages:
        if message.kind is Kind.FAILED:
            raise EvaluationError(message.body.decode())


def for_driver(messages: Iterable[Message]) -> list[Message]:
    """Messages only the driver reads, in a stable order."""
    kinds = (*OUTPUT_KINDS, Kind.WITHHELD, Kind.REPORT, Kind.PROFILE, Kind.FAILED)
    return sorted((m for m in messages if m.kind in kinds), key=lambda m: (m.kind, m.target, m.sender))
