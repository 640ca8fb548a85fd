"""A job whose inputs and outputs are DataFrames, streaming or not, of any source and sink.

    DataFrame ──mapInArrow──▶ chunks ──ingress──▶ stage 1 … n ──mapInArrow──▶ typed columns

`mapInArrow` decodes where Spark reads; the ingress is one stateful operator for all inputs; the stages
are those of a job with inputs of its own.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql import types as sql_types
from pyspark.taskcontext import TaskContext

from tideglass.connect.dataframes.input import FrameSpec, chunks_of_frame
from tideglass.connect.formats.parquet import wanted_columns
from tideglass.connect.formats.payloads import Payload
from tideglass.connect.reference.references import NO_REFERENCES, References
from tideglass.core.errors import InputError, TideglassError
from tideglass.core.events import Fields, Known
from tideglass.core.profile import awaited
from tideglass.core.types import PARTITION, Type
from tideglass.engine.exchange import RowSink, Sink
from tideglass.engine.messages import Kind, Message
from tideglass.engine.profiled import profiled
from tideglass.ingress.partition_watermarks import PartitionWatermarks
from tideglass.ingress.read_from import InputBegin
from tideglass.plan.expressions import references as references_of
from tideglass.plan.topology import Topology
from tideglass.spark.dataframes.metrics import observed
from tideglass.spark.dataframes.output_columns import OutputColumns
from tideglass.spark.dataframes.outputs import FrameOutput
from tideglass.spark.dataframes.sql_columns import field_types, type_at, value_type
from tideglass.spark.descriptions import shown_as
from tideglass.spark.errors import sentence_first
from tideglass.spark.ingress import IngressProcessor
from tideglass.spark.interpreter import see_interpreter
from tideglass.spark.key_numbers import key_numbers
from tideglass.spark.processor import MESSAGE_SCHEMA
from tideglass.spark.query import staged
from tideglass.spark.session.session_kind import default_parallelism
from tideglass.spark.session.spark_settings import REQUIRED, warn_of_slowness
from tideglass.spark.versions import check_session, ready_for_batches
from tideglass.spark.wire import ARROW_SCHEMA

#: Rows of a chunk at least, unless the task has no more: as many as a file is decoded at once.
CHUNK_ROWS = 1 << 16
#: How often idle time is reported to the stages.
IDLE_MS = 1000

_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
_PARTITIONS = "spark.sql.shuffle.partitions"
#: The column that stands for the arrival time when none is named: the time of the batch.
_BATCH_TIME = "$batch_time"

_TIMES = (sql_types.TimestampType, sql_types.TimestampNTZType, sql_types.StringType)
_WHOLE_NUMBERS = (sql_types.LongType, sql_types.IntegerType, sql_types.ShortType, sql_types.ByteType)


@dataclass(frozen=True, slots=True)
class FrameInput:
    """A DataFrame as an input. The columns that say arrival, partition and offset stay columns of the input.

    df: the DataFrame, streaming or not.
    arrival: the column that says when a row arrived, a timestamp or ISO text. Without it a row of a stream
        arrives with its batch, a row of a finished DataFrame at its event time.
    partition: the column whose values are the input's partitions; without it there is one.
    offset: the column, a whole number, by which the rows of a partition are ordered; without it they are
        ordered by arrival.
    payload: the column that holds messages of events; without it the columns are the event.
    metadata: names the query may use for other columns of such a message, each with its column.
    payload_as: how a message holds its events.
    records: which records of metadata a message of a hub has; empty: none.
    """

    df: DataFrame
    arrival: str | None = None
    partition: str | None = None
    offset: str | None = None
    payload: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    payload_as: Payload = Payload()
    records: str = ""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns a query sees; None where events may have any fields."""
        return tuple(self.df.columns) if self.payload is None else None

    def field_types(
        self, level: str = "1.2", asked: Iterable[tuple[str, ...]] = ()
    ) -> dict[tuple[str, ...], Type]:
        """The types of the columns, and of the fields of structs, as the language sees them.

        asked: further fields, as those of maps.
        """
        types = field_types(self.df.schema, level)
        if self.payload is not None:
            return {(name,): types[column,] for name, column in self.metadata.items()}
        for path in asked:
            found = type_at(self.df.schema, path) if path not in types else None
            type_ = None if found is None else value_type(found, level, nested=len(path) > 1)
            types |= {} if type_ is None else {path: type_}
        return types

    def sql_type(self, path: tuple[str, ...]) -> sql_types.DataType | None:
        """Spark's type of a field of the events; None where only the events tell."""
        if self.payload is None:
            return type_at(self.df.schema, path)
        column = self.metadata.get(path[0]) if len(path) == 1 else None
        return None if column is None else type_at(self.df.schema, (column,))

    def checked(self, name: str) -> FrameInput:
        """The same with the columns spelled as the DataFrame does. Raises InputError for one it lacks."""
        return replace(
            self,
            arrival=self._column(name, "arrival", _TIMES),
            partition=self._column(name, "partition"),
            offset=self._column(name, "offset", _WHOLE_NUMBERS),
            payload=self._column(name, "payload", (sql_types.StringType, sql_types.BinaryType)),
        )

    def check_types(self, name: str, fields: Fields) -> None:
        """Raises InputError if a query that asks for these fields reads a column it has no type for."""
        wanted = set(wanted_columns(self.df.columns, fields)) if self.payload is None else set[str]()
        for each in self.df.schema.fields:
            if each.name in wanted and value_type(each.dataType) is None:
                raise InputError(
                    f"the column {each.name!r} of the input {name!r} is {each.dataType.simpleString()}, for "
                    "which a query has no type\n"
                    "  hint: convert it with withColumn and Spark's cast, or leave it out"
                )

    def _column(self, name: str, role: str, wanted: tuple[type[sql_types.DataType], ...] = ()) -> str | None:
        chosen: str | None = getattr(self, role)
        if chosen is None:
            return None
        columns = {each.name: each.dataType for each in self.df.schema.fields}
        own = chosen if chosen in columns else next((c for c in columns if c.lower() == chosen.lower()), None)
        if own is None:
            raise InputError(
                f"the input {name!r} has no column {chosen!r} for its {role}; there are {', '.join(columns)}"
            )
        if wanted and not isinstance(columns[own], wanted):
            kinds = " or ".join(kind.typeName() for kind in wanted)
            raise InputError(
                f"the {role} column {own!r} of the input {name!r} is {columns[own].simpleString()}; it must "
                f"be {kinds}\n  hint: convert it with withColumn and Spark's cast or timestamp_millis"
            )
        return own


def query_frames(
    spark: SparkSession,
    topology: Topology,
    inputs: Mapping[str, FrameInput],
    columns: Mapping[str, OutputColumns],
    job: str,
    references: References = NO_REFERENCES,
) -> dict[str, DataFrame]:
    """A DataFrame per output, with these columns.

    inputs: by the topology's names, checked. job: what the state in a checkpoint must belong to.
    references: reference data, of which all that is there counts.
    Raises InputError for inputs that do not fit each other, TideglassError for workers that cannot work.
    """
    check_session(spark)
    see_interpreter(spark)
    warn_of_slowness(spark)
    streaming = {name: each.df.isStreaming for name, each in inputs.items()}
    if len(set(streaming.values())) > 1:
        finished = ", ".join(repr(name) for name, streams in streaming.items() if not streams)
        raise InputError(
            f"some inputs are streams, but {finished} is not: all must be, or none\n"
            "  hint: a table that a stream is joined with is given as reference={name: DataFrame}"
        )
    streams = any(streaming.values())
    if streams:
        _check_session(spark, topology.key_groups)
    sink = RowSink()
    ends, idle_ms = None, IDLE_MS if streams and idles(topology) else None
    if not streams:
        ready_for_batches(spark)
        rows = word_rows(itertools.chain(*ingress_numbers(topology, inputs).values()), Kind.END)
        ends = spark.createDataFrame(list(rows), MESSAGE_SCHEMA)
    messages = ingressed(
        topology, inputs, sink, job, idle_ms, ends, references=references, known=references.find(None)
    )
    messages = staged(
        messages,
        topology,
        sink,
        key_numbers(topology.key_groups),
        references,
        remembers=True,
        fails_the_task=True,
    )
    messages, observation = observed(messages, topology)
    outputs = {name: FrameOutput(topology, name, columns[name]) for name in topology.outputs}
    return {name: output.of(messages, observation) for name, output in outputs.items()}


def check_functions(functions: Mapping[str, object]) -> None:
    """Raises TideglassError for a function of Python that cannot be sent to the workers."""
    for name, function in functions.items():
        try:
            cloudpickle.dumps(function)
        except Exception as error:
            text = " ".join(str(error).split())
            raise TideglassError(
                f"The function UDF.{name} cannot be sent to Spark's workers: {text}\n"
                "  hint: it may use modules and values that can be pickled; no session, DataFrame, open file"
            ) from error


def idles(topology: Topology) -> bool:
    """Whether idle time moves the watermark of any input."""
    return any(reader.policies.floor_lag_ticks is not None for reader in topology.readers)


def ingress_numbers(
    topology: Topology, inputs: Mapping[str, FrameInput], *, shared: bool = False
) -> dict[str, tuple[int, ...]]:
    """The numbers Spark hashes for the ingresses of each input, so that they share no task if they can.

    shared: several ingresses have the partitions of an input between them, which must be numbers; except
    where its substreams are such that only one partition is allowed (`asa.md` 1.7), which one must see.
    """
    shares = {name: topology.key_groups if shared and _may_share(topology, name) else 1 for name in inputs}
    numbers = iter(key_numbers(max(topology.key_groups, sum(shares.values()))))
    return {name: tuple(itertools.islice(numbers, count)) for name, count in shares.items()}


def _may_share(topology: Topology, name: str) -> bool:
    readers = [reader for reader in topology.readers if reader.input == name and reader.over]
    return all(any(PARTITION in references_of(key) for key in reader.over) for reader in readers)


def word_rows(numbers: Iterable[int], kind: Kind) -> Iterator[tuple[Any, ...]]:
    """Messages that say the same to the ingresses of these numbers; an input without a row hears it too."""
    return ((number, 0, kind.value, 0, "", b"") for number in numbers)


def ingressed(
    topology: Topology,
    inputs: Mapping[str, FrameInput],
    sink: Sink,
    job: str | None,
    idle_ms: int | None,
    control: DataFrame | None = None,
    *,
    begins: Mapping[str, InputBegin] | None = None,
    references: References = NO_REFERENCES,
    known: Known | None = None,
    profile: bool = False,
    partition_watermarks: PartitionWatermarks | None = None,
    timers: bool | None = None,
) -> DataFrame:
    """The inputs after their policies: messages for the stages and the driver.

    inputs: by the topology's names, checked.
    job: what the state in a checkpoint must belong to; None: it is not checked.
    idle_ms: how often idle time is reported; None: never.
    control: messages for the ingresses on what they cannot see, as the end of the input.
    begins: by input, where its state begins; an input that is absent begins without state.
    known: the snapshots that count where no control message names them.
    profile: every task reports where its time went.
    partition_watermarks: what several ingresses of one input share; None: each input has one ingress.
    timers: whether Spark keeps timers; None: if idle time is reported.
    """
    numbers = ingress_numbers(topology, inputs, shared=partition_watermarks is not None)
    chunks = [_chunks(each, name, numbers[name], topology, profile) for name, each in inputs.items()]
    ingress = IngressProcessor(
        topology,
        sink,
        job,
        {each: (name, share) for name, own in numbers.items() for share, each in enumerate(own)},
        key_numbers(topology.key_groups),
        idle_ms,
        references,
        known,
        profile=profile,
        partition_watermarks=partition_watermarks,
        begins=begins,
    )
    keeps = idle_ms is not None if timers is None else timers
    return (
        reduce(lambda left, right: left.unionAll(right), chunks if control is None else [*chunks, control])
        .groupBy("key_group")
        .transformWithState(ingress, MESSAGE_SCHEMA, "Append", "ProcessingTime" if keeps else "None")
    )


def _check_session(spark: SparkSession, key_groups: int) -> None:
    wanted = REQUIRED[_STATE_STORE]
    if not wanted.holds(spark.conf.get(_STATE_STORE, "") or ""):
        raise TideglassError(
            "the state of a stream must live in RocksDB, which this session does not use\n"
            f"  hint: spark.conf.set({_STATE_STORE!r}, {wanted.value!r})"
        )
    tasks = default_parallelism(spark)
    if tasks is not None and key_groups > 4 * tasks:
        warnings.warn(
            f"{_PARTITIONS} is {key_groups}, so each stage of the query keeps {key_groups} states; for "
            f"this session about {tasks} are enough and faster: "
            f"spark.conf.set({_PARTITIONS!r}, ...) before the query is made",
            stacklevel=4,
        )


# ---------------------------------------------------------------- in


def _chunks(
    frame: FrameInput, name: str, numbers: tuple[int, ...], topology: Topology, profile: bool
) -> DataFrame:
    """The input's rows as messages of kind CHUNK for the ingresses of these numbers."""
    df, arrival = frame.df, frame.arrival
    if arrival is None and df.isStreaming:
        df, arrival = df.withColumn(_BATCH_TIME, fn.current_timestamp()), _BATCH_TIME
    fields = topology.fields[name]
    spec = FrameSpec(
        name,
        arrival,
        frame.partition,
        frame.offset,
        frame.payload,
        tuple(frame.metadata.items()),
        frame.payload_as,
        frame.records,
    )
    columns = [fn.col("`" + c.replace("`", "``") + "`") for c in spec.columns(tuple(df.columns), fields)]
    level = topology.level

    def messages(task: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
        places = itertools.count()
        for table in gathered(awaited(batches)):
            for chunk in sentence_first(chunks_of_frame(table, spec, fields, level, task, places)):
                yield Message(0, 0, Kind.CHUNK, 0, chunk.partition, chunk.to_bytes())

    def to_chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        made = messages(task, batches)
        if profile:
            made = profiled(made, topology, 0, f"task {task} of {name}")
        for each in made:
            share = int(each.sender) % len(numbers) if each.kind is Kind.CHUNK and len(numbers) > 1 else 0
            columns = (
                [numbers[share]],
                [each.level],
                [each.kind.value],
                [each.target],
                [each.sender],
                [each.body],
            )
            yield pa.record_batch(list(columns), schema=ARROW_SCHEMA)

    # A row without columns would not be counted.
    return df.select(*(columns or [fn.lit(0).alias("$nothing")])).mapInArrow(
        shown_as(to_chunks, "events_of", name), MESSAGE_SCHEMA
    )


def gathered(batches: Iterator[pa.RecordBatch], rows: int = CHUNK_ROWS) -> Iterator[pa.Table]:
    """Spark's small batches as tables of at least so many rows."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) >= rows:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)
