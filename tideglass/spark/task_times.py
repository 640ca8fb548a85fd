"""Spark's own measurements of a running query: the progress of its batches, the run time of its tasks."""

from __future__ import annotations

import json
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
