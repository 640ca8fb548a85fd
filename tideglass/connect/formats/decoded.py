"""What a decoder is asked for and what it returns: columns of typed values, and events it refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tideglass.core import types
from tideglass.core.arrays import Ints, Mask
from tideglass.core.events import Rejected
from tideglass.core.types import Type, payload_column

#: Place of an event in what was decoded; a refused event keeps its own.
LINE = "$line"

#: Error types of `asa.md` 6.2.
INVALID_COMPRESSION = "InputDeserializerError.InvalidCompressionType"
INVALID_HEADER = "InputDeserializerError.InvalidHeader"
MISSING_COLUMNS = "InputDeserializerError.MissingColumns"
TYPE_CONVERSION = "InputDeserializerError.TypeConversionError"
INVALID_DATA = "InputDeserializerError.InvalidData"

_EXAMPLES = 3
_EXAMPLE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Decoded:
    """Events as columns.

    table: per path a column `$payload.<path>`; `$payload` when whole; `$line` int64 ascending.
    """

    table: pa.Table
    rejected: tuple[Rejected, ...] = ()


def column_name(path: Sequence[str]) -> str:
    """Name of the column that holds one field of the event.

    >>> column_name(("engine", "rpm"))
    '$payload.engine.rpm'
    """
    return payload_column(path)


@dataclass(slots=True)
class Columns:
    """A table in the making."""

    fields: list[pa.Field] = field(default_factory=list[pa.Field])
    arrays: list[pa.Array | pa.ChunkedArray] = field(default_factory=list[pa.Array | pa.ChunkedArray])

    def add(self, name: str, array: pa.Array | pa.ChunkedArray, type_: Type) -> None:
        self.fields.append(types.field(name, type_))
        self.arrays.append(array)

    def table(self, lines: Ints, keep: Mask | None = None) -> pa.Table:
        """The columns and `$line`; only the rows of `keep`, unless it is None."""
        self.add(LINE, pa.array(lines, pa.int64()), Type.BIGINT)
        made = pa.table(self.arrays, schema=pa.schema(self.fields))
        return made if keep is None or keep.all() else made.filter(pa.array(keep))


@dataclass(slots=True)
class Refusals:
    """Collects refused events by reason."""

    found: dict[tuple[str, str], Rejected] = field(default_factory=dict[tuple[str, str], Rejected])

    def add(
        self, error_type: str, message: str, lines: Ints | Sequence[int], examples: Sequence[object] = ()
    ) -> None:
        """Count events at `lines` (ascending); `examples` are the first of them, text or bytes."""
        if len(lines) == 0:
            return
        shown = tuple(shorten(example) for example in examples[:_EXAMPLES])
        before = self.found.get((error_type, message))
        if before is not None:
            shown = (before.examples + shown)[:_EXAMPLES]
        self.found[error_type, message] = Rejected(
            error_type,
            len(lines) + (before.count if before else 0),
            message,
            shown,
            min(int(lines[0]), before.first_line) if before else int(lines[0]),
        )

    def add_rows(self, error_type: str, message: str, rows: Mask, lines: Ints, texts: pa.Array) -> None:
        """Count the events of the mask `rows`, with their texts as examples."""
        places = np.flatnonzero(rows)
        if len(places):
            examples = texts.take(pa.array(places[:_EXAMPLES])).to_pylist()
            self.add(error_type, message, lines[places], examples)

    def all(self) -> tuple[Rejected, ...]:
        return tuple(sorted(self.found.values(), key=lambda rejected: rejected.first_line))


def merge_rejected(parts: Sequence[Rejected]) -> tuple[Rejected, ...]:
    """One entry per reason, counts added, the first examples kept."""
    refusals = Refusals()
    for part in parts:
        key = (part.error_type, part.message)
        before = refusals.found.get(key, part)
        refusals.found[key] = Rejected(
            part.error_type,
            part.count + (before.count if before is not part else 0),
            part.message,
            (before.examples + part.examples)[:_EXAMPLES] if before is not part else part.examples,
            min(before.first_line, part.first_line),
        )
    return refusals.all()


def shorten(event: object) -> str:
    """An event as text for a log: bad bytes shown as replacement characters, cut when long."""
    text = event.decode("utf-8", "replace") if isinstance(event, bytes) else str(event)
    text = text.strip("\r\n")
    return text if len(text) <= _EXAMPLE_CHARACTERS else text[: _EXAMPLE_CHARACTERS - 1] + "…"
