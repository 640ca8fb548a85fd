"""Outputs of one query that are written together, and how their running ends.

`output.writeStream.start()` runs the whole query for one output. `start` runs it once for several:

    inputs ──▶ query ──▶ messages of a batch, held ──▶ counts ──▶ its writer
                                                  └──▶ alarms ──▶ its writer
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

from tideglass.core.errors import TideglassError
from tideglass.core.suggest import did_you_mean
from tideglass.engine.messages import Kind
from tideglass.spark.dataframes.outputs import FrameOutput, made_by_query
from tideglass.spark.descriptions import described, flow
from tideglass.spark.errors import explained as explained_text

#: Writes the rows of an output for one batch: called with them and the batch's number, as foreachBatch does.
Write: TypeAlias = Callable[[DataFrame, int], object]


def start(
    frames: Mapping[str, DataFrame],
    outputs: Mapping[str, Write],
    checkpoint: str | Path,
    *,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> StreamingQuery:
    """Run a query over streams once for several of its outputs.

    frames: what `tideglass.query` returned.
    outputs: per output what writes its rows of a batch, called with a DataFrame and the batch's number, one
        output after the other in this order, also for a batch without rows for it.
    checkpoint: directory of the query's checkpoint, which holds the state of all outputs.
    trigger: keyword arguments of Spark's `trigger`, such as {"availableNow": True}; None: batch after batch.
    name: of the query, for Spark's UI and listeners.

    A batch is done once every writer has returned. One that fails, or whose driver ends, runs again with the
    same number and the same rows, also for outputs that had been written: a writer must put the rows of a
    number in place of those it wrote for this number before.
    Raises TideglassError for frames that are not those of one query over streams, and for an unknown output.
    """
    shared, chosen = _shared(frames, outputs)
    if not shared.isStreaming:
        raise TideglassError(
            "the inputs of the query are finished DataFrames, of which no stream can be started\n"
            "  hint: tideglass.write(frames, outputs) writes them"
        )

    def on_batch(batch: DataFrame, batch_id: int) -> None:
        _write(batch, chosen, outputs, batch_id, name or "tideglass")

    writer = shared.writeStream.foreachBatch(on_batch).option("checkpointLocation", str(checkpoint))
    if name is not None:
        writer = writer.queryName(name)
    return writer.trigger(**dict(trigger or {"processingTime": "0 seconds"})).start()


def write(frames: Mapping[str, DataFrame], outputs: Mapping[str, Write]) -> None:
    """Run a query over finished DataFrames once and write several of its outputs.

    frames, outputs: as for `start`; the number of the one batch is 0.
    Raises TideglassError as `start` does, and for a row that fails the query.
    """
    shared, chosen = _shared(frames, outputs)
    if shared.isStreaming:
        raise TideglassError(
            "the inputs of the query are streams, which have no end to wait for\n"
            "  hint: tideglass.start(frames, outputs, checkpoint) writes them batch by batch"
        )
    with as_our_errors():
        _write(shared, chosen, outputs, 0, "tideglass")


def await_termination(query: StreamingQuery, timeout_seconds: int | None = None) -> bool:
    """Wait until a query ends, as its `awaitTermination` does: whether it has within the time.

    Raises the TideglassError the query failed with in place of Spark's exception, which is its `__cause__`.
    Its text is the sentence, the piece of the query and the row.
    """
    with as_our_errors():
        ended = (
            query.awaitTermination() if timeout_seconds is None else query.awaitTermination(timeout_seconds)
        )
        return True if ended is None else ended


def explained(error: BaseException | str) -> TideglassError:
    """The error that Spark's exception, or its text, began as: the sentence without plans and stacks."""
    if isinstance(error, TideglassError):
        return error
    return explained_text(str(error))


@contextmanager
def as_our_errors() -> Generator[None]:
    """An exception of Spark within leaves as the error it began as."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise explained(error) from error


def _shared(
    frames: Mapping[str, DataFrame], outputs: Mapping[str, Write]
) -> tuple[DataFrame, dict[str, FrameOutput]]:
    """The messages the frames share, and the outputs to write."""
    made = made_by_query(frames)
    unknown = [name for name in outputs if name not in made]
    if unknown or not outputs:
        what = f"no output is named {unknown[0]!r}" if unknown else "no output is named"
        near = did_you_mean(unknown[0], tuple(made)) if unknown else ""
        raise TideglassError(
            f"{what}; there are {', '.join(made)}\n  hint: {near or 'outputs={name: write}'}"
        )
    return next(iter(made.values())).messages, {name: made[name].output for name in outputs}


def _write(
    messages: DataFrame,
    chosen: Mapping[str, FrameOutput],
    outputs: Mapping[str, Write],
    batch_id: int,
    query: str,
) -> None:
    """The rows of a batch to their writers; the batch runs once.

    query: its name, for Spark's UI.
    """
    spark, batch = messages.sparkSession, f"{query} batch {batch_id}:"
    topology = next(iter(chosen.values())).topology
    held = messages.where(fn.col("kind") == Kind.ROWS.value).select("kind", "target", "body").persist()
    try:
        # Runs every task of the batch to its end, whatever a writer reads of its rows: state is kept then.
        with described(spark, f"{batch} {flow(topology, chosen)}"):
            held.agg(fn.count(fn.lit(1))).collect()
        for name, output in chosen.items():
            with described(spark, f"{batch} rows → {name}"):
                outputs[name](output.rows(held), batch_id)
    finally:
        held.unpersist()
