"""What a placed job reads of its inputs: the fields each decoder delivers, and their names as columns.

A payload field that the rows of a scan are asked for singly is a column of its own
(`expressions.field_column`), so that a decoder need not make the whole payload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tideglass.core.events import Fields
from tideglass.core.types import BLOB_NAME, EVENT_ID, PAYLOAD
from tideglass.plan.expressions import Expr, fields_to_columns, payload_fields, references
from tideglass.plan.nodes import InputScan
from tideglass.plan.pruning import by_field_columns
from tideglass.plan.topology import Op, Reader, RowsOp, ScanOp


def fields_of_inputs(ops: Sequence[Op], readers: Mapping[InputScan, Reader]) -> dict[str, Fields]:
    """What each input's decoder must deliver, over all readers of the input."""
    scan_of = {op.reader: op.id for op in ops if isinstance(op, ScanOp)}
    result: dict[str, Fields] = {}
    for scan, reader in readers.items():
        exprs: list[Expr] = [*([scan.timestamp] if scan.timestamp is not None else []), *scan.over]
        for op in ops:
            if isinstance(op, RowsOp) and op.source == scan_of[reader.id]:
                exprs += [item.expr for item in op.rows.items]
                exprs += [op.rows.condition] if op.rows.condition is not None else []
        paths = {path for expr in exprs for path in payload_fields(expr)}
        event_ids, blob_names = (EVENT_ID,) in paths, (BLOB_NAME,) in paths
        paths -= {(EVENT_ID,), (BLOB_NAME,)}
        whole = any(PAYLOAD in references(fields_to_columns(expr)) for expr in exprs)
        before = result.get(scan.input, Fields(payload_types=scan.payload_types))
        result[scan.input] = Fields(
            paths=tuple(sorted(paths | set(before.paths))),
            whole=whole or before.whole,
            payload_types=scan.payload_types,
            event_ids=event_ids or before.event_ids,
            blob_names=blob_names or before.blob_names,
        )
    return result


def with_field_columns(ops: Sequence[Op]) -> tuple[Op, ...]:
    """The operators; programs that read a scan directly find single payload fields as columns."""
    return tuple(
        replace(op, rows=by_field_columns(op.rows))
        if isinstance(op, RowsOp) and isinstance(ops[op.source], ScanOp)
        else op
        for op in ops
    )


def reader_of_columns(reader: Reader) -> Reader:
    """The reader; its timestamp and substreams find single payload fields as columns."""
    return replace(
        reader,
        timestamp=None if reader.timestamp is None else fields_to_columns(reader.timestamp),
        over=tuple(fields_to_columns(expr) for expr in reader.over),
    )
