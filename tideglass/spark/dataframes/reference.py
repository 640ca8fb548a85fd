"""Reference data of queries over DataFrames: read when the query is made, sent to every worker once.

A static DataFrame is collected, with the columns the query asks for, and shared as rows are
(`shared_snapshots`). Files are read by the workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from tideglass.connect.dataframes.exact_values import exact_column
from tideglass.connect.formats.decoded import LINE
from tideglass.connect.formats.parquet import decode_parquet, wanted_columns
from tideglass.connect.in_memory import Row
from tideglass.connect.reference.files import FileReference
from tideglass.connect.reference.references import InlineReferences, no_time
from tideglass.connect.reference.snapshot import ReferenceSnapshot, RowsSnapshot, broken_row
from tideglass.connect.spec import ReferenceSpec
from tideglass.core.errors import InputError
from tideglass.core.events import Fields
from tideglass.core.ipc import from_bytes, to_bytes
from tideglass.core.time import BEFORE_ALL_TICKS, parse_ticks
from tideglass.core.types import Type
from tideglass.plan.topology import LookupOp, Topology
from tideglass.spark.dataframes.shared_snapshots import shared
from tideglass.spark.dataframes.sql_columns import field_types
from tideglass.storage import storage_path

#: One snapshot: a static DataFrame, rows, or a file (a pattern with {date} and {time} is several).
InlineSnapshot: TypeAlias = "DataFrame | Sequence[Row] | str | Path"
#: Reference data: one snapshot, or several by the ISO time from which each holds.
InlineReference: TypeAlias = "InlineSnapshot | Mapping[str, InlineSnapshot]"


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """The rows of a DataFrame, as a chunk."""

    effective_ticks: int
    body: bytes

    def read(self, name: str, fields: Fields, level: str) -> pa.Table:
        decoded = decode_parquet(from_bytes(self.body), fields, level, values=exact_column)
        for refused in decoded.rejected:
            raise broken_row(name, f"row {refused.first_line + 1} of the DataFrame", refused)
        return decoded.table.drop_columns([LINE])


def inline_references(
    spark: SparkSession, topology: Topology, by_name: Mapping[str, InlineReference]
) -> InlineReferences:
    """The data for the reference inputs of the topology; case does not count.

    Raises InputError for what is no reference data, or is not there.
    """
    by_key = {name.casefold(): each for name, each in by_name.items()}
    found: dict[str, list[ReferenceSnapshot]] = {}
    for name in topology.references:
        snapshots: list[ReferenceSnapshot] = []
        for effective_ticks, each in _by_time(name, by_key[name.casefold()]).items():
            snapshots += _snapshots(topology, name, each, effective_ticks)
        found[name] = sorted(snapshots, key=lambda snapshot: snapshot.effective_ticks)
    return InlineReferences(shared(spark, found, functions=topology.levels + 1))


def reference_types(data: InlineReference, level: str) -> dict[tuple[str, ...], Type] | None:
    """The types of the columns and of the fields of structs; None where they depend on the rows."""
    schema = reference_schema(data)
    return None if schema is None else field_types(schema, level)


def reference_schema(data: InlineReference) -> StructType | None:
    """The columns of a reference input in Spark; None where they depend on the rows."""
    snapshots = list(data.values()) if isinstance(data, Mapping) else [data]
    schemas = [each.schema for each in snapshots if isinstance(each, DataFrame)]
    same = len(schemas) == len(snapshots) and all(schema == schemas[0] for schema in schemas)
    return schemas[0] if same else None


def _by_time(name: str, data: InlineReference) -> dict[int, InlineSnapshot]:
    """The snapshots by the ticks from which they hold."""
    if not isinstance(data, Mapping):
        return {BEFORE_ALL_TICKS: data}
    result: dict[int, InlineSnapshot] = {}
    for text, each in data.items():
        ticks = parse_ticks(text)
        if ticks is None:
            raise no_time(name, text)
        result[ticks] = each
    return result


def _snapshots(
    topology: Topology, name: str, data: object, effective_ticks: int
) -> Sequence[ReferenceSnapshot]:
    if isinstance(data, DataFrame):
        return [TableSnapshot(effective_ticks, _collected(topology, name, data))]
    if isinstance(data, str | Path):
        found = FileReference(ReferenceSpec(name=name, path=storage_path(data))).look((), None)
        if effective_ticks == BEFORE_ALL_TICKS:
            return found
        return [replace(each, effective_ticks=effective_ticks) for each in found]
    if isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in cast("Sequence[Any]", data)):
        return [RowsSnapshot.of(cast("Sequence[Row]", data), effective_ticks)]
    raise InputError(
        f"the reference input {name!r} is a {type(data).__name__}; it must be a static DataFrame, a list of "
        "rows, a path, or snapshots of these by ISO time\n  hint: spark.createDataFrame(df) makes one of a "
        "DataFrame of pandas"
    )


def _collected(topology: Topology, name: str, df: DataFrame) -> bytes:
    """The columns of a DataFrame the query asks for, as a chunk."""
    if df.isStreaming:
        raise InputError(
            f"the reference input {name!r} is a stream; reference data is whole at every moment\n"
            "  hint: give a static DataFrame, or read it as an input and join it with DATEDIFF"
        )
    wanted: list[str] = []
    for op in topology.ops:
        if isinstance(op, LookupOp) and op.spec.input == name:
            fields = op.spec.fields
            wanted += wanted_columns(df.columns, fields)
    columns = list(dict.fromkeys(wanted)) or df.columns[:1]  # rows without columns would not be counted
    return to_bytes(df.select([fn.col("`" + each.replace("`", "``") + "`") for each in columns]).toArrow())
