"""The accounting of a query over DataFrames, as metrics Spark observes: what became of every event.

Reports carry totals since the checkpoint began, so a batch that runs twice counts once. They are summed
over the partitions of each input and appear in the progress of the streaming query, where listeners see
them, under the name `tideglass`:

    <reader>.accepted, .adjusted_late, … .dropped_null_key, .arrivals_raised    the fields of `Counters`
    <reader>.rejected, .bytes                                                     refused by the deserializer
    <reader>.watermark_ticks, .last_arrival_ticks                                 the least, the newest
    <reader>.input, .reader                                                       its input, its number

A reader is an input by its name, followed by `[n]` where the query reads it in several ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

from tideglass.core.errors import TideglassError
from tideglass.engine.messages import Kind
from tideglass.ingress.decisions import Counters
from tideglass.plan.topology import Topology

#: The name under which Spark reports them.
NAME = "tideglass"

_COUNTERS = tuple(each.name for each in fields(Counters))
_TOTALS = ("rejected", "bytes", "watermark_ticks", "last_arrival_ticks")
_REPORT = (
    "input STRING, rejected BIGINT, bytes BIGINT, readers ARRAY<STRUCT<watermark_ticks: BIGINT, "
    f"last_arrival_ticks: BIGINT, counters: STRUCT<{', '.join(f'{name}: BIGINT' for name in _COUNTERS)}>>>"
)

#: Of finished DataFrames, whose metrics Spark hands to the observation asked for.
_finished: WeakKeyDictionary[DataFrame, Observation] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Observed:
    """One reader over all partitions of its input.

    input: the input's name.
    reader: the reader's number.
    counters: of the decisions of the policies.
    rejected: events the deserializer refused.
    bytes: read so far.
    watermark_ticks: the least of the partitions.
    last_arrival_ticks: when the newest event arrived.
    """

    input: str
    reader: int
    counters: Counters
    rejected: int
    bytes: int
    watermark_ticks: int
    last_arrival_ticks: int


def observed(messages: DataFrame, topology: Topology) -> tuple[DataFrame, Observation | None]:
    """The messages, of which Spark observes the reports; and the observation, of a finished DataFrame."""
    report = fn.when(
        fn.col("kind") == Kind.REPORT.value, fn.from_json(fn.col("body").cast("string"), _REPORT)
    )
    with_report = messages.withColumn("report", report)
    metrics = _metrics(topology)
    if messages.isStreaming:
        return with_report.observe(NAME, *metrics), None
    observation = Observation()
    return with_report.observe(observation, *metrics), observation


def keep(output: DataFrame, observation: Observation | None) -> None:
    """Remember the observation of a finished output."""
    if observation is not None:
        _finished[output] = observation


def readers(topology: Topology) -> dict[str, tuple[str, int, int]]:
    """Per name of a reader its input, its id, and its place among those of the input."""
    found: dict[str, tuple[str, int, int]] = {}
    for name in topology.fields:
        own = [reader for reader in topology.readers if reader.input == name]
        for place, reader in enumerate(own):
            found[name if len(own) == 1 else f"{name}[{place}]"] = (name, reader.id, place)
    return found


def _metrics(topology: Topology) -> list[Column]:
    result: list[Column] = []
    report = fn.col("report")
    for label, (name, id_, place) in readers(topology).items():
        mine = report["input"] == name
        reader = report["readers"][place]
        result.append(fn.max(fn.when(mine, fn.lit(name))).alias(f"{label}.input"))
        result.append(fn.max(fn.when(mine, fn.lit(id_))).alias(f"{label}.reader"))
        for counter in _COUNTERS:
            result.append(fn.sum(fn.when(mine, reader["counters"][counter])).alias(f"{label}.{counter}"))
        for total in ("rejected", "bytes"):
            result.append(fn.sum(fn.when(mine, report[total])).alias(f"{label}.{total}"))
        least, newest = reader["watermark_ticks"], reader["last_arrival_ticks"]
        result.append(fn.min(fn.when(mine, least)).alias(f"{label}.watermark_ticks"))
        result.append(fn.max(fn.when(mine, newest)).alias(f"{label}.last_arrival_ticks"))
    return result


def observed_metrics(of: StreamingQuery | DataFrame) -> list[Observed]:
    """The newest metrics of every reader; an input without a report in a batch keeps the metrics of before.

    Raises TideglassError for a DataFrame that is no output of a query over finished DataFrames.
    """
    found: dict[str, Observed] = {}
    if isinstance(of, DataFrame):
        observation = _finished.get(of)
        if observation is None:
            raise TideglassError(
                "metrics are kept for outputs of tideglass.query over finished DataFrames, and for streaming "
                "queries\n  hint: of a stream give the StreamingQuery that start() returned"
            )
        values = observation.get
        if not values:  # a classic session waits for the first action, a client of Spark Connect does not
            raise TideglassError(
                "the output has no metrics yet: nothing has been run that reads it\n"
                "  hint: collect or write the output, or a DataFrame made of it, and ask then"
            )
        found |= read(values)
    else:
        for progress in of.recentProgress:
            row = progress.observedMetrics.get(NAME)
            if row is not None:
                found |= read(observed_values(row))
    return list(found.values())


def observed_values(row: Row) -> dict[str, Any]:
    """What Spark observed of one batch, by name.

    Progress as a client of Spark Connect reads it has the values and their schema side by side.
    """
    columns = row.asDict()
    if columns.keys() == {"values", "schema"}:
        return dict(
            zip([each["name"] for each in columns["schema"]["fields"]], columns["values"], strict=True)
        )
    return columns


def read(values: Mapping[str, Any]) -> dict[str, Observed]:
    """The readers that gave a report, by their names; values: what Spark observed of one batch."""
    result: dict[str, Observed] = {}
    for name, value in values.items():
        label = name.removesuffix(".input")
        if label == name or value is None:
            continue
        result[label] = Observed(
            value,
            values[f"{label}.reader"],
            Counters(**{counter: values[f"{label}.{counter}"] for counter in _COUNTERS}),
            *(values[f"{label}.{total}"] for total in _TOTALS),
        )
    return result
