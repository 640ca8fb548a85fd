"""A project between topics of a real broker, and what it must give."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topics import Message, create_topic, read, send

from support.times import at
from tideglass.connect.kafka.output import TopicOutput
from tideglass.connect.kafka.topic import TopicInput
from tideglass.core.time import parse_ticks
from tideglass.job.commit import Watch
from tideglass.job.options import RunOptions
from tideglass.job.outputs import BatchRows
from tideglass.job.plan import plan_job
from tideglass.job.report.metrics import Metrics
from tideglass.job.runner import run
from tideglass.project.project import Project, ProjectInput, ProjectOutput, load_project
from tideglass.testing import run as run_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = """
SELECT device, COUNT(*) AS n, SUM(v) AS total, System.Timestamp() AS at INTO counts
FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)

SELECT device, v, CAST(PartitionId AS bigint) AS p, System.Timestamp() AS at INTO high
FROM events TIMESTAMP BY t WHERE v > 90
"""
SETTINGS = {"late_arrival": "5s", "out_of_order": "2s", "policy": "adjust"}
START_MS = 1_767_225_600_000


def events(partition: int, count: int) -> list[dict[str, Any]]:
    """Out of order, some late; `came` is their arrival, a second apart."""
    return [
        {
            "device": f"d{(n * n + partition) % 7}",
            "v": (n * 37 + partition) % 101,
            "t": at(n - (n * 7 + partition) % 5 - (40 if n % 29 == 0 else 0)),
            "came": at(n),
            "partition": partition,
        }
        for n in range(60, 60 + count)
    ]


def message(event: Mapping[str, Any]) -> Message:
    ticks = parse_ticks(event["came"])
    assert ticks is not None
    body = {name: event[name] for name in ("device", "v", "t")}
    return Message(json.dumps(body).encode(), None, event["partition"], ticks // 10_000)


def expected(given: Iterable[Mapping[str, Any]], query: str = QUERY) -> dict[str, list[dict[str, Any]]]:
    """The rows of the same events in this process."""
    rows = [
        {name: each[name] for name in ("device", "v", "t")}
        | {"_arrival": each["came"], "_partition": each["partition"]}
        for each in given
    ]
    return run_rows(query, {"events": rows}, settings=SETTINGS)


def bag(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


class Live:
    """A project between topics of its own."""

    def __init__(self, folder: Path, address: str, spark: SparkSession, query: str = QUERY) -> None:
        self.folder, self.address, self.spark = folder, address, spark
        self.names = {name: f"{name}-{uuid.uuid4().hex[:8]}" for name in ("events", "counts", "high")}
        create_topic(address, self.names["events"], 2, "CreateTime")
        for name in ("counts", "high"):
            create_topic(address, self.names[name], 3)
        folder.mkdir(exist_ok=True)
        (folder / "job.asaql").write_text(query)
        config = {
            "EventsLateArrivalMaxDelayInSeconds": 5,
            "EventsOutOfOrderMaxDelayInSeconds": 2,
            "EventsOutOfOrderPolicy": "Adjust",
        }
        (folder / "JobConfig.json").write_text(json.dumps(config))

    def project(self, **words: Any) -> Project:
        topic = TopicInput(
            "events", self.address, self.names["events"], arrival="CreateTime", starting="earliest", **words
        )
        outputs = {
            "counts": TopicOutput("counts", self.address, self.names["counts"], key="device"),
            "high": TopicOutput("high", self.address, self.names["high"], partition="p"),
        }
        return replace(
            load_project(self.folder),
            inputs={"events": ProjectInput("events", "stream", "Kafka", live=topic)},
            outputs={name: ProjectOutput(name, "Kafka", connector=each) for name, each in outputs.items()},
        )

    def send(self, given: Iterable[Mapping[str, Any]]) -> None:
        send(self.address, self.names["events"], map(message, given))

    def run(self, watch: Watch | None = None, most_messages: int = 1000, **options: Any) -> Metrics:
        chosen: dict[str, Any] = {"once": True, "live": True, "key_groups": 2, **options}
        project = self.project(most_messages=most_messages)
        return run(plan_job(project, RunOptions(**chosen)), watch, self.spark)

    def messages(self, output: str) -> list[Message]:
        return read(self.address, self.names[output])

    def rows(self, output: str) -> list[dict[str, Any]]:
        return [json.loads(each.value or b"") for each in self.messages(output)]


def stop(_: int, __: BatchRows, metrics: Metrics) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
