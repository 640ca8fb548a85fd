"""The progress of streaming queries over DataFrames, as Spark's listeners are told of it.

One listener hears of every query of the session. Those of `tideglass.query` have observed metrics; of the
others only what Spark itself measures is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from tideglass.spark.dataframes.metrics import NAME, Observed, observed_values, read


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """What Spark says of a streaming query at one moment.

    id: of the query, the same after a restart from its checkpoint.
    run_id: of this start of it.
    name: by `queryName`; None for none.
    at: of the event, ISO text; None where Spark does not say.
    batch: number of the batch that is done; None: none is done with this event.
    seconds: how long that batch took.
    commit_seconds: of these, logging that it is done.
    events: rows Spark read for it.
    rows: rows its sink got; None where the sink does not say.
    observed: readers of the query that reported in the batch, by their names.
    ended: the query has ended.
    error: what it has failed with; None for nothing.
    """

    id: str
    run_id: str
    name: str | None = None
    at: str | None = None
    batch: int | None = None
    seconds: float = 0.0
    commit_seconds: float = 0.0
    events: int = 0
    rows: int | None = None
    observed: Mapping[str, Observed] = field(default_factory=dict[str, Observed])
    ended: bool = False
    error: str | None = None


class QueryListener(StreamingQueryListener):
    """Hands what Spark says of the queries of a session on to a function, in a thread of Spark's."""

    def __init__(self, take: Callable[[QueryEvent], None]) -> None:
        self._take = take

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._take(QueryEvent(str(event.id), str(event.runId), event.name, event.timestamp))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        row = progress.observedMetrics.get(NAME)
        durations = progress.durationMs
        written = progress.sink.numOutputRows
        commit_ms = sum(durations.get(phase, 0) for phase in ("commitOffsets", "commitBatch"))
        self._take(
            QueryEvent(
                str(progress.id),
                str(progress.runId),
                progress.name,
                progress.timestamp,
                progress.batchId,
                progress.batchDuration / 1000,
                commit_ms / 1000,
                progress.numInputRows,
                None if written < 0 else written,
                {} if row is None else read(observed_values(row)),
            )
        )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        self._take(QueryEvent(str(event.id), str(event.runId), at=event.timestamp))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._take(QueryEvent(str(event.id), str(event.runId), ended=True, error=event.exception))


def add_listener(spark: SparkSession, take: Callable[[QueryEvent], None]) -> Callable[[], None]:
    """Have a function told of every streaming query of a session from now on; returns what ends that."""
    listener = QueryListener(take)
    spark.streams.addListener(listener)
    return lambda: spark.streams.removeListener(listener)
