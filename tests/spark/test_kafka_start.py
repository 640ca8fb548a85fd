"""Runs begin to read topics at an output time, or behind a run whose state does not fit any more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from support.live import QUERY, SETTINGS, Live, bag, events, expected, stop
from support.times import at
from tideglass.core.errors import InputError
from tideglass.core.time import format_ticks, parse_ticks
from tideglass.job.directory import JobDirectory
from tideglass.job.progress.topic_progress import TopicProgress
from tideglass.job.report.run_journal import read_runs
from tideglass.job.start.decision import StartMode
from tideglass.project.project import Project, ProjectInput
from tideglass.testing import run as run_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

kafka = cast("Any", confluent_kafka)

#: 10 s of window and 5 min early before it, what arrived from 00:04:50 on is needed.
START = at(600)
#: One event a second from 00:01:00 on; the second partition has nothing of what is needed.
GIVEN = [*events(0, 700), *events(1, 200)]
FROM_START: dict[str, Any] = {"start_mode": StartMode.TIME, "start_at_ticks": parse_ticks(START)}


def since(rows: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    return {name: [row for row in of if row["at"] >= START] for name, of in rows.items()}


def test_from_an_output_time_on_the_rows_are_those_of_the_undisturbed_run(
    broker: str, spark: SparkSession, tmp_path: Path
) -> None:
    live = Live(tmp_path / "job", broker, spark)
    live.send(GIVEN)
    first = live.run(stop, most_messages=400, **FROM_START)
    assert first.batches == 1
    metrics = live.run(most_messages=400, start_mode=StartMode.LAST_STOPPED)
    assert metrics.events == 470
    rows = since(expected(GIVEN))
    for name in ("counts", "high"):
        assert rows[name]
        assert bag(live.rows(name)) == bag(rows[name])


def test_a_topic_that_no_longer_holds_the_range_stops_the_start_before_any_output(
    broker: str, spark: SparkSession, tmp_path: Path
) -> None:
    live = Live(tmp_path / "job", broker, spark)
    live.send(GIVEN)
    admin: Any = AdminClient({"bootstrap.servers": broker})
    gone = kafka.TopicPartition(live.names["events"], 0, 300)
    admin.delete_records([gone])[gone].result(60)
    with pytest.raises(
        InputError,
        match=r"RANGE_NOT_RETAINED(?s:.*)'events', partition 0: needed is what arrived from "
        r"2026-01-01T00:04:50Z on, there is what arrived from 2026-01-01T00:06:00Z; "
        rf"topic '{live.names['events']}' holds nothing before offset 300\n  hint",
    ):
        live.run(**FROM_START)
    assert not list(tmp_path.rglob("begun.json"))
    assert not live.rows("counts")
    assert live.run(**FROM_START, accept_partial=True).events == 400
    assert bag(live.rows("counts")) == bag(since(expected(GIVEN))["counts"])


CHANGED = QUERY.replace("TumblingWindow(second, 10)", "TumblingWindow(second, 20)")


def test_another_query_in_other_key_groups_goes_on_behind_the_rows_of_the_one_before(
    broker: str, spark: SparkSession, tmp_path: Path
) -> None:
    live = Live(tmp_path / "job", broker, spark)
    directory = JobDirectory.of_project(tmp_path / "job")
    given = [*events(0, 300), *events(1, 300)]
    live.send(given)
    assert live.run(stop, most_messages=400).events == 400
    before = {name: live.rows(name) for name in ("counts", "high")}
    place = TopicProgress.load(directory.generation(1))
    reached = format_ticks(min(place.watermark_ticks("events", partition) for partition in "01"))

    (tmp_path / "job" / "job.asaql").write_text(CHANGED)
    assert live.run(stop, most_messages=150, key_groups=3).batches == 1
    assert {name: live.rows(name) for name in before} == before, "what is read again gives nothing"
    metrics = live.run(most_messages=150, key_groups=3)
    assert metrics.events == 600
    assert metrics.catch_up is not None
    assert metrics.catch_up.done
    second, third = read_runs(directory.journal)[1:]
    assert set(second.start.changes) == {
        "the statement that writes to 'counts' is another",
        "the key groups were 2 and are 3",
    }
    assert (second.start.resumed, third.start.resumed) == (False, True)

    # A window that was open when the first query stopped is closed by the second, and whole.
    rows = {name: bag(of) for name, of in expected(given, CHANGED).items()}
    assert bag(live.rows("high")) == rows["high"]
    later = [row for row in expected(given, CHANGED)["counts"] if row["at"] >= reached]
    assert 0 < len(later) < rows["counts"].total()
    assert bag(live.rows("counts")) == bag(before["counts"]) + bag(later)


#: A window over both inputs, and pairs of a message and a line of a file.
BESIDE = """
WITH both AS (SELECT device, v FROM events TIMESTAMP BY t UNION SELECT device, v FROM more TIMESTAMP BY t)
SELECT device, COUNT(*) AS n, SUM(v) AS total, System.Timestamp() AS at INTO counts
FROM both GROUP BY device, TumblingWindow(second, 10)

SELECT e.device, e.v, m.v AS other, CAST(e.PartitionId AS bigint) AS p, System.Timestamp() AS at INTO high
FROM events e TIMESTAMP BY t JOIN more m TIMESTAMP BY t
ON e.device = m.device AND DATEDIFF(second, e, m) BETWEEN 0 AND 5 WHERE e.v > 60
"""
#: The same rows of other steps: no state of before fits.
BESIDE_CHANGED = BESIDE.replace("TIMESTAMP BY t", "TIMESTAMP BY DATEADD(second, 0, t)")


class WithFiles(Live):
    """A topic, and files beside it."""

    def project(self, **words: Any) -> Project:
        project = super().project(**words)
        more = ProjectInput("more", "stream", "local file", self.folder / "more", "json", arrival="came")
        return replace(project, inputs={**project.inputs, "more": more})


def test_another_query_over_a_topic_and_files_goes_on_behind_the_rows_of_the_one_before(
    broker: str, spark: SparkSession, tmp_path: Path
) -> None:
    live = WithFiles(tmp_path / "job", broker, spark, BESIDE)
    given, more = [*events(0, 300), *events(1, 300)], events(2, 300)
    live.send(given)
    (live.folder / "more").mkdir()
    for number in range(6):
        lines = [json.dumps({**row, "partition": 0}) for row in more[number * 50 : number * 50 + 50]]
        (live.folder / "more" / f"{number}.json").write_text("\n".join(lines) + "\n")
    few: dict[str, Any] = {"most_messages": 150, "batch_bytes": 9000}
    live.run(stop, **few)
    live.run(stop, **few)
    before = {name: live.rows(name) for name in ("counts", "high")}
    assert all(before.values())

    (live.folder / "job.asaql").write_text(BESIDE_CHANGED)
    assert live.run(stop, **few, key_groups=3).batches == 1
    assert {name: live.rows(name) for name in before} == before, "what is read again gives nothing"
    metrics = live.run(**few, key_groups=3)
    assert metrics.catch_up is not None
    assert metrics.catch_up.done
    starts = [each.start for each in read_runs(JobDirectory.of_project(live.folder).journal)]
    assert [(each.resumed, each.mode) for each in starts] == [
        (False, "beginning"),
        (True, "beginning"),
        (False, "last-stopped"),
        (True, "last-stopped"),
    ]

    rows = {
        name: [
            {key: each[key] for key in ("device", "v", "t")} | {"_arrival": each["came"], "_partition": place}
            for each in of
            for place in [each["partition"] % 2]
        ]
        for name, of in {"events": given, "more": more}.items()
    }
    undisturbed = run_rows(BESIDE, rows, settings=SETTINGS)
    for name in before:
        assert bag(live.rows(name)) == bag(undisturbed[name])
        assert len(before[name]) < len(undisturbed[name])
