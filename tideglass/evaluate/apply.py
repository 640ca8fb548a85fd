"""APPLY: a row for each element of an array, or for each field of a record (`asa.md` 2.11)."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from tideglass.core.errors import EvaluationError, FailedRow
from tideglass.core.failing_rows import OnFailure, of_sound_rows
from tideglass.core.iso import flat
from tideglass.core.sql import query
from tideglass.core.types import Type, type_of
from tideglass.core.types import field as typed_field
from tideglass.evaluate.block import UnreadableNumber, read_json
from tideglass.evaluate.failure import failed_row
from tideglass.plan.topology import ApplyOp

#: SQL of the lists to lay out side by side, by function; `a` is the JSON text.
_ELEMENTS = {
    "getarrayelements": ("range(json_array_length(a)::BIGINT)", "json_extract(a, '$[*]')"),
    "getrecordproperties": ("json_keys(a)", "json_extract(a, '$.*')"),
}


def applied(op: ApplyOp, rows: pa.Table, level: str, on_failure: OnFailure | None = None) -> pa.Table:
    """The rows with their elements; rows in their order, elements in theirs.

    A row whose collection is NULL or empty is left out, or with OUTER kept once with NULLs. Raises
    EvaluationError for a number no type of the language can hold; with `on_failure` the row is reported
    there and left out.
    """
    return of_sound_rows(partial(_applied, op, level), rows, on_failure)


def _applied(op: ApplyOp, level: str, rows: pa.Table) -> pa.Table:
    kind = type_of(rows.schema.field(op.argument))
    texts = flat(rows[op.argument]) if kind is not Type.NULL else pa.nulls(rows.num_rows, pa.string())
    collections = pa.table({"p": pa.array(np.arange(rows.num_rows)), "a": texts})
    names, values = _ELEMENTS[op.function]
    found = query(
        f"SELECT p, unnest({names}) AS n, CAST(unnest({values}) AS VARCHAR) AS v FROM collections "
        "WHERE a IS NOT NULL",
        collections=collections,
    )
    places = found["p"].to_numpy()
    name = flat(found["n"])
    try:
        value, type_ = read_json(flat(found["v"]), level)
    except UnreadableNumber as problem:
        row = failed_row(None, rows.slice(int(places[problem.place]), 1))
        raise EvaluationError(problem.message, None, FailedRow(place=row.place)) from None
    if op.outer:
        others = np.setdiff1d(np.arange(rows.num_rows), places)
        order = np.argsort(np.concatenate([places, others]), kind="stable")
        taken = pa.array(order, mask=order >= len(places))
        places = np.concatenate([places, others])[order]
        name, value = name.take(taken), value.take(taken)
    result = rows.drop_columns([op.argument]).take(pa.array(places))
    of_names = Type.BIGINT if op.function == "getarrayelements" else Type.NVARCHAR
    result = result.append_column(typed_field(op.made[0], of_names), name)
    return result.append_column(typed_field(op.made[1], type_), value)
