"""The signature of a function in the catalogue, and the SQL a call becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from tideglass.core.json_sql import literal_sql
from tideglass.core.types import Type


@dataclass(frozen=True, slots=True)
class Sql:
    """DuckDB SQL of a value.

    text: the SQL
    type: the value's type
    fallible: evaluating it may stop the job, so it must stay inside the branch it stands in
    raw: the text is JSON whose type only its values know
    constant: the value of a literal, else None
    """

    text: str
    type: Type
    fallible: bool = False
    raw: bool = False
    constant: int | float | str | bool | None = None


NULL_SQL = Sql("NULL", Type.NULL)


class ArgumentKind(Enum):
    """What an argument may be."""

    NUMBER = "number"  # text that looks like a number becomes FLOAT, a bit BIGINT
    INTEGER = "integer"  # likewise BIGINT
    TEXT = "text"
    DATE = "date"  # ISO text becomes DATETIME
    RECORD = "record"
    ARRAY = "array"
    GEOMETRY = "geometry"  # a GeoJSON record or WKT text
    ANY = "any"
    DATEPART = "datepart"  # a literal in canonical spelling

    @property
    def allowed(self) -> tuple[Type, ...]:
        """The types that need no conversion, as messages name them; none for ANY."""
        return _ALLOWED[self]


_ALLOWED: dict[ArgumentKind, tuple[Type, ...]] = {
    ArgumentKind.NUMBER: (Type.BIGINT, Type.FLOAT),
    ArgumentKind.INTEGER: (Type.BIGINT,),
    ArgumentKind.TEXT: (Type.NVARCHAR,),
    ArgumentKind.DATE: (Type.DATETIME,),
    ArgumentKind.RECORD: (Type.RECORD,),
    ArgumentKind.ARRAY: (Type.ARRAY,),
    ArgumentKind.GEOMETRY: (Type.RECORD, Type.NVARCHAR),
    ArgumentKind.ANY: (),
    ArgumentKind.DATEPART: (Type.NVARCHAR,),
}


Builder = Callable[[Sequence[Sql]], Sql]


@dataclass(frozen=True, slots=True)
class ScalarSignature:
    """A scalar function.

    name: its name in lower case
    family: the group of functions it is listed with
    params: what each argument may be
    meaning: one sentence for people
    build: makes the SQL of a call from the SQL of its converted arguments
    min_args: least number of arguments
    max_args: largest number of arguments; None: any number, each like the last of `params`
    strict: the function is NULL when an argument is
    """

    name: str
    family: str
    params: tuple[ArgumentKind, ...]
    meaning: str
    build: Builder
    min_args: int
    max_args: int | None
    strict: bool = True

    def usage(self, name: str) -> str:
        """How a call under `name` is written, such as `CHARINDEX(text, text [, integer])`."""
        words = ["value" if kind is ArgumentKind.ANY else kind.value for kind in self.params]
        needed, optional = words[: self.min_args], words[self.min_args :]
        more = ", ..." if self.max_args is None else ""
        return f"{name}({', '.join(needed)}{''.join(f' [, {word}]' for word in optional)}{more})"

    @property
    def datepart_arg(self) -> int | None:
        return self.params.index(ArgumentKind.DATEPART) if ArgumentKind.DATEPART in self.params else None

    def kind_of(self, place: int) -> ArgumentKind:
        return self.params[min(place, len(self.params) - 1)]


@dataclass(frozen=True, slots=True)
class AggregateSignature:
    """An aggregate (`asa.md` 4.1); its kernel is in `operators.aggregates`.

    name: its name in lower case
    min_args: least number of things in the parentheses, `*` included
    max_args: largest number of things in the parentheses
    meaning: one sentence for people
    star_allowed: `*` may be the argument
    distinct_allowed: DISTINCT may stand before the argument
    needs_order_by: OVER (ORDER BY ...) must follow
    constant_first: the first argument is a literal
    over_allowed: may be used with LIMIT DURATION over the recent rows
    """

    name: str
    min_args: int
    max_args: int
    meaning: str
    star_allowed: bool = False
    distinct_allowed: bool = False
    needs_order_by: bool = False
    constant_first: bool = False
    over_allowed: bool = True


def scalar(
    name: str,
    family: str,
    params: Sequence[ArgumentKind],
    meaning: str,
    build: Builder,
    *,
    min_args: int | None = None,
    variadic: bool = False,
    strict: bool = True,
) -> ScalarSignature:
    least = len(params) if min_args is None else min_args
    most = None if variadic else len(params)
    return ScalarSignature(name, family, tuple(params), meaning, build, least, most, strict)


def template(text: str, type_: Type, *, fallible: bool = False) -> Builder:
    """A builder that puts the arguments' SQL into `{0}`, `{1}`, ..."""

    def build(args: Sequence[Sql]) -> Sql:
        return Sql(text.format(*(arg.text for arg in args)), type_, fallible)

    return build


def unless(problem: str, message: str, value: str) -> str:
    """SQL of `value` that stops the job with `message` where `problem` is true; NULL is no problem."""
    return f"CASE WHEN {problem} THEN error({literal_sql(message)}) ELSE {value} END"
