"""A project with reference data runs on Spark: snapshots by their time, the same ones in every batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.project_on_disk import OnDisk, event, write
from support.times import at
from tideglass.core.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = """
WITH w AS (
    SELECT device, COUNT(*) AS n FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)
)

SELECT w.device, w.n, r.zone INTO counts FROM w LEFT JOIN r ON w.device = r.device

SELECT events.device, events.v, r.zone INTO high FROM events TIMESTAMP BY t JOIN r ON events.device = r.device
"""


class WithReference(OnDisk):
    """The project of `project_on_disk` with a reference input that has a snapshot for a minute."""

    def make_all(self) -> WithReference:
        self.make(QUERY)
        mock = {
            "InputAlias": "r",
            "Type": "Reference data",
            "Format": "Json",
            "FilePath": "ref/{date}/{time}.json",
            "DateFormat": "YYYY-MM-DD",
            "TimeFormat": "HH-mm-ss",
            "ScriptType": "InputMock",
        }
        (self.folder / "r.json").write_text(json.dumps(mock))
        manifest = json.loads((self.folder / "asaproj.json").read_text())
        manifest["configurations"].append({"filePath": "r.json", "subType": "InputMock"})
        (self.folder / "asaproj.json").write_text(json.dumps(manifest))
        return self

    def snapshot(self, second: int, rows: list[dict[str, Any]]) -> None:
        time = at(second)
        write(self.folder / "ref" / time[:10] / f"{time[11:19].replace(':', '-')}.json", rows)


def zone(name: str) -> list[dict[str, Any]]:
    return [{"device": "d1", "zone": name}]


@pytest.mark.spark
def test_a_run_meets_snapshots_by_event_time_and_goes_on_with_those_it_found(
    tmp_path: Path, spark: SparkSession
) -> None:
    job = WithReference(tmp_path / "job", spark).make_all()
    job.snapshot(0, zone("north"))
    job.snapshot(12, zone("south"))
    job.put("0/a.json", [event(1, "d1", 1), event(11, "d1", 2), event(12, "d1", 3), event(13, "d2", 4)])
    job.run()
    assert [json.loads(row)["zone"] for row in job.rows("high")] == ["north", "north", "south"]
    counts = {(row["device"], row["n"], row["zone"]) for row in map(json.loads, job.rows("counts"))}
    assert counts == {("d1", 1, "north"), ("d1", 2, "south"), ("d2", 1, None)}
    (journal,) = (job.folder / ".tideglass" / "run" / "reference").glob("*.jsonl")
    assert len(journal.read_text().splitlines()) == 2

    job.snapshot(12, zone("west"))
    job.run(fresh=True)
    assert [json.loads(row)["zone"] for row in job.rows("high")] == ["north", "north", "west"]


@pytest.mark.spark
def test_a_run_stops_at_an_event_older_than_all_snapshots(tmp_path: Path, spark: SparkSession) -> None:
    job = WithReference(tmp_path / "job", spark).make_all()
    job.snapshot(20, zone("north"))
    job.put("0/a.json", [event(1, "d1", 1)])
    with pytest.raises(InputError, match="NO_SNAPSHOT"):
        job.run()
