"""What a task does for an output whose files are spread over folders: a staged file for the rows of each."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from tideglass.connect.files.staging import STAGING, part_name, staged_file
from tideglass.connect.formats.layout import spread
from tideglass.core.arrays import pc
from tideglass.core.errors import OutputError
from tideglass.core.iso import flat
from tideglass.core.types import PAYLOAD, SYSTEM_TIMESTAMP, TYPE_OF_TAG, Type, types_of

if TYPE_CHECKING:
    from tideglass.connect.files.partitioned_output import PartitionedFileOutput
    from tideglass.storage import StoragePath

#: What a task says of a file it has staged.
STAGED = pa.schema(
    [
        ("temporary", pa.string()),
        ("part", pa.string()),
        ("folder", pa.string()),
        ("rows", pa.int64()),
        ("columns", pa.string()),
        ("end_ticks", pa.int64()),
    ]
)
_NOT_NAMES = (Type.DATETIME, Type.RECORD, Type.ARRAY)


def stage_rows(output: PartitionedFileOutput, rows: pa.Table, sender: str) -> pa.Table:
    """Write the rows of each folder to a staged file; a row of STAGED for each. Raises OutputError."""
    if rows.num_rows == 0:
        return STAGED.empty_table()
    part = part_name(sender)
    kept = rows.select([each for each in rows.column_names if each == PAYLOAD or each[0] != "$"])
    found: list[dict[str, Any]] = []
    for folder, time_ticks, places in output.pattern.folders(
        flat(rows[SYSTEM_TIMESTAMP]), _folder_values(output, rows)
    ):
        own = kept if len(places) == rows.num_rows else kept.take(places)
        temporary = output.path / STAGING / f"{part}-{uuid.uuid4().hex[:12]}.{output.format}"
        found.append(
            {
                "temporary": temporary.name,
                "part": part,
                "folder": folder,
                "rows": own.num_rows,
                "columns": _write(output, own, temporary),
                "end_ticks": output.pattern.partition_end_ticks(time_ticks),
            }
        )
    return pa.Table.from_pylist(found, STAGED)


def _write(output: PartitionedFileOutput, rows: pa.Table, temporary: StoragePath) -> str:
    try:
        with staged_file(temporary) as file:
            if output.waiting is not None:
                return output.files.write_piece(rows, file)
            output.files.write(rows, file)
            return ""
    except OSError as error:
        raise OutputError(
            f"the output {output.name!r} cannot be written to {output.path}: {error}"
        ) from error


def _folder_values(output: PartitionedFileOutput, rows: pa.Table) -> pa.Array | None:
    """The texts of the pattern's column; None for a pattern without one."""
    wanted = output.pattern.column
    if wanted is None:
        return None
    listed = [each for each in rows.column_names if not each.startswith("$")]
    table = rows if _among(listed, wanted) or PAYLOAD not in rows.column_names else spread(rows)
    name = _among([each for each in table.column_names if not each.startswith("$")], wanted)
    if name is not None:
        return _texts(flat(table[name]), types_of(table)[name], name, output.name)
    if PAYLOAD not in rows.column_names:
        raise OutputError(
            f"the path pattern of the output {output.name!r} names the column {wanted!r}, which its rows do "
            f"not have; they have {', '.join(listed)}"
        )
    return pa.nulls(rows.num_rows, pa.string())  # events of any shape, none of which has it


def _texts(column: pa.Array, type_: Type, name: str, output: str) -> pa.Array:
    found = {type_}
    if type_ is Type.VARIANT:
        tags = pc.unique(pc.drop_null(pc.utf8_slice_codeunits(column, 0, 1)))
        found = {TYPE_OF_TAG[each] for each in cast("list[str]", tags.to_pylist())}
    if wrong := [each for each in found if each in _NOT_NAMES]:
        raise OutputError(
            f"the path pattern of the output {output!r} names the column {name!r}, which holds a value "
            f"of the type {wrong[0].value}; a folder is named by a text, a number or a bit\n"
            "  hint: CAST it in the query"
        )
    match type_:
        case Type.NVARCHAR:
            return column
        case Type.VARIANT:
            return pa.array([_text_of_variant(each) for each in column.to_pylist()], pa.string())
        case _:
            return pa.array([_text_of(each) for each in column.to_pylist()], pa.string())


def _among(names: Sequence[str], wanted: str) -> str | None:
    """The name that is meant: the same one, else the first that differs in case."""
    same = [each for each in names if each.casefold() == wanted.casefold()]
    return wanted if wanted in same else next(iter(same), None)


def _text_of(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def _text_of_variant(tagged: str | None) -> str | None:
    if tagged is None:
        return None
    return tagged[1:] if tagged[0] != "b" else _text_of(tagged[1:] == "1")
