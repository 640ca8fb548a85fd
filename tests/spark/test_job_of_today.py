"""A job stopped by an earlier version goes on with this one: `tests/fixtures/state` keeps such jobs.

`PYTHONPATH=tests python tests/spark/test_job_of_today.py` makes `job-N.tar.xz` of the format of
today: a project with its job directory, stopped behind its first batch. A file that is there stays as it is.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.project_on_disk import OnDisk, disordered
from tideglass.job.outputs import BatchRows
from tideglass.job.report.metrics import Metrics
from tideglass.job.report.run_journal import read_runs
from tideglass.job.start.manifest import STATE_FORMAT
from tideglass.spark.session.spark_session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parents[1] / "fixtures" / "state"
BATCH_BYTES = 6_000

QUERY = """
SELECT device, COUNT(*) AS n, SUM(v) AS total, System.Timestamp() AS at INTO counts
FROM events TIMESTAMP BY t GROUP BY device, HoppingWindow(second, 30, 10)

SELECT device, v, System.Timestamp() AS at INTO high FROM events TIMESTAMP BY t WHERE v > 60
"""


def project_in(folder: Path, spark: SparkSession) -> OnDisk:
    project = OnDisk(folder, spark).make(QUERY)
    for partition in range(2):
        project.put(f"{partition}/a.json", disordered(partition, 80))
    return project


@pytest.mark.parametrize("path", sorted(FOLDER.glob("job-*.tar.xz")), ids=lambda path: path.name)
def test_a_job_that_was_stopped_then_goes_on_now(spark: SparkSession, tmp_path: Path, path: Path) -> None:
    whole = project_in(tmp_path / "whole", spark)
    whole.run()
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "then", filter="data")
    then = OnDisk(tmp_path / "then", spark)
    assert 0 < len(then.rows("high")) < len(whole.rows("high"))
    then.run()
    assert then.all_rows() == whole.all_rows()
    assert len(read_runs(then.folder / ".tideglass" / "run" / "runs.jsonl")) == 2


def test_a_job_of_the_format_of_today_is_kept() -> None:
    assert (FOLDER / f"job-{STATE_FORMAT}.tar.xz").exists(), "make it: see the top of this file"


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uname = entry.gname = ""
    return entry


def main() -> None:
    path = FOLDER / f"job-{STATE_FORMAT}.tar.xz"
    if path.exists():
        raise SystemExit(f"{path} is there, and stays as it is: a change of the format has a new number")

    def stop(_: int, __: BatchRows, metrics: Metrics) -> None:
        stop_file.touch()

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "job"
        stop_file = root / ".tideglass" / "run" / "stop"
        project_in(root, local_session(2)).run(stop, batch_bytes=BATCH_BYTES)
        for name in ("spark.log", "status.json", "lock"):
            (root / ".tideglass" / "run" / name).unlink(missing_ok=True)
        journal = root / ".tideglass" / "run" / "runs.jsonl"
        # Where it was made is nobody's business.
        for file in root.rglob(".tideglass/run/generation-*/checkpoint/state/*/_metadata/v2/0"):
            file.write_text(file.read_text().replace(str(root), "/jobs"))
            file.with_name(f".{file.name}.crc").unlink()
        journal.write_text(
            journal.read_text().replace(os.getcwd(), "/jobs").replace(os.uname().nodename, "here")
        )
        shutil.rmtree(root / "LocalRunOutputs" / "counts" / "_staging", ignore_errors=True)
        with tarfile.open(path, "w:xz") as archive:
            archive.add(root, ".", filter=_of_nobody)


if __name__ == "__main__":
    main()
