"""Operators as SQL (`asa.md` 2.2, 2.6): two-valued comparisons, arithmetic that stops at overflow.

Arguments are uniformly typed. What does not fit its operator stops the job with the service's message,
but only where a row has a value there.
"""

from __future__ import annotations

from collections.abc import Sequence

from tideglass.core.types import Type
from tideglass.functions.conversions import convert_sql, implicit, invalid_type, refusal
from tideglass.functions.mathematics import finite
from tideglass.functions.signature import NULL_SQL, ArgumentKind, Sql, literal_sql
from tideglass.functions.strings import like_sql

COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">="))
ARITHMETIC = frozenset("+-*/%")
BITWISE = frozenset("&|^")

_NUMBERS = frozenset((Type.BIGINT, Type.FLOAT, Type.BIT))
_EXACT = 9007199254740992  # 2^53: up to here every integer is a double
_ZERO_DIVIDE = literal_sql("division by zero.")

MACROS = (
    f"tg_divide(a, b) AS CASE WHEN b = 0 THEN error({_ZERO_DIVIDE}) ELSE a // b END",
    f"tg_modulo(a, b) AS CASE WHEN b = 0 THEN error({_ZERO_DIVIDE}) ELSE a % b END",
    f"tg_divide_float(a, b) AS CASE WHEN b = 0 THEN error({_ZERO_DIVIDE}) ELSE tg_finite(a / b) END",
)


def compare(operator: str, left: Sql, right: Sql) -> Sql:
    """A comparison; false where a side is NULL. Values of types that do not compare are merely not equal.

    Numbers compare exactly, a bit as 0 or 1. A text meets a datetime as ISO text; it never equals a
    number (A-30) but is ordered against one as a number. Texts are ordered by code point (A-29).
    """
    if NULL_SQL.type in (left.type, right.type):
        return Sql("false", Type.BIT, left.fallible or right.fallible)
    types = {left.type, right.type}
    text = f"{left.text} {operator} {right.text}"
    if types <= _NUMBERS:
        text = _compare_numbers(operator, left, right)
    elif types == {Type.DATETIME, Type.NVARCHAR}:
        moments = [convert_sql(side, Type.DATETIME, lenient=False).text for side in (left, right)]
        return _guarded(f" {operator} ".join(moments), (left, right))
    elif types <= _NUMBERS | {Type.NVARCHAR} and len(types) == 2 and operator not in ("=", "<>"):
        numbers = [
            implicit(side, ArgumentKind.NUMBER, operator, i) for i, side in enumerate((left, right), 1)
        ]
        return _guarded(_compare_numbers(operator, *numbers), (left, right))
    elif len(types) == 2 or (types & {Type.RECORD, Type.ARRAY} and operator not in ("=", "<>")):
        if operator == "=":
            return Sql("false", Type.BIT, left.fallible or right.fallible)
        text = f"({left.text}) IS NOT NULL AND ({right.text}) IS NOT NULL"
        if operator != "<>":
            message = f"Values of type '{left.type.value}' and '{right.type.value}' have no order."
            stop = f"error({literal_sql(message)} || left(CAST({left.text} AS VARCHAR), 0))"
            return Sql(f"(CASE WHEN {text} THEN CAST({stop} AS BOOLEAN) ELSE false END)", Type.BIT, True)
    if left.fallible or right.fallible:
        return _guarded(text, (left, right))
    return Sql(f"coalesce({text}, false)", Type.BIT)


def _guarded(text: str, operands: Sequence[Sql]) -> Sql:
    """A comparison one side of which may stop the job: not attempted where the other side is NULL.

    So the result for a row does not depend on whether its NULL is known before (all of a column may be NULL).
    """
    sure = [side.text for side in operands if not side.fallible and side.constant is None]
    known = " AND ".join(f"({side}) IS NOT NULL" for side in sure) or "true"
    return Sql(f"(CASE WHEN {known} THEN coalesce({text}, false) ELSE false END)", Type.BIT, fallible=True)


def _compare_numbers(operator: str, left: Sql, right: Sql) -> str:
    left, right = (
        convert_sql(side, Type.BIGINT, lenient=False)
        if side.type is Type.BIT and left.type is not right.type
        else side
        for side in (left, right)
    )
    if left.type is right.type:
        return f"{left.text} {operator} {right.text}"
    if left.type is Type.FLOAT:
        mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
        return _compare_numbers(mirrored, right, left)
    whole, double = left.text, right.text
    simple = f"CAST({whole} AS DOUBLE) {operator} {double}"
    if any(isinstance(side.constant, int | float) and abs(side.constant) < _EXACT for side in (left, right)):
        return simple
    # Beyond bigint its sign stands for it: `false AND` would leave it uncomputed, and so unable to fail.
    return (
        f"CASE WHEN abs({double}) < {_EXACT}.0 THEN {simple} "
        f"WHEN {double} >= 9223372036854775808.0 THEN sign({whole}) {operator} 2 "
        f"WHEN {double} < -9223372036854775808.0 THEN sign({whole}) {operator} -2 "
        f"ELSE {whole} {operator} CAST({double} AS BIGINT) END"
    )


def arithmetic(operator: str, left: Sql, right: Sql) -> Sql:
    """`+ - * / %`; of bigints a bigint, division truncates, and `+` joins texts (A-19, A-31)."""
    if NULL_SQL.type in (left.type, right.type):
        return NULL_SQL
    if operator == "+" and left.type is right.type is Type.NVARCHAR:
        return Sql(f"({left.text} || {right.text})", Type.NVARCHAR, left.fallible or right.fallible)
    before = (left, right)
    left, right = (implicit(side, ArgumentKind.NUMBER, operator, i) for i, side in enumerate(before, 1))
    if left.type is right.type is Type.BIGINT:
        result = _whole(operator, left, right)
    else:
        left, right = (convert_sql(side, Type.FLOAT, lenient=False) for side in (left, right))
        result = _double(operator, left, right)
    return strict(result, before, (left, right))


def _whole(operator: str, left: Sql, right: Sql) -> Sql:
    if operator not in "/%":
        return Sql(f"({left.text} {operator} {right.text})", Type.BIGINT, fallible=True)
    if isinstance(right.constant, int) and right.constant not in (0, -1):
        sign = "//" if operator == "/" else "%"
        return Sql(f"({left.text} {sign} {right.text})", Type.BIGINT, left.fallible)
    name = "tg_divide" if operator == "/" else "tg_modulo"
    return Sql(f"{name}({left.text}, {right.text})", Type.BIGINT, fallible=True)


def _double(operator: str, left: Sql, right: Sql) -> Sql:
    if operator == "/":
        return Sql(f"tg_divide_float({left.text}, {right.text})", Type.FLOAT, fallible=True)
    if operator == "%":
        return Sql(f"tg_modulo({left.text}, {right.text})", Type.FLOAT, fallible=True)
    return finite(f"({left.text} {operator} {right.text})")


def bitwise(operator: str, left: Sql, right: Sql) -> Sql:
    """`& | ^` on bits (giving a bit) and bigints (giving a bigint)."""
    if NULL_SQL.type in (left.type, right.type):
        return NULL_SQL
    if left.type is right.type is Type.BIT:
        text = {
            "&": f"CAST(CAST({left.text} AS TINYINT) & CAST({right.text} AS TINYINT) AS BOOLEAN)",
            "|": f"CAST(CAST({left.text} AS TINYINT) | CAST({right.text} AS TINYINT) AS BOOLEAN)",
            "^": f"({left.text} <> {right.text})",
        }[operator]
        return Sql(text, Type.BIT, left.fallible or right.fallible)
    before = (left, right)
    left, right = (implicit(side, ArgumentKind.INTEGER, operator, i) for i, side in enumerate(before, 1))
    text = f"xor({left.text}, {right.text})" if operator == "^" else f"({left.text} {operator} {right.text})"
    return strict(Sql(text, Type.BIGINT, left.fallible or right.fallible), before, (left, right))


def unary(operator: str, value: Sql) -> Sql:
    """`neg`, `pos` and `~`."""
    if value.type is Type.NULL:
        return NULL_SQL
    if operator == "~":
        if value.type is Type.BIT:
            return Sql(f"(NOT {value.text})", Type.BIT, value.fallible)
        value = implicit(value, ArgumentKind.INTEGER, "~", 1)
        return Sql(f"(~{value.text})", Type.BIGINT, value.fallible)
    value = implicit(value, ArgumentKind.NUMBER, "-" if operator == "neg" else "+", 1)
    if operator == "pos":
        return value
    return Sql(f"(-({value.text}))", value.type, fallible=value.fallible or value.type is Type.BIGINT)


def like(value: Sql, pattern: Sql) -> Sql:
    """LIKE; false where a side is NULL."""
    if NULL_SQL.type in (value.type, pattern.type):
        return Sql("false", Type.BIT)
    before = (value, pattern)
    value, pattern = (implicit(side, ArgumentKind.TEXT, "like", i) for i, side in enumerate(before, 1))
    matched = Sql(like_sql(value, pattern), Type.BIT, value.fallible or pattern.fallible)
    held = strict(matched, before, (value, pattern))
    return Sql(f"coalesce({held.text}, false)", Type.BIT, held.fallible)


def between(value: Sql, low: Sql, high: Sql) -> Sql:
    """BETWEEN, both bounds included; false where a bound that is looked at is NULL."""
    above, below = compare(">=", value, low), compare("<=", value, high)
    text = f"(CASE WHEN {above.text} THEN {below.text} ELSE false END)"
    return Sql(text, Type.BIT, above.fallible or below.fallible)


def among(value: Sql, options: Sequence[Sql]) -> Sql:
    """IN: whether an option equals the value; options after one that does are not attempted."""
    found = [compare("=", value, option) for option in options]
    if not any(option.fallible for option in found):
        return Sql(f"({' OR '.join(option.text for option in found)})", Type.BIT)
    branches = " ".join(f"WHEN {option.text} THEN true" for option in found)
    return Sql(f"(CASE {branches} ELSE false END)", Type.BIT, fallible=True)


def negated(positive: Sql, operands: Sequence[Sql]) -> Sql:
    """NOT LIKE, NOT BETWEEN and NOT IN: false, like the positive form, where any operand is NULL."""
    if any(side.type is Type.NULL for side in operands):
        return Sql("false", Type.BIT)
    # What may stop the job is last, so that it is not attempted beside a NULL.
    sides = sorted((side for side in operands if side.constant is None), key=lambda side: side.fallible)
    nulls = " ".join(f"WHEN ({side.text}) IS NULL THEN false" for side in sides)
    if not nulls:
        return Sql(f"(NOT {positive.text})", Type.BIT, positive.fallible)
    return Sql(f"(CASE {nulls} ELSE NOT {positive.text} END)", Type.BIT, positive.fallible)


def condition(value: Sql) -> Sql:
    """The value as something that is true or false: NULL is false."""
    match value.type:
        case Type.BIT:
            return Sql(f"coalesce({value.text}, false)", Type.BIT, value.fallible)
        case Type.BIGINT:
            return Sql(f"coalesce({value.text} <> 0, false)", Type.BIT, value.fallible)
        case Type.NULL:
            return Sql("false", Type.BIT)
        case _:
            message = (
                invalid_type("WHERE", 1, value.type, ArgumentKind.ANY).split(" Only")[0]
                + " It must be a bit."
            )
            return Sql(f"coalesce({refusal(value, Type.BIT, message).text}, false)", Type.BIT, True)


def strict(result: Sql, arguments: Sequence[Sql], converted: Sequence[Sql], *, may_fail: bool = False) -> Sql:
    """The result, with nothing that may stop the job tried where an argument is NULL.

    So the result for a row does not depend on whether its NULL is known before (all of a column may be NULL).
    may_fail: not only the conversion of an argument may stop the job, but what is done with all of them.
    """
    if len(arguments) < 2 or not (may_fail or any(arg.fallible for arg in converted)):
        return result
    sure = [arg.text for arg in arguments if not arg.fallible and arg.constant is None]
    if not sure:
        return result
    nulls = " OR ".join(f"({text}) IS NULL" for text in sure)
    return Sql(f"CASE WHEN {nulls} THEN NULL ELSE {result.text} END", result.type, True, result.raw)
