"""A live run into a Delta table: killed and resumed, and read back by others than who wrote it."""

from __future__ import annotations

import json

import duckdb
import pytest
from deltalake import DeltaTable

from support.project_on_disk import OnDisk, disordered
from tideglass.core.errors import TideglassError
from tideglass.job import commit

pytestmark = pytest.mark.spark

QUERY = """
WITH perDevice AS (
    SELECT device, COUNT(*) AS n, System.Timestamp() AS at
    FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)
)
SELECT * INTO counts FROM perDevice
SELECT * INTO files FROM perDevice
"""


@pytest.fixture
def project(spark, tmp_path):
    found = OnDisk(tmp_path / "job", spark).make(QUERY)
    manifest = found.folder / "asaproj.json"
    words = json.loads(manifest.read_text())
    words["configurations"].append({"filePath": "counts.json", "subType": "Output"})
    manifest.write_text(json.dumps(words))
    output = {
        "Name": "counts",
        "DataSourceType": "Delta Lake",
        "DeltaLakeProperties": {"Path": "tables/counts", "PartitionColumns": ["device"]},
        "ScriptType": "Output",
    }
    (found.folder / "counts.json").write_text(json.dumps(output))
    return found


def die(*_):
    raise RuntimeError("the run dies here")


def test_a_killed_run_leaves_every_row_once_in_the_table(project, monkeypatch):
    for partition in range(2):
        project.put(f"{partition}/a.json", disordered(partition, 60))
    with monkeypatch.context() as patch:
        patch.setattr(commit, "COMMIT_STEPS", (commit.record_partition_watermarks, commit.publish_rows, die))
        with pytest.raises(TideglassError, match="the run dies here"):
            project.run(live=True)
    table = project.folder / "tables" / "counts"
    after_death = DeltaTable(str(table)).version()
    project.run(live=True)
    found = DeltaTable(str(table)).to_pyarrow_table()
    shown = [f"{row['device']} {row['n']} {row['at']:%H:%M:%S}" for row in found.to_pylist()]
    plain = [json.loads(row) for row in project.rows("files")]
    assert sorted(shown) == sorted(f"{row['device']} {row['n']} {row['at'][11:19]}" for row in plain)
    assert len(shown) > 10
    assert after_death >= 1, "the batch was in the table when the run died"
    files = [str(table / path) for path in DeltaTable(str(table)).file_uris()]
    assert duckdb.sql(f"SELECT count(*), sum(n) FROM read_parquet({files})").fetchall() == [
        (len(plain), sum(row["n"] for row in plain))
    ]
