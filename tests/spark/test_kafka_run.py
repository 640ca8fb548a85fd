"""Projects on a real broker: topic to topic, stopped and resumed, ended, in silence, with bad messages."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from topics import Message, send

from support.live import SETTINGS, START_MS, Live, bag, events, expected, stop
from support.times import at
from tideglass.core.errors import EvaluationError
from tideglass.core.time import AFTER_ALL_TICKS
from tideglass.job.directory import JobDirectory
from tideglass.job.outputs import BatchRows
from tideglass.job.report.metrics import Metrics
from tideglass.job.report.status import read_status
from tideglass.project.project import Project, ProjectInput
from tideglass.testing import run as run_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.versions
def test_a_project_goes_from_topic_to_topic_stopped_and_resumed(
    broker: str, spark: SparkSession, tmp_path: Path
) -> None:
    live = Live(tmp_path / "job", broker, spark)
    given = [*events(0, 120), *events(1, 120)]
    live.send(given)
    first = live.run(stop, most_messages=80)
    assert first.batches == 1
    second = live.run(most_messages=80)
    assert second.batches > 1
    assert second.events == 240
    rows = expected(given)
    for name in ("counts", "high"):
        assert bag(live.rows(name)) == bag(rows[name])
        assert rows[name]
    assert all(
        (each.key or b"").decode() == json.loads(each.value or b"")["device"]
        for each in live.messages("counts")
    )
    assert all(each.partition == json.loads(each.value or b"")["p"] for each in live.messages("high"))
    counters = second.by_api_name()
    assert counters["InputEvents"] == 240
    assert counters["LateInputEvents"] > 0
    assert counters["InputEventBytes"] > 240 * 50
    assert second.output_rows["counts"] + first.output_rows.get("counts", 0) == len(rows["counts"])

    status = read_status(JobDirectory.of_project(live.folder))
    assert status is not None
    for output in status.outputs:  # each batch with rows has a call of a task or more, and Spark's write
        assert (output.connector, output.alive, output.failed_calls) == ("topic", True, 0)
        assert output.rows == second.output_rows[output.output]
        assert output.calls >= 2
        assert output.seconds > 0
        assert output.last_row_ticks is not None
    assert {each.output_watermark_ticks for each in status.steps} == {AFTER_ALL_TICKS}
    assert sum(each.events for each in status.recent_batches) == status.events == 240 - first.events
    assert status.backlog == {"events": 0}

    before = len(live.messages("counts"))
    live.send(events(0, 10))
    assert live.run(most_messages=80).output_rows.get("counts", 0) == 0, "what came behind the end"
    assert len(live.messages("counts")) == before


@pytest.mark.versions
def test_a_live_run_follows_its_topic_and_silence_closes_its_windows(
    broker: str, spark: SparkSession, tmp_path: Path
) -> None:
    live = Live(tmp_path / "job", broker, spark)
    live.send(events(0, 30))
    more = [
        event | {"t": at(n), "came": at(n)} for n, event in zip(range(95, 105), events(1, 10), strict=True)
    ]

    def watch(batch_id: int, given: BatchRows, metrics: Metrics) -> None:
        assert batch_id < 300, "silence does not close the last windows"
        if metrics.events == 30 and more:
            live.send(more)
            more.clear()
        if sum(metrics.output_rows.get(name, 0) for name in ("counts",)) and metrics.events == 40:
            counted = sum(row["n"] for row in live.rows("counts"))
            if counted == 40:
                os.kill(os.getpid(), signal.SIGTERM)

    metrics = live.run(watch, once=False, idle_seconds=0.5)
    assert metrics.events == 40
    assert sum(row["n"] for row in live.rows("counts")) == 40

    # A run that went on may be finished by another, to which silence says nothing.
    live.send(
        event | {"t": at(n), "came": at(n)} for n, event in zip(range(900, 905), events(0, 5), strict=True)
    )
    assert live.run().events == 45
    assert sum(row["n"] for row in live.rows("counts")) == 45


def test_refused_messages_are_counted_with_their_offset(
    broker: str, spark: SparkSession, tmp_path: Path
) -> None:
    live = Live(tmp_path / "job", broker, spark)
    live.send(events(0, 5))
    send(broker, live.names["events"], [Message(b'{"broken', None, 0, START_MS + 70_000)])
    live.send(event | {"came": at(70)} for event in events(0, 1))
    metrics = live.run()
    assert metrics.by_api_name()["DeserializationError"] == 1
    assert [(each.partition, each.first_place) for each in metrics.errors] == [("0", 5)]


def test_a_row_that_fails_the_query_stops_a_live_run_and_is_shown(
    broker: str, spark: SparkSession, tmp_path: Path
) -> None:
    query = "SELECT CAST(device AS bigint) AS v INTO high FROM events"
    live = Live(tmp_path / "job", broker, spark, query)
    live.send(events(0, 3))
    with pytest.raises(EvaluationError, match="bigint"):
        live.run(outputs={"high": "console"})


LOOKUPS = """
WITH both AS (SELECT device, v FROM events TIMESTAMP BY t UNION SELECT device, v FROM more TIMESTAMP BY t),
w AS (SELECT device, COUNT(*) AS n FROM both GROUP BY device, TumblingWindow(second, 10))

SELECT w.device, w.n, r.zone, System.Timestamp() AS at INTO counts FROM w LEFT JOIN r ON w.device = r.device

SELECT events.device, events.v, CAST(events.PartitionId AS bigint) AS p, r.zone, System.Timestamp() AS at
INTO high FROM events TIMESTAMP BY t JOIN r ON events.device = r.device
"""


class WithReference(Live):
    """A topic and a folder of files, joined with snapshots of reference data."""

    def project(self, **words: Any) -> Project:
        project = super().project(**words)
        more = ProjectInput("more", "stream", "local file", self.folder / "more", "json", arrival="came")
        reference = ProjectInput(
            "r",
            "reference",
            "local file",
            self.folder / "ref" / "{date}" / "{time}.json",
            "json",
            date_format="YYYY-MM-DD",
            time_format="HH-mm-ss",
        )
        return replace(project, inputs={**project.inputs, "more": more, "r": reference})

    def snapshot(self, second: int, zone: str) -> list[dict[str, Any]]:
        rows = [{"device": f"d{n}", "zone": f"{zone} {n}"} for n in range(5)]
        path = self.folder / "ref" / "2026-01-01" / f"00-{second // 60:02d}-{second % 60:02d}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(map(json.dumps, rows)))
        return rows


def test_a_live_run_meets_snapshots_by_event_time_and_goes_on_with_those_it_found(
    broker: str, spark: SparkSession, tmp_path: Path
) -> None:
    live = WithReference(tmp_path / "job", broker, spark, LOOKUPS)
    zones = {at(0): live.snapshot(0, "north"), at(100): live.snapshot(100, "south")}
    given = [*events(0, 120), *events(1, 120)]
    live.send(given)
    more = events(2, 120)
    (live.folder / "more").mkdir()
    (live.folder / "more" / "a.json").write_text("\n".join(map(json.dumps, more)))
    assert live.run(stop, most_messages=80).batches == 1
    live.snapshot(50, "west")  # older than the last one found: ignored (`asa.md` 6.3)
    live.run(most_messages=80)

    rows = {
        name: [
            {key: each[key] for key in ("device", "v", "t")}
            | {"_arrival": each["came"], "_partition": each["partition"] % 2}
            for each in part
        ]
        for name, part in {"events": given, "more": more}.items()
    }
    expected = run_rows(LOOKUPS, rows, reference={"r": zones}, settings=SETTINGS)
    for name in ("counts", "high"):
        assert bag(live.rows(name)) == bag(expected[name])
        assert {row["zone"][:5] for row in expected[name] if row["zone"]} == {"north", "south"}
