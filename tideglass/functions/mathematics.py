"""Mathematical functions (`asa.md` 4.6). A result no float can hold is an error, never infinity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tideglass.core.errors import EvaluationError
from tideglass.core.types import Type
from tideglass.functions.duckdb_functions import PythonFunction
from tideglass.functions.signature import ArgumentKind, ScalarSignature, Sql, scalar, template, unless

if TYPE_CHECKING:
    import pyarrow as pa

OVERFLOW = "arithmetic overflow: the result does not fit its type."

MACROS = (
    f"tg_finite(x) AS {unless('NOT isfinite(x)', OVERFLOW, 'x')}",
    "tg_sqrt(x) AS " + unless("x < 0", "SQRT needs a number that is not negative.", "sqrt(x)"),
    # Beyond 2^53 a double is not exact any more.
    "tg_power(x, y) AS CASE WHEN abs(pow(CAST(x AS DOUBLE), y)) <= 9007199254740992.0 "
    "THEN CAST(trunc(pow(CAST(x AS DOUBLE), y)) AS BIGINT) "
    "WHEN x IS NULL OR y IS NULL THEN NULL ELSE tg_big_power(x, y) END",
    # Half away from zero; 10^19 and above is more than twice any bigint.
    "tg_round_whole(x, n) AS CASE WHEN n >= 0 THEN x WHEN n < -18 THEN x - x ELSE "
    "CAST(sign(x) * ((abs(CAST(x AS HUGEINT)) + CAST(pow(10, -n) AS BIGINT) // 2) "
    "// CAST(pow(10, -n) AS BIGINT)) * CAST(pow(10, -n) AS BIGINT) AS BIGINT) END",
    "tg_round(x, n) AS round(x, CAST(least(greatest(n, -400), 400) AS INTEGER))",
)


def _big_power(bases: pa.Array, exponents: pa.Array) -> pa.Array:
    """Exact integer powers, for those too large for a double to be exact."""
    import pyarrow as pa

    powers: list[int | None] = []
    for base, exponent in zip(bases.to_pylist(), exponents.to_pylist(), strict=True):
        if base is None or exponent is None:
            powers.append(None)
            continue
        try:
            exact = exponent == int(exponent) and 0 <= exponent <= 64
            power = base ** int(exponent) if exact else int(float(base) ** exponent)
        except (OverflowError, ZeroDivisionError, TypeError, ValueError):
            power = 2**64
        if not -(2**63) <= power < 2**63:
            raise EvaluationError(OVERFLOW)
        powers.append(power)
    return pa.array(powers, pa.int64())


PYTHON_FUNCTIONS = (PythonFunction("tg_big_power", _big_power, ("BIGINT", "DOUBLE"), "BIGINT"),)


def finite(text: str) -> Sql:
    """A float result that may overflow."""
    return Sql(f"tg_finite({text})", Type.FLOAT, fallible=True)


def _abs(args: Sequence[Sql]) -> Sql:
    return Sql(f"abs({args[0].text})", args[0].type, fallible=args[0].type is Type.BIGINT)


def _ceiling(args: Sequence[Sql]) -> Sql:
    return args[0] if args[0].type is Type.BIGINT else Sql(f"ceiling({args[0].text})", Type.FLOAT)


def _floor(args: Sequence[Sql]) -> Sql:
    return args[0] if args[0].type is Type.BIGINT else Sql(f"floor({args[0].text})", Type.FLOAT)


def _sign(args: Sequence[Sql]) -> Sql:
    held = "BIGINT" if args[0].type is Type.BIGINT else "DOUBLE"
    return Sql(f"CAST(sign({args[0].text}) AS {held})", args[0].type)


def _power(args: Sequence[Sql]) -> Sql:
    base, exponent = args[0], f"CAST({args[1].text} AS DOUBLE)"
    if base.type is Type.BIGINT:
        return Sql(f"tg_power({base.text}, {exponent})", Type.BIGINT, fallible=True)
    return finite(f"pow({base.text}, {exponent})")


def _round(args: Sequence[Sql]) -> Sql:
    if args[0].type is Type.BIGINT:
        return Sql(f"tg_round_whole({args[0].text}, {args[1].text})", Type.BIGINT, fallible=True)
    return Sql(f"tg_round({args[0].text}, {args[1].text})", Type.FLOAT)


def _exp(args: Sequence[Sql]) -> Sql:
    return finite(f"exp(CAST({args[0].text} AS DOUBLE))")


def _square(args: Sequence[Sql]) -> Sql:
    return finite(f"(CAST({args[0].text} AS DOUBLE) * CAST({args[0].text} AS DOUBLE))")


_FAMILY = "mathematics"
_ONE = (ArgumentKind.NUMBER,)
SCALARS: tuple[ScalarSignature, ...] = (
    scalar("abs", _FAMILY, _ONE, "The number without its sign.", _abs),
    scalar("ceiling", _FAMILY, _ONE, "The smallest whole number that is not smaller.", _ceiling),
    scalar("floor", _FAMILY, _ONE, "The largest whole number that is not larger.", _floor),
    scalar("sign", _FAMILY, _ONE, "-1, 0 or 1 in the type of the argument.", _sign),
    scalar("power", _FAMILY, (ArgumentKind.NUMBER,) * 2, "x to the power y, in the type of x.", _power),
    scalar("exp", _FAMILY, _ONE, "e to the power x.", _exp),
    scalar(
        "sqrt",
        _FAMILY,
        _ONE,
        "The square root of a number that is not negative.",
        template("tg_sqrt(CAST({0} AS DOUBLE))", Type.FLOAT, fallible=True),
    ),
    scalar("square", _FAMILY, _ONE, "The number times itself, as float.", _square),
    scalar(
        "round",
        _FAMILY,
        (ArgumentKind.NUMBER, ArgumentKind.INTEGER),
        "The number rounded half away from zero to so many places right (or left, if negative) of the point.",
        _round,
    ),
)
