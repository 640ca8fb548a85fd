"""Tables of a database as an output sees them: their columns, what each holds, and their unique keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Family(StrEnum):
    """What a column holds, as far as it matters for values of a job (`asa.md` 5.4)."""

    INTEGER = "integers"
    FLOAT = "binary floating point"
    DECIMAL = "decimal numbers"
    TEXT = "texts"
    DATETIME = "instants"
    OFFSET_DATETIME = "instants with an offset"
    BIT = "bits"
    UUID = "UUIDs"
    OTHER = "something else"


@dataclass(frozen=True, slots=True)
class SinkColumn:
    """A column of a table.

    name: as the database spells it.
    declared: its type in the words of the database, such as `numeric(10,2)`.
    family: what it holds.
    least, most: limits of an integer; of an instant in ticks; None: those of the value's own type.
    largest: of the absolute value of a float; None: that of a double.
    precision, scale: digits of a decimal, in all and after the point; None where a column does not say.
    characters: of a text, at most; None where there is no limit.
    nullable: whether it takes NULL.
    default: the expression it has where a row says nothing, as the database prints it.
    computed: whether the database fills it itself: an identity, a generated column.
    collation: of a text, for comparisons; None for that of the database.
    """

    name: str
    declared: str
    family: Family
    least: int | None = None
    most: int | None = None
    largest: float | None = None
    precision: int | None = None
    scale: int | None = None
    characters: int | None = None
    nullable: bool = True
    default: str | None = None
    computed: bool = False
    collation: str | None = None

    @property
    def required(self) -> bool:
        """Whether every row must bring a value."""
        return not self.nullable and self.default is None and not self.computed


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table rows go to.

    name: for people, such as `public.toll`.
    unique_keys: the columns of each unique key, the primary one among them.
    """

    name: str
    columns: Sequence[SinkColumn]
    unique_keys: Sequence[tuple[str, ...]] = ()

    def column(self, name: str) -> SinkColumn | None:
        """The column a field goes to: the one of the very name, else the only one but for its case."""
        same = [each for each in self.columns if each.name == name]
        alike = same or [each for each in self.columns if each.name.casefold() == name.casefold()]
        return alike[0] if len(alike) == 1 else None
