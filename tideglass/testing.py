"""The test kit: run a query on rows and get rows back, for our tests and for yours.

>>> from tideglass.testing import run
>>> run("SELECT v + 1 AS w INTO o FROM i", {"i": [{"v": 1}]})
{'o': [{'w': 2}]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import pyarrow as pa

from tideglass.bind.catalog import InputInfo
from tideglass.compile import Compiled, compile_query
from tideglass.connect.in_memory import ARRIVAL_FIELD, PARTITION_FIELD, Row, partition_of
from tideglass.connect.in_memory import chunk_of_rows as rows_as_chunk
from tideglass.connect.reference.references import InlineRows, inline_rows
from tideglass.core.columns import by_columns, unify
from tideglass.core.errors import InputError, Source
from tideglass.core.events import Chunk
from tideglass.core.json_rows import rows_of
from tideglass.core.types import ORDER_COLUMNS
from tideglass.local import LocalDriver, PartitionBatch, rows_by_output
from tideglass.plan.topology import Topology
from tideglass.project.settings import JobSettings, from_options

#: Key groups of a local run: more than one, so that grouping across them is exercised.
KEY_GROUPS = 3


def run(
    query: str | Source,
    inputs: Mapping[str, Sequence[Row]],
    reference: Mapping[str, InlineRows] | None = None,
    settings: Mapping[str, Any] | JobSettings | None = None,
    functions: Mapping[str, Any] | None = None,
    engine: Literal["local", "spark"] = "local",
    *,
    known_inputs: Mapping[str, InputInfo] | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Run `query` on rows; answers with the rows of every output, in the order of their timestamps.

    inputs: rows per input, in order of arrival. `_arrival` (ISO text) is a row's arrival time, without
    it the event time; `_partition` (an int, default 0) its input partition. Neither is payload.
    reference: rows per reference input, or its snapshots: rows by the ISO time from which they hold.
    settings: late_arrival ("5s" or "none"), out_of_order, policy ("adjust" or "drop"), early_arrival,
    compatibility_level, on_error ("stop" or "drop"), output_timestamps (a text for each step); without
    them late is unlimited and out-of-order 0; or those of a job.
    functions: per name a function of Python, UDF.name, or the pair of one and the type of its results; or
    JavaScript source, of UDF.name or, with a main that has accumulate and computeResult, of uda.name.
    engine: this process, or a local Spark.
    known_inputs: what the binder may know of the inputs; None lets every name be one.

    Inputs end, so everything is flushed. Times are ISO text with seven digits and Z.
    Raises QueryError for a query that cannot run and EvaluationError for a row that fails it.
    """
    job_settings = settings if isinstance(settings, JobSettings) else from_options(settings)
    known = known_inputs or input_infos(inputs, reference or {})
    compiled = compile_rows(query, inputs, job_settings, functions, known_inputs=known)
    references = inline_rows(compiled.topology.references, reference or {})
    if engine == "spark":
        from tideglass.spark.test_engine import run_on_spark

        tables = run_on_spark(
            compiled.topology, rows_of_inputs(compiled.topology, inputs), references=references
        )
    else:
        driver = LocalDriver(compiled.topology, references=references)
        messages = driver.run(partition_batches(compiled.topology, inputs), final=True)
        tables = rows_by_output(compiled.topology, messages)
    return {name: rows_in_order(parts) for name, parts in tables.items()}


def input_infos(
    inputs: Mapping[str, Sequence[Row]], reference: Mapping[str, InlineRows]
) -> dict[str, InputInfo] | None:
    """What the binder knows of the inputs of a test; None, so that any name may be one, without reference."""
    if not reference:
        return None
    streams = {name: InputInfo(name) for name in inputs}
    return streams | {name: InputInfo(name, "reference") for name in reference}


def compile_rows(
    query: str | Source,
    inputs: Mapping[str, Sequence[Row]],
    settings: JobSettings,
    functions: Mapping[str, Any] | None = None,
    key_groups: int = KEY_GROUPS,
    known_inputs: Mapping[str, InputInfo] | None = None,
) -> Compiled:
    """Compile a query whose inputs are those of a test."""
    return compile_query(
        query if isinstance(query, Source) else Source(query),
        settings,
        key_groups=key_groups,
        inputs=known_inputs,
        functions=functions,
    )


def rows_of_inputs(topology: Topology, inputs: Mapping[str, Sequence[Row]]) -> dict[str, Sequence[Row]]:
    """The rows of every input the topology reads, by its name there; case does not count.

    Raises InputError for an input without rows, or with something else.
    """
    by_name = {name.lower(): rows for name, rows in inputs.items()}
    for name in topology.fields:
        if name.lower() not in by_name:
            known = ", ".join(inputs) or "none"
            raise InputError(
                f"the query reads the input {name!r}, but no rows are given for it (given: {known})"
            )
        rows = cast("object", by_name[name.lower()])
        if not isinstance(rows, Sequence):
            raise InputError(
                f"{name!r} has rows of type {type(rows).__name__}; they must be a list of dicts\n"
                '  hint: of a DataFrame of pandas, df.to_dict("records") makes one'
            )
    return {name: by_name[name.lower()] for name in topology.fields}


def partition_batches(
    topology: Topology,
    inputs: Mapping[str, Sequence[Row]],
    first_offset: int = 0,
    partitions: int | None = None,
) -> list[PartitionBatch]:
    """One batch with these rows; names every partition of every input the topology reads.

    first_offset: place of the first row, when earlier rows went into an earlier batch.
    partitions: how many partitions each input has, when the rows do not show all of them.
    Raises InputError for a row the test kit cannot take.
    """
    result: list[PartitionBatch] = []
    for name, rows in rows_of_inputs(topology, inputs).items():
        numbered = [(first_offset + n, row) for n, row in enumerate(rows)]
        by_partition: dict[int, list[tuple[int, Row]]] = {n: [] for n in range(partitions or 1)}
        for number, row in numbered:
            by_partition.setdefault(partition_of(name, row), []).append((number, row))
        for partition, rows in sorted(by_partition.items()):
            chunk = chunk_of_rows(topology, name, rows)
            result.append(PartitionBatch(name, partition, [chunk]))
    return result


def chunk_of_rows(topology: Topology, name: str, rows: Sequence[tuple[int, Row]]) -> Chunk:
    """Numbered rows of one input partition as a decoded chunk, by the same decoder files go through."""
    return rows_as_chunk(name, rows, topology.fields[name], topology.level)


def rows_in_order(tables: Sequence[pa.Table]) -> list[dict[str, Any]]:
    """All rows, by their place in the total order."""
    parts = [_in_order(unify(alike)) for alike in by_columns(tables)]
    if len(parts) == 1:
        return rows_of(parts[0])
    placed = [
        (place, row) for table in parts for place, row in zip(_places(table), rows_of(table), strict=True)
    ]
    return [row for _, row in sorted(placed, key=lambda pair: pair[0])]


def _in_order(table: pa.Table) -> pa.Table:
    order = [(name, "ascending") for name in ORDER_COLUMNS if name in table.column_names]
    return table.sort_by(order) if order else table


def _places(table: pa.Table) -> list[tuple[Any, ...]]:
    """The place of each row in the total order."""
    columns = [table[name].to_pylist() for name in ORDER_COLUMNS if name in table.column_names]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


__all__ = [
    "ARRIVAL_FIELD",
    "PARTITION_FIELD",
    "chunk_of_rows",
    "compile_rows",
    "input_infos",
    "partition_batches",
    "rows_in_order",
    "run",
]
