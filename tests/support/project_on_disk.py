"""A small project on disk, its input in two partitions, and what its outputs hold."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.times import at
from tideglass.connect.files.written_rows import read_rows
from tideglass.job.commit import Watch
from tideglass.job.options import JobPlan, RunOptions
from tideglass.job.outputs import BatchRows
from tideglass.job.plan import plan_job
from tideglass.job.report.metrics import Metrics
from tideglass.job.runner import run
from tideglass.project.project import load_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = """
SELECT device, COUNT(*) AS n, SUM(v) AS total, System.Timestamp() AS at INTO counts
FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)

SELECT device, v, System.Timestamp() AS at INTO high FROM events TIMESTAMP BY t WHERE v > 90
"""


def event(second: float, device: str, v: Any, delay: float = 0.0) -> dict[str, Any]:
    """An event that arrives `delay` seconds after its time."""
    return {"device": device, "v": v, "t": at(second), "arrived": at(second + delay)}


def disordered(partition: int, events: int) -> list[dict[str, Any]]:
    """Events in the order of their arrival, their times out of order, some beyond every tolerance."""
    return [
        event(
            second=n - (n * 7 + partition) % 5 - (40 if n % 29 == 0 else 0),
            device=f"d{(n * n + partition) % 7}",
            v=(n * 37 + partition) % 101,
        )
        | {"arrived": at(n)}
        for n in range(60, 60 + events)
    ]


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """A file of JSON lines that is there at once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"_{path.name}")
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.replace(draft, path)


@dataclass(frozen=True)
class OnDisk:
    """A project in `folder`; `spark` is the session its runs share."""

    folder: Path
    spark: SparkSession

    def make(self, query: str = QUERY, late_seconds: int = 5, out_of_order_seconds: int = 2) -> OnDisk:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "job.asaql").write_text(query)
        self._json(
            "JobConfig.json",
            EventsLateArrivalMaxDelayInSeconds=late_seconds,
            EventsOutOfOrderMaxDelayInSeconds=out_of_order_seconds,
            EventsOutOfOrderPolicy="Adjust",
            CompatibilityLevel="1.2",
        )
        self._json(
            "events.json",
            InputAlias="events",
            Type="Data Stream",
            Format="Json",
            FilePath="events",
            Partitions="folders",
            ArrivalTimeField="arrived",
            ScriptType="InputMock",
        )
        configurations = [
            {"filePath": "JobConfig.json", "subType": "JobConfig"},
            {"filePath": "events.json", "subType": "InputMock"},
        ]
        self._json("asaproj.json", name="job", startFile="job.asaql", configurations=configurations)
        (self.folder / "events").mkdir(exist_ok=True)
        return self

    def _json(self, name: str, /, **content: Any) -> None:
        (self.folder / name).write_text(json.dumps(content))

    def put(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        write(self.folder / "events" / name, rows)

    def job(self, **options: Any) -> JobPlan:
        chosen: dict[str, Any] = {"once": True, "key_groups": 2, **options}
        return plan_job(load_project(self.folder), RunOptions(**chosen))

    def run(self, watch: Watch | None = None, **options: Any) -> Metrics:
        return run(self.job(**options), watch, self.spark)

    def files(self) -> dict[str, int]:
        """Every committed file with the time it was written."""
        found = self.folder.glob("LocalRunOutputs/*/part-*")
        return {str(path.relative_to(self.folder)): path.stat().st_mtime_ns for path in found}

    def rows(self, output: str) -> list[str]:
        """All rows of an output as texts, in an order of their own."""
        path = self.folder / "LocalRunOutputs" / output
        return sorted(json.dumps(row, sort_keys=True) for row in read_rows(path)) if path.exists() else []

    def all_rows(self) -> dict[str, list[str]]:
        return {name: self.rows(name) for name in ("counts", "high")}


#: Of the files below, a batch of so many bytes takes about a third.
SMALL_BATCH_BYTES = 15_000


def stop_when(happened: Callable[[Metrics], bool]) -> Callable[[int, BatchRows, Metrics], None]:
    """Sends this process the signal a user's stop sends, once something has happened."""

    def watch(_: int, __: BatchRows, metrics: Metrics) -> None:
        if happened(metrics):
            os.kill(os.getpid(), signal.SIGTERM)

    return watch
