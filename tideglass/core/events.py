"""Events between a decoder and a query: the fields asked for, the chunks decoded, the events refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tideglass.core.tags import added_field, tag
from tideglass.core.types import Type

if TYPE_CHECKING:
    import pyarrow as pa


@tag("InputFields")
@dataclass(frozen=True, slots=True)
class Fields:
    """What a query needs of the events of an input.

    paths: single fields, each by the names from the top of the event downwards
    whole: the event itself is needed too, as `$payload`
    payload_types: the columns of CREATE TABLE, which also filter (`asa.md` 2.13)
    event_ids: EVENT_ID is needed, which the scan makes and no decoder
    blob_names: BLOB_NAME is needed, of which the same holds
    """

    paths: tuple[tuple[str, ...], ...] = ()
    whole: bool = False
    payload_types: tuple[tuple[str, Type], ...] = ()
    event_ids: bool = added_field(default=False)
    blob_names: bool = added_field(default=False)


#: Kinds of errors of events that the time policies settle (`asa.md` 1.2, 1.4); the others are the
#: deserializer's.
POLICY_ERRORS = frozenset(
    {
        "LateInputEvent",
        "EarlyInputEvent",
        "OutOfOrderEvent",
        "InvalidInputTimeStamp",
        "InvalidInputTimeStampKey",
    }
)


@dataclass(frozen=True, slots=True)
class Rejected:
    """Events the deserializer refused for one reason (`asa.md` 6.2, 9.2).

    error_type: the service's name of the reason
    count: number of events
    message: the reason of the first of them
    examples: the first few events, cut to a readable length
    first_line: place of the first of them
    """

    error_type: str
    count: int
    message: str
    examples: tuple[str, ...] = ()
    first_line: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Decoded events of one partition, in order.

    table: the columns `Fields` asks for, `$arrival` (int64 ticks) and `$offset` (int64, ascending)
    rejected: what could not be decoded, by reason
    bytes_read: size of the events in the source, in bytes
    file: what the events were read from, as of a FilePiece; then the last OFFSET_BITS of an offset are a
        place in it. Empty: offsets are places in the partition
    sources: messages or files whose events begin in it, before they were decoded (`asa.md` 9.1)
    """

    table: pa.Table
    rejected: tuple[Rejected, ...] = ()
    bytes_read: int = 0
    file: str = ""
    sources: int = 0


#: Snapshots known of each reference input, by its name: how many of them, from the first.
Known = Mapping[str, int]
