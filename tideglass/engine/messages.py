"""Messages: what travels from level to level, and at last to the driver.

    kind        target            body
    CHUNK       -                 FrameChunk: decoded events of the input partition `sender`, for its ingress
    END         -                 none: the input of the ingress has ended
    REPLAYED    -                 none: all inputs are where the run before had read them; what follows is new
    DATA        SendOp id         Arrow table: rows for the receiving key group
    WATERMARK   -                 WATERMARKS: the sender's watermark in ticks by SendOp id
    SUBSTREAMS  SendOp id         Arrow table (substream, watermark_ticks): those ahead of that watermark
    PERCENTILES SendOp id         PERCENTILES: its watermarks at percentages of the events in flight
    KNOWN       -                 KNOWN_SNAPSHOTS: snapshots of each reference input that count
    ROWS        output ordinal    Arrow table: result rows
    RECORDS     output ordinal    head, then an Arrow table: messages for a broker
    STAGED      output ordinal    head, then what the output's `stage` made
    WITHHELD    -                 none: the batch reads only what was read before, its rows are not emitted
    REPORT      level of sender   PARTITION_REPORT of level 0 (`ingress.reports`), else STAGE_REPORT
    PROFILE     level of sender   TASK_PROFILE (`engine.profiled`)
    FAILED      -                 text: a row made the query fail, so the batch must not be committed

DATA, WATERMARK, SUBSTREAMS, PERCENTILES and KNOWN are for one key group of one level; a level passes on what
is for a later one.
CHUNK, END and REPLAYED exist only where the scan is no part of the source: with inputs that are DataFrames;
there an ingress, too, gets KNOWN, when it changes. The chunk of RECORDS goes to the broker from where
it lies; the driver gets the head: the number of rows and the newest of their times, 8 bytes each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tideglass.core.documents import Plain
from tideglass.core.errors import EvaluationError
from tideglass.core.events import Known
from tideglass.plan.topology import Topology

#: Bytes of the head in the body of RECORDS and STAGED.
RECORDS_HEAD = 16


WATERMARKS: Plain[Mapping[int, int]] = Plain(Mapping[int, int])
#: Pairs of a percentage and a watermark in ticks.
PERCENTILES: Plain[tuple[tuple[int, int], ...]] = Plain(tuple[tuple[int, int], ...])
KNOWN_SNAPSHOTS: Plain[Known] = Plain(Known)


class Kind(StrEnum):
    """What a message is; its target and its body are in the table above."""

    CHUNK = "chunk"
    END = "end"
    REPLAYED = "replayed"
    DATA = "data"
    WATERMARK = "watermark"
    SUBSTREAMS = "substreams"
    PERCENTILES = "percentiles"
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
    """One row of the exchange.

    key_group: the receiver; 0 for the driver.
    level: of the receiver; the driver is one past the last.
    kind: decides what target and body are.
    target: see the table above; 0 where there is none.
    sender: a scan as `input/partition`, an ingress or a key group; of chunks with a number that orders them.
    body: as in the table above.
    """

    key_group: int
    level: int
    kind: Kind
    target: int
    sender: str
    body: bytes


def records_body(rows: int, newest_ticks: int, chunk: bytes) -> bytes:
    """The body of RECORDS and STAGED. Its head is enough for `records_count` and `records_newest_ticks`.

    newest_ticks: the latest time (System.Timestamp) of the rows.
    """
    return rows.to_bytes(8, "little") + newest_ticks.to_bytes(8, "little", signed=True) + chunk


def records_count(body: bytes) -> int:
    return int.from_bytes(body[:8], "little")


def records_newest_ticks(body: bytes) -> int:
    return int.from_bytes(body[8:RECORDS_HEAD], "little", signed=True)


def failure(topology: Topology, sender: str, error: EvaluationError) -> Message:
    """The message that a row of the sender made the query fail."""
    return Message(0, topology.levels + 1, Kind.FAILED, 0, sender, error.message.encode())


def raise_failure(messages: Iterable[Message]) -> None:
    """Raises the first EvaluationError that some task reported, if any."""
    for message in messages:
        if message.kind is Kind.FAILED:
            raise EvaluationError(message.body.decode())


def for_driver(messages: Iterable[Message]) -> list[Message]:
    """Messages only the driver reads, in a stable order."""
    kinds = (*OUTPUT_KINDS, Kind.WITHHELD, Kind.REPORT, Kind.PROFILE, Kind.FAILED)
    return sorted((m for m in messages if m.kind in kinds), key=lambda m: (m.kind, m.target, m.sender))
