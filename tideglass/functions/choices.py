"""COALESCE and NULLIF (`asa.md` 2.12); CASE is syntax of its own."""

from __future__ import annotations

from collections.abc import Sequence

from tideglass.core.types import Type
from tideglass.functions.conversions import combine
from tideglass.functions.operators import compare
from tideglass.functions.signature import NULL_SQL, ArgumentKind, ScalarSignature, Sql, scalar


def _coalesce(args: Sequence[Sql]) -> Sql:
    type_, texts = combine(args)
    if type_ is Type.NULL:
        return NULL_SQL
    return Sql(f"coalesce({', '.join(texts)})", type_, any(arg.fallible for arg in args))


def _nullif(args: Sequence[Sql]) -> Sql:
    first = args[0]
    if first.type is Type.NULL:
        return NULL_SQL
    equal = compare("=", first, args[1])
    text = f"CASE WHEN {equal.text} THEN NULL ELSE {first.text} END"
    return Sql(text, first.type, first.fallible or equal.fallible)


SCALARS: tuple[ScalarSignature, ...] = (
    scalar(
        "coalesce",
        "choice",
        (ArgumentKind.ANY,),
        "The first argument that is not NULL.",
        _coalesce,
        min_args=1,
        variadic=True,
        strict=False,
    ),
    scalar(
        "nullif",
        "choice",
        (ArgumentKind.ANY, ArgumentKind.ANY),
        "NULL if the arguments are equal, else the first.",
        _nullif,
        strict=False,
    ),
)
