"""The message when a row makes an expression fail: which row, which part of the query, and why (A-33).

Nothing here runs unless a statement has failed; then the cost of looking again does not matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pyarrow as pa

from tideglass.core.errors import Diagnostic, EvaluationError, FailedRow, Source, Span
from tideglass.core.json_rows import compact_json, rows_of
from tideglass.core.time import format_ticks
from tideglass.core.types import ORDER_COLUMNS, SUBSTREAM
from tideglass.functions.mathematics import OVERFLOW
from tideglass.plan.expressions import Call, Case, Expr, Ref, children, references, walk
from tideglass.plan.topology import (
    AnalyticOp,
    ApplyOp,
    EmitOp,
    JoinOp,
    LookupOp,
    PartialOp,
    PatternOp,
    ReceiveOp,
    RowsOp,
    ScanOp,
    SendOp,
    Topology,
    WindowOp,
)

_LONGEST_SHOWN = 300
_LIMIT = ("LIMIT_REACHED", "docs/limits.md lists what one row may take")
_FAILED = ("FUNCTION_FAILED", "let the function return null instead")
OWN_COLUMNS = (*ORDER_COLUMNS, SUBSTREAM)


def message_of(problem: Exception) -> str:
    """What went wrong in a statement, in the words of the language."""
    text = str(problem)
    if "EvaluationError: " in text:
        return text.split("EvaluationError: ", 1)[1].split("\n")[0].strip()
    if text.startswith(("Out of Range Error", "Conversion Error")):
        return OVERFLOW
    return text.removeprefix("Invalid Input Error: ").split("\n\nLINE ")[0].strip()


def first_failing_row(fails: Callable[[pa.Table], bool], table: pa.Table) -> pa.Table:
    """The first row on which `fails`, which is true for the whole table, is true."""
    start, count = 0, table.num_rows
    while count > 1:
        half = count // 2
        if fails(table.slice(start, half)):
            count = half
        else:
            start, count = start + half, count - half
    return table.slice(start, 1)


def evaluated_parts(expr: Expr, holds: Callable[[Expr], bool]) -> Iterator[Expr]:
    """The direct sub-expressions that are evaluated on a row, in their order; `holds` decides conditions."""
    match expr:
        case Call(function="and" | "or"):
            for arg in expr.args:
                yield arg
                if holds(arg) is (expr.function == "or"):
                    return
        case Call(function="coalesce"):
            for arg in expr.args:
                yield arg
                if not holds(Call("isnull", (arg,))):
                    return
        case Case():
            for condition, value in expr.branches:
                yield condition
                if holds(condition):
                    yield value
                    return
            yield expr.otherwise
        case _:
            yield from children(expr)


def failed_row(expr: Expr | None, row: pa.Table) -> FailedRow:
    """The values the expression reads in a row (None: all values), and the row's place in the table."""
    read = set(row.column_names) - set(OWN_COLUMNS) if expr is None else references(expr)
    names = sorted(name for name in read if name in row.column_names)
    values = rows_of(row.select(names).rename_columns([shown_name(name) for name in names]))
    pieces = () if expr is None else _pieces(expr)
    place = None
    if all(name in row.column_names for name in ORDER_COLUMNS):
        ts, arrival, input_, partition, offset = (row[name][0].as_py() or 0 for name in ORDER_COLUMNS)
        place = (ts, arrival, input_, partition, offset)
    return FailedRow(compact_json(values[0])[:_LONGEST_SHOWN] if names else "", place, pieces)


def shown_name(column: str) -> str:
    """A column as the reader of an error knows it: a field of the event by its own name.

    >>> shown_name("$payload.speed"), shown_name("left.$payload.speed")
    ('speed', 'left.speed')
    """
    return column.replace("$payload.", "").removeprefix("$") or column


def _pieces(expr: Expr) -> tuple[tuple[str, Span], ...]:
    """Columns the engine made for aggregates, keys and the like, with the pieces of the query they hold."""
    made = [part for part in walk(expr) if isinstance(part, Ref) and _is_made(part.name)]
    return tuple((shown_name(part.name), part.span) for part in made if part.span != Span())


def _is_made(column: str) -> bool:
    return bool(re.search(r"(^|\.)\$(?!payload)", column))


def _in_words(row: FailedRow, source: Source) -> str:
    """The values of a row, each under the user's own words for it."""
    values = row.values
    for name, span in row.pieces:
        words = " ".join(source.text[span.start : span.end].split())
        values = values.replace(f"{json.dumps(name)}:", f"{json.dumps(words, ensure_ascii=False)}:", 1)
    return values


# ---------------------------------------------------------------- where it happened

#: What goes wrong on a row, by a piece of its message: a stable code, and what to do about it.
_KINDS = (
    (re.compile(r"^The function UDF\.\w+ failed:"), *_FAILED),
    (re.compile(r"^Cannot cast"), "CAST_FAILED", "TRY_CAST gives NULL where a value cannot be converted"),
    (re.compile("division by zero"), "DIVISION_BY_ZERO", "divide by NULLIF(x, 0), which gives NULL instead"),
    (
        re.compile("overflow|out of the range|outside the range"),
        "OVERFLOW",
        "CAST to float, or filter such values in a step before",
    ),
    (
        re.compile(r"^The 1st argument of function (min|max) has invalid type 'nvarchar"),
        "WRONG_TYPE",
        "write CAST(... AS datetime) for times, CAST(... AS nvarchar(max)) to compare as text",
    ),
    (
        re.compile("^The ORDER BY argument of function .* has invalid type 'nvarchar"),
        "WRONG_TYPE",
        "text is ordered as numbers or as ISO times; TRY_CAST(... AS datetime) or TRY_CAST(... AS float) "
        "gives NULL for other text",
    ),
    (re.compile("ring of it is not closed"), "INVALID_VALUE", "end each ring with its first point"),
    (
        re.compile("meets numbers and times"),
        "WRONG_TYPE",
        "TRY_CAST(... AS datetime) gives NULL for all but times",
    ),
    (
        re.compile("invalid type|cannot be compared|have no order|datetime and a text"),
        "WRONG_TYPE",
        "TRY_CAST the value to the type that is wanted",
    ),
    (
        re.compile("^A (pattern|match) may "),
        "TOO_MANY_WAYS",
        "shorten LIMIT DURATION, or let DEFINE look back at fewer events",
    ),
    (
        re.compile(
            r"did not end within|took more than .* of memory|would be longer than|pattern is longer than"
        ),
        *_LIMIT,
    ),
    (re.compile(r"^The (function|script of) UDF"), *_FAILED),
    (
        re.compile(r"^The (function|script of) uda"),
        "FUNCTION_FAILED",
        "a window without a result may return null; let its methods check what they are given",
    ),
)


def located(error: EvaluationError, topology: Topology, op_id: int | None = None) -> EvaluationError:
    """The error with its place in the query, and the row with its input, partition and offset.

    op_id: the operator that failed, which knows whether its rows are events of an input.
    """
    found = [(code, hint) for pattern, code, hint in _KINDS if pattern.search(error.message)]
    code, hint = found[0] if found else ("INVALID_VALUE", "filter such values in a step before")
    if error.span is None or error.span == Span():
        lines = [f"[{code}] {error.message}"]
    else:
        *lines, _ = Diagnostic(code, error.message, error.span, hint).render(topology.source).split("\n")
    if error.row is not None and error.row.values:
        lines.append(f"  the row has {_in_words(error.row, topology.source)}")
    if error.row is not None and error.row.place is not None:
        lines.append(f"  {_place_text(error.row.place, topology, op_id)}")
    return EvaluationError("\n".join([*lines, f"  hint: {hint}"]), error.span)


def _place_text(place: tuple[int, int, int, int, int], topology: Topology, op_id: int | None) -> str:
    ts, arrival, input_, partition, offset = place
    if op_id is not None and not _reads_input_events(topology, op_id):
        return f"it is a row of a step, at {format_ticks(ts)}"
    name = next(reader.input for reader in topology.readers if reader.id == input_)
    return (
        f"it is event {offset} of partition {partition} of the input {name!r}, at {format_ticks(ts)}, "
        f"arrived {format_ticks(arrival)}"
    )


def _reads_input_events(topology: Topology, op_id: int) -> bool:
    """Whether the rows an operator fails on are events of inputs; a window fails on rows it reads."""
    match topology.op(op_id):
        case WindowOp(sources=sources) | PatternOp(sources=sources):
            return all(_reads_events(topology, source) for source in sources)
        case _:
            return _reads_events(topology, op_id)


def _reads_events(topology: Topology, op_id: int) -> bool:
    """Whether all rows of an operator are events of inputs, not made by a window or a join."""
    match topology.op(op_id):
        case ScanOp():
            return True
        case (
            RowsOp(source=source)
            | PartialOp(source=source)
            | ApplyOp(source=source)
            | LookupOp(source=source)
        ):
            return _reads_events(topology, source)
        case SendOp(source=source) | EmitOp(source=source) | ReceiveOp(send=source):
            return _reads_events(topology, source)
        case AnalyticOp(sources=sources):
            return all(_reads_events(topology, source) for source in sources)
        case WindowOp() | JoinOp() | PatternOp():
            return False
