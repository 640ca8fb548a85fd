"""The value of each aggregate from its merged cells, for all closed groups at once (`asa.md` 4.1).

SUM      bigint if all values are, and an error beyond int64 (A-19); with a float among them the exact sum
         of all values rounded once to a float.
AVG      the exact sum rounded once to a float, divided by the count (A-18).
VAR      (n * sum(x^2) - sum(x)^2) / (n * (n - 1)) of the values as floats, evaluated exactly and rounded
         once; NULL for one value. VARP divides by n * n. STDEV, STDEVP are the root of that float.
         NaN if an infinity or NaN is among the values.
MIN, MAX bigint, float and bit compare as numbers, exactly; of equal ones the bigint, then the float,
         stands for them. NaN is greater than every number, and -0.0 is 0.0.
PERCENTILE_CONT  the values as floats, lower + (upper - lower) * fraction at rank p * (n - 1);
PERCENTILE_DISC  the ceil(p * n)-th value (the first for p = 0) with its own type. p is the decimal written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import pc
from tideglass.core.columns import settle, to_variant
from tideglass.core.errors import EvaluationError, FailedRow
from tideglass.core.iso import flat
from tideglass.core.sql import query, quoted
from tideglass.core.types import ORDER_COLUMNS, Type
from tideglass.operators.aggregates.cells import COUNT_OF_ROWS
from tideglass.operators.aggregates.exact_sums import ExactSums, float_of_ratio, whole_of_float
from tideglass.operators.aggregates.javascript import user_defined
from tideglass.plan.specs import EXTREMES, SPREADS, AggregateSpec

Column = tuple[pa.Array, Type]


def finish(spec: AggregateSpec, closed: pa.Table) -> Column:
    """The result column of an aggregate over merged cells, and its type.

    Raises EvaluationError for a sum of bigints outside int64, for values that cannot be compared, and where
    a user's aggregate fails.
    """
    count = closed.num_rows
    if spec.is_users:
        return user_defined(spec, closed)
    if spec.function == "count":
        return _count(spec, closed)
    if spec.function in ("sum", "avg"):
        return _sum(spec, closed)
    if spec.function in SPREADS:
        return _spread(spec, closed)
    if spec.function in EXTREMES:
        return _extreme(spec, closed)
    if spec.function in ("percentile_cont", "percentile_disc"):
        return _percentile(spec, closed)
    cell = spec.cell("list.rows") if spec.function == "collect" else spec.top_cell
    if cell not in closed.column_names:
        return pa.nulls(count), Type.NULL
    _check_kinds(spec, closed)
    return _from_rows(spec, closed, quoted(cell))


def _check_kinds(spec: AggregateSpec, closed: pa.Table) -> None:
    """Raises EvaluationError where a column of ORDER BY has numbers and times; names the later row."""
    for place in range(len(spec.order_by)):
        names = (spec.number_cell(place), spec.time_cell(place))
        if not all(name in closed.column_names for name in names):
            continue
        both = pc.and_(*(flat(closed[name]).is_valid() for name in names))
        found = [closed[name].filter(both).to_pylist() for name in names]
        rows = [tuple(first[f"p{n}"] for n in range(len(ORDER_COLUMNS))) for one in found for first in one]
        if rows:
            half = len(rows) // 2
            later, at = min((max(rows[n], rows[half + n]), n) for n in range(half))
            raise EvaluationError(
                f"ORDER BY of function {spec.function} meets numbers and times, which have no order. "
                f"The values are {found[0][at]['v']} and {found[1][at]['v']}.",
                spec.span,
                FailedRow(place=later),
            )


def _counts(closed: pa.Table, cell: str) -> pa.Array:
    if cell not in closed.column_names:
        return pa.array(np.zeros(closed.num_rows, np.int64))
    return pc.fill_null(flat(closed[cell]).cast(pa.int64()), 0)


def _count(spec: AggregateSpec, closed: pa.Table) -> Column:
    if spec.arg is None:
        return _counts(closed, COUNT_OF_ROWS), Type.BIGINT
    if not spec.distinct:
        return _counts(closed, spec.cell("n.values")), Type.BIGINT
    cell = spec.cell("set.values")
    if cell not in closed.column_names:
        return pa.array(np.zeros(closed.num_rows, np.int64)), Type.BIGINT
    return pc.fill_null(pc.list_value_length(flat(closed[cell])), 0).cast(pa.int64()), Type.BIGINT


def _exact(spec: AggregateSpec, closed: pa.Table, families: Sequence[str], wholes: bool) -> ExactSums:
    """The sum over the lanes and outliers of the families (`lane.<family><scale>`, `list.<family>x`)."""
    total: dict[int, pa.Array] = {}
    outliers: pa.Array | None = None
    for family in families:
        prefix = spec.cell(f"lane.{family}")
        for name in closed.column_names:
            scale = name.removeprefix(prefix)
            if name.startswith(prefix) and scale.isdigit():
                total[int(scale)] = flat(closed[name])
        if spec.cell(f"list.{family}x") in closed.column_names:
            outliers = flat(closed[spec.cell(f"list.{family}x")])
    if wholes and spec.cell("whole.sum") in closed.column_names:
        total[0] = flat(closed[spec.cell("whole.sum")])
    return ExactSums(total, outliers, closed.num_rows)


def _any_known(columns: Sequence[pa.Array], count: int) -> Any:
    known = np.zeros(count, np.bool_)
    for column in columns:
        known |= np.asarray(column.is_valid())
    return known


def _sum(spec: AggregateSpec, closed: pa.Table) -> Column:
    sums = _exact(spec, closed, ("",), wholes=True)
    count = closed.num_rows
    floats = [column for scale, column in sums.lanes.items() if scale] + (
        [sums.outliers] if sums.outliers is not None else []
    )
    has_float = _any_known(floats, count)
    whole = sums.lanes.get(0)
    has_whole = _any_known([whole] if whole is not None else [], count)
    known = has_float | has_whole
    if not known.any():
        return pa.nulls(count), Type.NULL
    if spec.function == "avg":
        number = np.asarray(_counts(closed, spec.cell("n.values")))
        mean = sums.floats() / np.where(known, number, 1)
        return pa.array(mean, mask=~known), Type.FLOAT
    integers: pa.Array = pa.nulls(count, pa.int64())
    if whole is not None and not has_float.all():
        try:
            alone = pc.if_else(pa.array(~has_float), whole, pa.scalar(None, whole.type))
            integers = alone.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise EvaluationError(
                "The result of function sum is out of the range of type 'bigint'.", spec.span
            ) from error
    if not has_float.any():
        return integers, Type.BIGINT
    totals = pa.array(sums.floats(), mask=~has_float)
    if has_float[known].all():
        return totals, Type.FLOAT
    return _joined([(integers, Type.BIGINT), (totals, Type.FLOAT)])


def _joined(columns: Sequence[Column]) -> Column:
    """The one value each row has among the columns, in its natural type if all agree."""
    present = [(column, type_) for column, type_ in columns if column.null_count < len(column)]
    if len(present) == 1:
        return present[0]
    if not present:
        return pa.nulls(len(columns[0][0])), Type.NULL
    return settle(pc.coalesce(*[to_variant(column, type_) for column, type_ in present]), Type.VARIANT)


def _spread(spec: AggregateSpec, closed: pa.Table) -> Column:
    count = closed.num_rows
    numbers = np.asarray(_counts(closed, spec.cell("n.values")))
    needed = 1 if spec.function in ("varp", "stdevp") else 2
    known = numbers >= needed
    if not known.any():
        return pa.nulls(count), Type.NULL
    # all in units of 2**-1074 (sums) and its square (squares)
    sums = _exact(spec, closed, ("v",), wholes=False).wholes()
    squares = [total << 1074 for total in _exact(spec, closed, ("q",), wholes=False).wholes()]
    for place, error in enumerate(_exact(spec, closed, ("e",), wholes=False).wholes()):
        squares[place] += error << 1074
    broken = np.zeros(count, np.bool_)
    if spec.cell("list.raw") in closed.column_names:
        for place, values in enumerate(closed[spec.cell("list.raw")].to_pylist()):
            for value in values or ():
                if math.isfinite(value):
                    whole = whole_of_float(value)
                    sums[place] += whole
                    squares[place] += whole * whole
                else:
                    broken[place] = True
    unit = 1 << 2148
    result = np.zeros(count)
    for place in np.flatnonzero(known):
        number = int(numbers[place])
        numerator = number * squares[place] - sums[place] * sums[place]
        denominator = number * (number - 1 if needed == 2 else number)
        result[place] = float_of_ratio(numerator, denominator * unit)
    result[broken] = math.nan
    if spec.function.startswith("stdev"):
        result = np.sqrt(result)
    return pa.array(result, mask=~known), Type.FLOAT


def _extreme(spec: AggregateSpec, closed: pa.Table) -> Column:
    def cell(family: str) -> pa.Array | None:
        name = spec.cell(f"{spec.function}.{family}")
        return flat(closed[name]) if name in closed.column_names else None

    if spec.as_text:
        text = cell("text")
        return (text, Type.NVARCHAR) if text is not None else (pa.nulls(closed.num_rows), Type.NULL)
    types = {"whole": Type.BIGINT, "float": Type.FLOAT, "bit": Type.BIT, "datetime": Type.DATETIME}
    found = [(family, column) for family in types if (column := cell(family)) is not None]
    columns: list[Column] = [(column, types[family]) for family, column in found]
    if not columns:
        return pa.nulls(closed.num_rows), Type.NULL
    several = np.sum([np.asarray(column.is_valid()) for column, _ in columns], axis=0) > 1
    if several.any():
        columns = _single(spec, columns, several)
    return _joined(columns)


def _single(spec: AggregateSpec, columns: Sequence[Column], several: Any) -> list[Column]:
    """The same columns with only the winner left in rows where there are values of several families."""
    lists: list[list[Any]] = [column.to_pylist() for column, _ in columns]
    for row in np.flatnonzero(several):
        here = [place for place, values in enumerate(lists) if values[row] is not None]
        if any(columns[place][1] is Type.DATETIME for place in here):
            names = " and ".join(f"'{columns[place][1]}'" for place in here)
            raise EvaluationError(
                f"Values of types {names} cannot be compared by function {spec.function}.", spec.span
            )
        # Python compares int, float and bool exactly; NaN is after every number
        ranked = [(math.isnan(lists[place][row]), lists[place][row]) for place in here]
        best = ranked.index(min(ranked) if spec.function == "min" else max(ranked))
        for order, place in enumerate(here):
            if order != best:
                lists[place][row] = None
    return [
        (pa.array(values, column.type), type_) for values, (column, type_) in zip(lists, columns, strict=True)
    ]


def _percentile(spec: AggregateSpec, closed: pa.Table) -> Column:
    parts: list[str] = []
    for family, rest in (("whole", "(x::HUGEINT - x::DOUBLE::HUGEINT)::BIGINT"), ("float", "0::BIGINT")):
        if spec.cell(f"list.{family}") in closed.column_names:
            whole = "x" if family == "whole" else "NULL::BIGINT"
            struct = f"{{'nan': isnan(x::DOUBLE), 'd': x::DOUBLE, 'r': {rest}, 'w': {whole}}}"
            cell = quoted(spec.cell(f"list.{family}"))
            parts.append(f"coalesce(list_transform({cell}, lambda x: {struct}), [])")
    if not parts:
        return pa.nulls(closed.num_rows), Type.NULL
    share = Fraction(str(spec.constant))
    top, bottom = share.numerator, share.denominator
    descending = bool(spec.order_by) and spec.order_by[0][1]
    order = "list_reverse_sort" if descending else "list_sort"
    values = f"{order}({' || '.join(parts)})"
    inner = (
        f"SELECT row_number() OVER () AS row, v, len(v)::HUGEINT AS n FROM (SELECT {values} AS v FROM closed)"
    )
    if spec.function == "percentile_disc":
        place = f"greatest(1, ({top}::HUGEINT * n + {bottom - 1}) // {bottom})::BIGINT"
        chosen = f"SELECT row, v[{place}] AS x FROM ({inner})"
        sql = f"SELECT x.w AS w, CASE WHEN x.w IS NULL THEN x.d END AS d FROM ({chosen})"
        result = query(f"{sql} ORDER BY row", closed=closed)
        return _joined([(flat(result["w"]), Type.BIGINT), (flat(result["d"]), Type.FLOAT)])
    rank = f"({top}::HUGEINT * (n - 1))"
    lower, upper = f"v[({rank} // {bottom})::BIGINT + 1].d", f"v[({rank} // {bottom})::BIGINT + 2].d"
    fraction = f"(({rank} % {bottom})::DOUBLE / {bottom}::DOUBLE)"
    sql = (
        f"SELECT CASE WHEN n = 0 THEN NULL WHEN {rank} % {bottom} = 0 THEN {lower} "
        f"ELSE {lower} + ({upper} - {lower}) * {fraction} END AS d FROM ({inner}) ORDER BY row"
    )
    return _joined([(flat(query(sql, closed=closed)["d"]), Type.FLOAT)])


def _from_rows(spec: AggregateSpec, closed: pa.Table, cell: str) -> Column:
    """TopOne, CollectTop and Collect from the structs of rows kept in a cell."""
    match spec.function:
        case "topone":
            sql = f"{cell}[1].v"
        case "collecttop":
            item = """'{"rank":' || i || ',"value":' || x.v || '}'"""
            sql = f"'[' || array_to_string(list_transform({cell}, lambda x, i: {item}), ',') || ']'"
        case _:
            sql = f"'[' || array_to_string(list_transform(list_sort({cell}), lambda x: x.v), ',') || ']'"
    sql = f"CASE WHEN len({cell}) > 0 THEN {sql} END"
    result = query(f"SELECT {sql} AS y FROM closed", closed=closed)
    column = flat(result["y"])
    return settle(column, Type.VARIANT if spec.function == "topone" else Type.ARRAY)
