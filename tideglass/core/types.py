"""The types of values, and how a column of each is held in an Arrow table (`asa.md` 5.1).

A type belongs to a value, not to a column. A column whose values agree is held in the natural Arrow
type; one whose values do not is a VARIANT column, in which each value is text tagged with its type.

    type       Arrow    content
    BIGINT     int64
    FLOAT      float64
    NVARCHAR   string
    DATETIME   int64    ticks of 100 ns since 1970-01-01 UTC
    BIT        bool
    RECORD     string   compact JSON text of an object; a datetime inside is ISO text
    ARRAY      string   compact JSON text of an array
    NULL       null     every value is NULL
    VARIANT    string   tag + text: i17, f1.5 (repr of the double), sText, d<ticks>, b0 or b1, r{...}, a[...]

The type of a column is kept in its Arrow field metadata under `tideglass.type`, because several
types share one Arrow type. Names that begin with `$` are the engine's own columns.

Arrow is imported when the first column is made: a query is read and checked without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from tideglass.core.tags import tag

if TYPE_CHECKING:
    import pyarrow as pa


@tag("Type")
class Type(StrEnum):
    """A value's type; the text is the name the language uses for it (as `GetType` returns)."""

    BIGINT = "bigint"
    FLOAT = "float"
    NVARCHAR = "nvarchar(max)"
    DATETIME = "datetime"
    BIT = "bit"
    RECORD = "record"
    ARRAY = "array"
    NULL = "null"
    VARIANT = "variant"


#: First character of a value in a VARIANT column.
TAG: Mapping[Type, str] = {
    Type.BIGINT: "i",
    Type.FLOAT: "f",
    Type.NVARCHAR: "s",
    Type.DATETIME: "d",
    Type.BIT: "b",
    Type.RECORD: "r",
    Type.ARRAY: "a",
}
TYPE_OF_TAG: Mapping[str, Type] = {tag: type_ for type_, tag in TAG.items()}

METADATA_KEY = b"tideglass.type"

#: The engine's own columns. A row's place in the total order is its first five (`design.md` 1).
SYSTEM_TIMESTAMP = "$ts"  # int64 ticks, DATETIME: what System.Timestamp() shows
ARRIVAL = "$arrival"  # int64 ticks, DATETIME
INPUT = "$input"  # int64 ordinal of the input (or of the step that made the row)
PARTITION = "$partition"  # int64 ordinal of the input partition
OFFSET = "$offset"  # int64, place in the partition; for a computed row a hash of its group key
ORDER_COLUMNS = (SYSTEM_TIMESTAMP, ARRIVAL, INPUT, PARTITION, OFFSET)
PAYLOAD = "$payload"  # RECORD: the fields of the event that no listed column shadows
WINDOW_ID = "$window"  # NVARCHAR or NULL: what System.Window().Id shows
PANE = "$pane"  # NVARCHAR: what System.Pane() shows
EVENT_ID = "$EventId"  # NVARCHAR: a field of the payload, but one the scan makes and not the decoder
BLOB_NAME = "$BlobName"  # NVARCHAR: the same, of an input of blobs
EVENT_HUB = "$EventHub"  # RECORD: as EVENT_ID, of a message of a hub; made with its payload
USER = "$User"  # RECORD: the properties its sender has set
SUBSTREAM = "$substream"  # string: canonical text of the OVER key tuple, absent without OVER

#: Fields of an event that no payload has, in lower case: level 1.0 reads names so.
MADE_FIELDS = frozenset({EVENT_ID.lower(), BLOB_NAME.lower(), EVENT_HUB.lower(), USER.lower()})


@cache
def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type a column of this type is held in."""
    import pyarrow as pa

    match type_:
        case Type.BIGINT | Type.DATETIME:
            return pa.int64()
        case Type.FLOAT:
            return pa.float64()
        case Type.BIT:
            return pa.bool_()
        case Type.NULL:
            return pa.null()
        case Type.NVARCHAR | Type.RECORD | Type.ARRAY | Type.VARIANT:
            return pa.string()


def field(name: str, type_: Type) -> pa.Field:
    """An Arrow field that knows its type."""
    import pyarrow as pa

    return pa.field(name, arrow_type(type_), metadata={METADATA_KEY: type_.value.encode()})


def type_of(field_: pa.Field) -> Type:
    """The type written in the field's metadata; a field without one is read by its Arrow type.

    Raises TypeError for an Arrow type the engine never makes itself.
    """
    if field_.metadata and METADATA_KEY in field_.metadata:
        return Type(field_.metadata[METADATA_KEY].decode())
    for type_ in (Type.BIGINT, Type.FLOAT, Type.NVARCHAR, Type.BIT, Type.NULL):
        if field_.type == arrow_type(type_):
            return type_
    raise TypeError(f"column {field_.name!r} has the Arrow type {field_.type}, which is no value type")


def payload_column(path: Sequence[str]) -> str:
    r"""The name of the column that holds one field of the event; no two fields have the same.

    >>> payload_column(("engine", "rpm")), payload_column(("engine.rpm",))
    ('$payload.engine.rpm', '$payload.engine\\.rpm')
    """
    return ".".join((PAYLOAD, *(key.replace("\\", "\\\\").replace(".", "\\.") for key in path)))


def types_of(table: pa.Table) -> dict[str, Type]:
    """Type of every column, in column order."""
    return {field_.name: type_of(field_) for field_ in table.schema}
