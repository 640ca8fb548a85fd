"""Spark's own measurements of a running query: the progress of its batches, the run time of its tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery


class QueryBooks:
    """Reads what Spark added since the last call. To be called more often than every 100 batches."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._batches: set[int] = set()
        self._jobs: set[int] = set()
        self.run_seconds = 0.0

    def new_progress(self) -> list[dict[str, Any]]:
        """The progress of batches not reported yet, as Spark's JSON has it."""
        found: list[dict[str, Any]] = []
        for progress in self._query.recentProgress:
            content: dict[str, Any] = json.loads(progress.json)
            if content["batchId"] not in self._batches and "addBatch" in content["durationMs"]:
                self._batches.add(content["batchId"])
                found.append(content)
        return found

    def unread(self) -> dict[str, int]:
        """Messages that topics held when the last batch was planned and that it has not read, by topic."""
        progress = self._query.lastProgress
        return {} if progress is None else unread_messages(json.loads(progress.json))

    def count_tasks(self) -> float:
        """Seconds all tasks of the query have run, without those of jobs under way."""
        context = SparkSession.active().sparkContext
        tracker = context.statusTracker()
        store = cast("Any", context)._jsc.sc().statusStore()
        for job in tracker.getJobIdsForGroup(str(self._query.runId)):
            info = tracker.getJobInfo(job)
            if job in self._jobs or info is None or info.status == "RUNNING":
                continue
            self._jobs.add(job)
            stages = [store.lastStageAttempt(stage) for stage in info.stageIds]
            self.run_seconds += sum(stage.executorRunTime() for stage in stages) / 1000
        return self.run_seconds


def unread_messages(progress: Mapping[str, Any]) -> dict[str, int]:
    """Messages beyond the end of a batch, by topic. progress: as Spark's JSON has it.

    >>> source = {"endOffset": {"toll": {"0": 7, "1": 9}}, "latestOffset": {"toll": {"0": 10, "1": 9}}}
    >>> unread_messages({"sources": [source, {"endOffset": "0", "latestOffset": None}]})
    {'toll': 3}
    """
    found: dict[str, int] = {}
    for source in progress["sources"]:
        latest, end = source.get("latestOffset"), source.get("endOffset")
        if isinstance(latest, dict) and isinstance(end, dict):
            for topic, partitions in cast("dict[str, object]", latest).items():
                read = cast("dict[str, object]", end).get(topic)
                if isinstance(partitions, dict) and isinstance(read, dict):
                    offsets = cast("dict[str, int]", partitions)
                    known = cast("dict[str, int]", read)
                    found[topic] = sum(max(0, at - known.get(name, 0)) for name, at in offsets.items())
    return found
