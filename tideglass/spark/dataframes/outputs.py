"""The outputs of a query as DataFrames: of its messages, the rows of an output with their columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from tideglass.connect.dataframes.output import fixed_columns
from tideglass.core.errors import TideglassError
from tideglass.core.ipc import from_bytes
from tideglass.engine.messages import Kind
from tideglass.plan.topology import Topology
from tideglass.spark.dataframes.metrics import keep
from tideglass.spark.dataframes.output_columns import OutputColumns
from tideglass.spark.dataframes.sql_columns import arrow_of
from tideglass.spark.descriptions import shown_as
from tideglass.spark.errors import sentence_first


@dataclass(frozen=True, slots=True)
class FrameOutput:
    """One output of a query.

    topology: the query. name: of the output. columns: its columns.
    """

    topology: Topology
    name: str
    columns: OutputColumns

    def of(self, messages: DataFrame, observation: Any) -> DataFrame:
        """The output as a DataFrame, which can be started by itself, or with the others by `running.start`.

        messages: of all outputs. observation: of finished DataFrames, what observes the messages.
        """
        rows = self.rows(messages)
        keep(rows, observation)
        _made[rows] = Made(self, messages)
        return rows

    def rows(self, messages: DataFrame) -> DataFrame:
        """The rows of this output among the messages, with its columns."""
        types = dict(self.columns.types)
        kept = {name: arrow_of(each) for name, each in self.columns.kept.items()}
        ordinal = self.topology.outputs.index(self.name)

        def to_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            bodies = (body for batch in batches for body in batch.column(0).to_pylist())
            tables = sentence_first(fixed_columns(from_bytes(body), types, kept) for body in bodies)
            return (batch for table in tables for batch in table.to_batches())

        wanted = (fn.col("kind") == Kind.ROWS.value) & (fn.col("target") == ordinal)
        return (
            messages.where(wanted)
            .select("body")
            .mapInArrow(shown_as(to_rows, "rows_of", self.name), self.columns.schema)
        )


@dataclass(frozen=True, slots=True)
class Made:
    """An output and the messages it is made of, which all outputs of its query share."""

    output: FrameOutput
    messages: DataFrame


_made: WeakKeyDictionary[DataFrame, Made] = WeakKeyDictionary()


def made_by_query(frames: Mapping[str, DataFrame]) -> dict[str, Made]:
    """How the frames were made, by one query. Raises TideglassError for others."""
    found = {name: _made.get(frame) for name, frame in frames.items()}
    strange = [name for name, made in found.items() if made is None]
    if strange:
        raise TideglassError(
            f"{strange[0]!r} is no output as tideglass.query made it\n"
            "  hint: pass the dictionary that tideglass.query returned; a writer may change the rows it gets"
        )
    made = {name: each for name, each in found.items() if each is not None}
    if len({id(each.messages) for each in made.values()}) != 1:
        raise TideglassError(
            "the outputs are not all of one query\n"
            "  hint: pass the dictionary that one tideglass.query returned"
        )
    return made
