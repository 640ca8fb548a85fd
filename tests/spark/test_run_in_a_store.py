"""A project whose job directory, with Spark's checkpoint, is in a store: killed, resumed, looked at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from support.project_on_disk import OnDisk, disordered
from support.stores import ACCOUNT_KEY, StoreOnThisMachine, azurite, s3_server
from tideglass.cli.main import main
from tideglass.cli.page import job_table
from tideglass.job.directory import JobDirectory
from tideglass.job.report.history import read_history
from tideglass.job.report.run_journal import Ended, read_runs
from tideglass.job.report.status import JobState, read_status
from tideglass.page.status_feed import StatusCache
from tideglass.spark.checkpoint import last_batch
from tideglass.storage import storage_path

_LIMIT_SECONDS = 300


#: Spark's checkpoint in S3 needs Amazon's library for Java, which is fetched once.
ON_S3 = pytest.param(
    "s3",
    marks=pytest.mark.skipif(
        "TIDEGLASS_S3" not in os.environ,
        reason="A CHECKPOINT IN S3 IS NOT TESTED: set TIDEGLASS_S3=1 to fetch 600 MB and test it",
    ),
)


@pytest.fixture(params=["azure", ON_S3])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[StoreOnThisMachine]:
    with azurite(tmp_path / "store") if request.param == "azure" else s3_server() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield running


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tideglass.cli.main", *map(str, arguments)]


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command prints that ends well."""
    with pytest.raises(SystemExit) as end:
        main([*map(str, arguments)])
    printed = capsys.readouterr()
    assert end.value.code in (0, None), printed
    return printed.out


def test_a_job_in_a_store_is_killed_and_resumed_and_looked_at(
    store: StoreOnThisMachine, spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = OnDisk(tmp_path / "job", spark).make()
    rows = {partition: disordered(partition, 200) for partition in range(2)}
    for partition in rows:
        made.put(f"{partition}/a.json", rows[partition][:120])
    uri = f"{store.root}/jobs/of july"
    directory = JobDirectory.at(uri)

    process = subprocess.Popen(
        command("run", made.folder, "--run-dir", uri, "--cores", 2, "--quiet"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        limit = time.monotonic() + _LIMIT_SECONDS
        while (status := read_status(directory)) is None or not status.batches:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < limit, status
            time.sleep(0.2)
        assert status.state in (JobState.RUNNING, JobState.STARTING)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    directory.lock.unlink()  # else the next run waits until the lease of this one is over
    killed = read_status(directory)
    assert killed is not None
    assert killed.state is JobState.FAILED

    for partition in rows:
        made.put(f"{partition}/b.json", rows[partition][120:])
    done = subprocess.run(
        command("run", made.folder, "--run-dir", uri, "--cores", 2, "--once", "--quiet"),
        capture_output=True,
        text=True,
        timeout=_LIMIT_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr

    here = OnDisk(tmp_path / "here", spark).make()
    for partition in rows:
        here.put(f"{partition}/a.json", rows[partition])
    here.run()
    assert made.all_rows() == here.all_rows()
    assert made.rows("counts")

    runs = read_runs(directory.journal)
    assert [(run.start.resumed, run.end.how if run.end else None) for run in runs] == [
        (False, Ended.KILLED),
        (True, Ended.FINISHED),
    ]
    assert last_batch(directory.generation(1) / "checkpoint") is not None
    assert not (made.folder / ".tideglass").exists()
    assert directory.spark_log.is_file()

    assert "job: Stopped, run 2 ended" in shown(capsys, "status", "--run-dir", uri)
    assert "run 1: killed" in shown(capsys, "runs", "--run-dir", uri)
    assert "job: healthy, finished" in shown(capsys, "why", "--run-dir", uri)
    assert "job: Stopped, run 2 ended" in shown(capsys, "stop", "--run-dir", uri)
    (known,) = job_table(uri, None).jobs().values()
    assert known == directory
    newest = StatusCache().status(known)
    assert newest is not None
    assert newest.batches >= 1
    assert read_history(directory)

    secret = ACCOUNT_KEY.encode()
    files = [storage_path(uri) / each.name for each in storage_path(uri).list(recursive=True)]
    assert [str(file) for file in files if secret in file.read_bytes()] == []
    assert secret not in directory.spark_log.read_bytes()
