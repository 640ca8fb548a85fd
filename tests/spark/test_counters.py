"""Every counter is exact over kills, stops and restarts, whatever the batches are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.project_on_disk import OnDisk, disordered
from tideglass.connect.output import Batch
from tideglass.core.errors import TideglassError
from tideglass.job.directory import JobDirectory
from tideglass.job.output_publisher import OutputPublisher
from tideglass.job.progress.counts import Counts
from tideglass.job.report.status import read_status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = """
SELECT device, COUNT(*) AS n, 10 / (COUNT(*) - 1) AS share, System.Timestamp() AS at INTO counts
FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)

SELECT device, v, 1 / (v - 95) AS share, System.Timestamp() AS at INTO high
FROM events TIMESTAMP BY t WHERE v > 90
"""


class Killed(Exception):
    """Stands for the end of a process."""


def project(folder: Path, spark: SparkSession) -> OnDisk:
    made = OnDisk(folder, spark).make(QUERY)
    settings = json.loads((folder / "JobConfig.json").read_text())
    (folder / "JobConfig.json").write_text(json.dumps({**settings, "RowErrorPolicy": "Drop"}))
    for partition in range(2):
        rows = disordered(partition, 240)
        for number in range(4):
            made.put(f"{partition}/{number}.json", rows[number * 60 : number * 60 + 60])
            with (folder / "events" / str(partition) / f"{number}.json").open("a") as file:
                file.write("no json\n")
    return made


def killed_at(monkeypatch: pytest.MonkeyPatch, where: str, batch: int, job: Callable[[], Any]) -> None:
    """Run until a batch is at a place of its commit, and end there."""
    publish, save = OutputPublisher.publish, Counts.save

    def commit(self: OutputPublisher, committed: Batch, *others: Any) -> Any:
        if where == "before its rows are there" and committed.number == batch:
            raise Killed
        published = publish(self, committed, *others)
        if where == "behind its rows" and committed.number == batch:
            raise Killed
        return published

    def saved(self: Counts, generation: Path) -> None:
        save(self, generation)
        if where == "behind its counts" and self.batch == batch:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(OutputPublisher, "publish", commit)
        patched.setattr(Counts, "save", saved)
        with pytest.raises(TideglassError, match="Killed"):
            job()


def test_every_counter_is_that_of_an_undisturbed_run_over_kills_and_batches(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = project(tmp_path / "one", spark).run()
    expected = undisturbed.by_api_name()
    for name in ("InputEvents", "InputEventBytes", "LateInputEvents", "DroppedOrAdjustedEvents", "Errors"):
        assert expected[name] > 0, name
    assert expected["DeserializationError"] == 8
    assert expected["OutputEvents"] == sum(undisturbed.output_rows.values()) > 100

    cut = project(tmp_path / "cut", spark)
    small = {"batch_bytes": 10_000}
    places = ("before its rows are there", "behind its rows", "behind its counts")
    for batch, where in enumerate(places, 1):
        killed_at(monkeypatch, where, batch, lambda: cut.run(**small))
    last = cut.run(**small)
    assert last.batches > 1
    assert cut.all_rows() == OnDisk(tmp_path / "one", spark).all_rows()
    assert last.by_api_name() == expected
    assert last.rows_in_all == undisturbed.output_rows

    again = cut.run()
    assert (again.batches, sum(again.output_rows.values())) == (0, 0), "nothing was left to do"
    assert again.by_api_name() == expected
    status = read_status(JobDirectory.of_project(tmp_path / "cut"))
    assert status is not None
    assert (status.counters, status.rows_in_all) == (expected, undisturbed.output_rows)
