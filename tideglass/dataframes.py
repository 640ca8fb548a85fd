"""A query over Spark DataFrames: compiled, typed and made into DataFrames, which the caller runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from tideglass.bind.catalog import InputInfo, metadata_in
from tideglass.compile import Compiled, compile_query
from tideglass.core.errors import Diagnostic, InputError, QueryError, Source
from tideglass.core.suggest import did_you_mean
from tideglass.core.types import ARRIVAL, PARTITION, Type
from tideglass.job.report.metrics import Metrics, PartitionFacts
from tideglass.job.start.manifest import STATE_FORMAT, plan_hash
from tideglass.plan.passed_through import Field
from tideglass.plan.types import output_types
from tideglass.project.settings import JobSettings, from_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import DataType

    from tideglass.spark.dataframes.query import FrameInput
    from tideglass.spark.dataframes.reference import InlineReference

#: The partition of metrics that are summed over all of an input.
ALL_PARTITIONS = "*"

#: What may stand for an input: a DataFrame of Spark, or of pandas, a table of Arrow or the name of one in the
#: catalog; one of these with its columns named; or the pair of one of these and a mapping with the keys
#: arrival, partition, offset.
Input: TypeAlias = "DataFrame | FrameInput | tuple[Any, Mapping[str, str]] | Any"


def query(
    spark: SparkSession,
    saql: str | Source,
    inputs: Mapping[str, Input],
    settings: Mapping[str, Any] | JobSettings | None = None,
    functions: Mapping[str, Any] | None = None,
    key_groups: int | None = None,
    reference: Mapping[str, InlineReference] | None = None,
) -> dict[str, DataFrame]:
    """The outputs of a query as DataFrames: streaming ones if the inputs are, else finished ones.

    inputs: by their names in the query; a name of a table is read as the session's catalog has it.
    settings, functions: as in `tideglass.testing.run`.
    key_groups: pieces the groups of a stage are split into; by default `spark.sql.shuffle.partitions`.
    reference: per reference input a static DataFrame, rows, or a path (one file, or a pattern with {date} and
    {time}); or snapshots of these by the ISO time from which each holds. It is read here and now.

    Nothing else runs before an output is written or collected. Each output started is a Spark query of its
    own, with its own checkpoint; a failure of a row arrives as Spark's exception.
    Raises QueryError for a query that cannot run, InputError for an input that cannot be taken.
    """
    from tideglass.spark.dataframes.argument import kind_of
    from tideglass.spark.dataframes.output_columns import output_columns
    from tideglass.spark.dataframes.query import check_functions, query_frames
    from tideglass.spark.dataframes.reference import inline_references, reference_schema, reference_types
    from tideglass.spark.dataframes.sql_columns import type_at

    job_settings = settings if isinstance(settings, JobSettings) else from_options(settings)
    source = saql if isinstance(saql, Source) else Source(saql)
    if not isinstance(cast("object", inputs), Mapping):
        raise InputError(
            f"the inputs are {kind_of(inputs)}; they must be DataFrames by name\n"
            "  hint: inputs={'name': df}"
        )
    frames = {name: _frame(spark, name, frame).checked(name) for name, frame in inputs.items()}
    tables = dict(reference or {})
    level = job_settings.compatibility_level
    known = {name: reference_types(each, level) for name, each in tables.items()}
    infos = {
        name: InputInfo(name, columns=each.columns, metadata=_metadata(each)) for name, each in frames.items()
    }
    compiled = compile_query(
        source,
        job_settings,
        key_groups=key_groups or int(cast("str", spark.conf.get("spark.sql.shuffle.partitions"))),
        inputs=infos | {name: _reference_info(name, types) for name, types in known.items()},
        functions=functions,
    )
    check_functions(compiled.topology.functions)
    read = {name: frames[name] for name in compiled.topology.fields}
    _check_arrival(compiled, read)
    topology = compiled.topology
    for name, each in read.items():
        each.check_types(name, topology.fields[name])
    of_inputs = {name: each.field_types(level, topology.fields[name].paths) for name, each in read.items()}
    types = _output_types(compiled, of_inputs | {name: each for name, each in known.items() if each})
    schemas = {name: reference_schema(each) for name, each in tables.items()}

    def sql_type(field: Field) -> DataType | None:
        if field.input in read:
            return read[field.input].sql_type(field.path)
        schema = schemas.get(field.input)
        return None if schema is None else type_at(schema, field.path)

    columns = output_columns(compiled.plan, source, types, sql_type)
    belongs_to = (STATE_FORMAT, plan_hash(topology), job_settings.to_json(), topology.key_groups, types)
    job = hashlib.sha256(repr((*belongs_to, *_held_otherwise(read))).encode()).hexdigest()[:16]
    return query_frames(spark, topology, read, columns, job, inline_references(spark, topology, tables))


def metrics(of: StreamingQuery | DataFrame) -> Metrics:
    """What became of every event so far: early, late, out of order, dropped, refused; and the watermark.

    of: a StreamingQuery that writes an output of `query`, or an output over finished DataFrames, of which
    the first action is waited for. Counts are totals since the checkpoint began, of all partitions
    together (`ALL_PARTITIONS`): those of a stream up to its last batch, for inputs reported in the last
    hundred batches, which is how many Spark remembers.
    Raises TideglassError for anything else.
    """
    from tideglass.spark.dataframes.metrics import observed_metrics

    found = Metrics()
    for each in observed_metrics(of):
        found.partitions[each.input, ALL_PARTITIONS, each.reader] = PartitionFacts(
            each.input,
            ALL_PARTITIONS,
            each.reader,
            each.counters,
            each.rejected,
            each.bytes,
            each.watermark_ticks,
            each.last_arrival_ticks,
            final=False,
        )
    return found


def _held_otherwise(inputs: Mapping[str, FrameInput]) -> tuple[tuple[str, str], ...]:
    """Inputs whose columns earlier versions held otherwise in the state of a query, with their schemas."""
    from tideglass.spark.dataframes.sql_columns import differing_inside

    return tuple(
        (name, each.df.schema.simpleString())
        for name, each in sorted(inputs.items())
        if each.payload is None and differing_inside(each.df.schema)
    )


def _reference_info(name: str, types: Mapping[tuple[str, ...], Type] | None) -> InputInfo:
    columns = None if types is None else tuple(path[0] for path in types if len(path) == 1)
    return InputInfo(name, "reference", columns)


def _frame(spark: SparkSession, name: str, value: Any) -> FrameInput:
    from tideglass.spark.dataframes.argument import as_frame
    from tideglass.spark.dataframes.query import FrameInput

    if isinstance(value, FrameInput):
        return replace(value, df=as_frame(spark, name, value.df))
    options: Mapping[str, str] = {}
    if isinstance(value, tuple):
        value, options = cast("tuple[Any, Mapping[str, str]]", value)
    unknown = [key for key in options if key not in ("arrival", "partition", "offset")]
    if unknown:
        hint = did_you_mean(unknown[0], ("arrival", "partition", "offset"))
        raise InputError(
            f"the input {name!r} has the option {unknown[0]!r}, which is none; {hint}".rstrip("; ")
        )
    columns: dict[str, Any] = dict(options)
    return FrameInput(as_frame(spark, name, value), **columns)


def _metadata(frame: FrameInput) -> frozenset[str]:
    """The metadata in columns of the DataFrame, without names that other columns have."""
    named = metadata_in(*([ARRIVAL] if frame.arrival else []), *([PARTITION] if frame.partition else []))
    return named - {name.casefold() for name in frame.metadata}


def _check_arrival(compiled: Compiled, frames: Mapping[str, FrameInput]) -> None:
    """A finished DataFrame read without TIMESTAMP BY has no time at all unless a column holds it."""
    for reader in compiled.topology.readers:
        frame = frames[reader.input]
        if reader.timestamp is None and frame.arrival is None and not frame.df.isStreaming:
            raise InputError(
                f"the input {reader.input!r} is read without TIMESTAMP BY, so its rows are timed by their "
                "arrival, and no column says that\n"
                "  hint: FrameInput(df, arrival='column'), or TIMESTAMP BY in the query"
            )


def _output_types(
    compiled: Compiled, known: Mapping[str, Mapping[tuple[str, ...], Type]]
) -> dict[str, dict[str, Type]]:
    """Columns of the outputs. Raises QueryError for an output whose columns depend on the rows."""
    diagnostics = [
        Diagnostic(
            "OPEN_OUTPUT",
            f"the columns of {output.name!r} are those of a record whose fields are not known before it runs",
            output.span,
            "name the fields you want instead of record.*; a DataFrame needs its columns beforehand",
        )
        for output in compiled.plan.outputs
        if output.node.open
    ]
    if diagnostics:
        raise QueryError(diagnostics, compiled.source)
    return output_types(compiled.plan, known)
