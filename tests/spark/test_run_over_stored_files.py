"""A project whose files are in an object store is killed, goes on, and writes what a run on a disk writes."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.stores import azurite
from tideglass.storage import StoragePath, storage_path

pytestmark = pytest.mark.timeout(400)

#: About 4 MB in three files, and a batch takes one.
EVENTS, FILES = 27_000, 3

QUERY = """
SELECT r.name, COUNT(*) AS n, SUM(c.v) AS v, System.Timestamp() AS at
INTO tens FROM clicks c TIMESTAMP BY t JOIN names r ON c.k = r.k
GROUP BY r.name, TumblingWindow(second, 10)

SELECT k, v, t INTO some FROM clicks TIMESTAMP BY t WHERE v % 500 = 0
"""


def write_inputs(folder: StoragePath) -> None:
    """Events, one of their files compressed, and two snapshots of reference data."""
    for number in range(FILES):
        lines = "".join(
            json.dumps(
                {"t": f"2026-01-01T{v // 3600:02d}:{v // 60 % 60:02d}:{v % 60:02d}Z", "k": str(v % 7), "v": v}
                | {"pad": "x" * 90}
            )
            + "\n"
            for v in range(number * EVENTS // FILES, (number + 1) * EVENTS // FILES)
        ).encode()
        if number == FILES - 1:
            (folder / "clicks" / f"{number}.json.gz").write(gzip.compress(lines))
        else:
            (folder / "clicks" / f"{number}.json").write(lines)
    for day, suffix in (("2025-12-31", "old"), ("2026-01-01", "new")):
        rows = "".join(f"{k},{suffix} {k}\n" for k in range(7))
        (folder / "names" / f"{day}.csv").write(f"k,name\n{rows}".encode())


def command(project: Path, files: StoragePath, run_directory: StoragePath) -> list[str]:
    return [
        *(sys.executable, "-m", "tideglass.cli.main", "run", str(project), "--once", "--cores", "2"),
        *("--batch-mb", "1", "--run-dir", str(run_directory)),
        *("--input", f"clicks={files}/clicks,arrival=t", "--input", f"names={files}/names/{{date}}.csv"),
        *("--output", f"tens={files}/tens", "--output", f"some={files}/some"),
    ]


def run(arguments: list[str], environment: Mapping[str, str], kill_after: str | None = None) -> str:
    """Run to the end, or to the line that begins with `kill_after`; what was printed."""
    process = subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
    )
    printed: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line)
            if kill_after is not None and line.startswith(kill_after):
                return "".join(printed)
        assert kill_after is None, "".join(printed)
        assert process.wait(timeout=60) == 0, "".join(printed)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return "".join(printed)


def rows(folder: StoragePath) -> dict[str, bytes]:
    """Every file that is visible in the outputs, by name."""
    return {
        f"{name}/{each.name}": (folder / name / each.name).read_bytes()
        for name in ("tens", "some")
        for each in (folder / name).list()
        if not each.is_folder
    }


def project_in(folder: Path) -> Path:
    """A project that names its inputs; where they are is for the command line to say."""
    names = {
        "Name": "names",
        "Type": "Reference data",
        "DataSourceType": "Blob Storage",
        "ScriptType": "Input",
        "BlobReferenceProperties": {"DateFormat": "yyyy-MM-dd"},
    }
    (folder / "Inputs").mkdir(parents=True)
    (folder / "Inputs" / "names.json").write_text(json.dumps(names))
    (folder / "job.asaql").write_text(QUERY)
    return folder


def test_a_run_over_files_in_a_store_is_killed_and_writes_what_a_run_on_a_disk_writes(
    java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, disk = project_in(tmp_path / "project"), storage_path(tmp_path / "disk")
    write_inputs(disk)
    run(command(project, disk, disk / "run"), {})
    expected = rows(disk)
    assert len({name for name in expected if name.startswith("tens/")}) > 3

    (tmp_path / "azurite").mkdir()
    with azurite(tmp_path / "azurite") as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        files = storage_path(store.root) / "job"
        write_inputs(files)
        job = command(project, files, files / "run")
        run(job, store.environment, kill_after="batch 1:")
        assert rows(files) != expected
        printed = run(job, store.environment)
        assert "resumed" in printed, printed
        assert rows(files) == expected
