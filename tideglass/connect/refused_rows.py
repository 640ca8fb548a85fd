"""Rows an output cannot take because of what they hold: data conversion errors (`asa.md` 6.6).

A connector only says which rows; what becomes of them is the job's setting `OutputErrorPolicy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tideglass.core.errors import OutputError


class RefusalKind(StrEnum):
    """Why a row is refused: the service's types of `OutputDataConversionError` (`asa.md` 6.6)."""

    REQUIRED_COLUMN_MISSING = "RequiredColumnMissing"
    COLUMN_NAME_INVALID = "ColumnNameInvalid"
    TYPE_CONVERSION_ERROR = "TypeConversionError"
    RECORD_EXCEEDED_SIZE_LIMIT = "RecordExceededSizeLimit"
    DUPLICATE_KEY = "DuplicateKey"


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that an output cannot take.

    part: which of the tables that `publish` got, from 0.
    row: which row of that table, from 0.
    kind: why.
    reason: why, in a sentence for people; names the column, holds no secret.
    """

    part: int
    row: int
    kind: RefusalKind
    reason: str


class RowsRefused(OutputError):
    """An output cannot take some of the rows of a batch, whenever it is asked.

    rows: which; every row is named once at most. Others may still be refused at the next try.
    """

    def __init__(self, rows: Sequence[RefusedRow]) -> None:
        if not rows:
            raise ValueError("RowsRefused names no row")
        first = rows[0]
        others = f" (and {len(rows) - 1:,} others)" if len(rows) > 1 else ""
        super().__init__(f"a row is refused, {first.kind.value}: {first.reason}{others}")
        self.rows = tuple(rows)
