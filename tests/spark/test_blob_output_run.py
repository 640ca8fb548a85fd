"""A project with the tools' own files writes to an account, is killed, and writes the rest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.partitioned_files import files_in
from support.stores import ACCOUNT, ACCOUNT_KEY, azurite
from tideglass.storage import StoragePath, storage_path

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

#: About 2 MB, and a batch takes one.
EVENTS = 20_000
QUERY = """
SELECT k, v, t INTO some FROM clicks TIMESTAMP BY t WHERE v % 40 = 0

SELECT k, COUNT(*) AS n, System.Timestamp() AS at INTO hourly
FROM clicks TIMESTAMP BY t GROUP BY k, TumblingWindow(minute, 30)
"""


def output(name: str, container: str, pattern: str, mode: str) -> dict[str, object]:
    """An output file as the tools write it."""
    block = {
        "StorageAccounts": [{"AccountName": ACCOUNT, "AccountKey": None}],
        "Container": container,
        "PathPattern": pattern,
        "DateFormat": "yyyy/MM/dd",
        "TimeFormat": "HH",
        "AuthenticationMode": "ConnectionString",
        "BlobWriteMode": mode,
    }
    return {
        "EventHubProperties": None,
        "BlobStorageProperties": block,
        "DataSourceCredentialDomain": None,
        "Name": name,
        "DataSourceType": "Blob Storage",
        "Serialization": {
            "Encoding": "UTF8",
            "Type": "Json",
            "FieldDelimiter": None,
            "Format": "LineSeparated",
        },
        "MinimumRows": None,
        "MaximumTime": None,
        "ScriptType": "Output",
    }


def project_in(folder: Path, container: str) -> Path:
    (folder / "Outputs").mkdir(parents=True)
    some = output("some", container, "some/{date}/k={K}", "Append")
    hourly = output("hourly", container, "hourly/{date}/{time}", "Once")
    for each in (some, hourly):
        (folder / "Outputs" / f"{each['Name']}.json").write_text(json.dumps(each))
    (folder / "job.asaql").write_text(QUERY)
    lines = (
        json.dumps({"t": f"2026-03-09T{v // 3600:02d}:{v // 60 % 60:02d}:{v % 60:02d}Z", "k": v % 3, "v": v})
        for v in range(EVENTS)
    )
    padded = (f'{line[:-1]}, "pad": "{"x" * 60}"}}\n' for line in lines)
    (folder / "clicks.json").write_text("".join(padded))
    return folder


def run(project: Path, name: str, environment: Mapping[str, str], kill_after: str | None = None) -> str:
    """A live run to the end, or to the line that begins with `kill_after`; what was printed."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tideglass.cli.main", "run", str(project), "--live", "--once"),
            *("--cores", "2", "--batch-mb", "1", "--run-dir", str(project / name)),
            *("--input", f"clicks={project / 'clicks.json'}"),
        ],
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


def rows_in(path: StoragePath) -> dict[str, list[str]]:
    """The lines of each folder, sorted."""
    found: dict[str, list[str]] = {}
    for name, body in files_in(path).items():
        folder = name.rpartition("/")[0]
        found[folder] = sorted([*found.get(folder, []), *body.decode().splitlines()])
    return found


def test_unchanged_files_of_the_tools_write_to_an_account_through_a_kill(
    java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "azurite").mkdir()
    with azurite(tmp_path / "azurite") as store:
        container = store.root.partition("://")[2].partition("@")[0]
        project = project_in(tmp_path / "project", container)
        stand_in = {f"{ACCOUNT}.blob.core.windows.net": store.environment["AZURE_STORAGE_ENDPOINT"]}
        environment = {
            "TIDEGLASS_ENDPOINTS": json.dumps(stand_in),
            **{f"Outputs_{name}_DataSource_AccountKey": ACCOUNT_KEY for name in ("some", "hourly")},
        }
        run(project, "run", environment, kill_after="batch 0:")
        printed = run(project, "run", environment)
        assert "resumed" in printed, printed
        assert ACCOUNT_KEY not in printed
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        found = rows_in(storage_path(store.root))
        hourly = files_in(storage_path(store.root) / "hourly")

    some = {folder: lines for folder, lines in found.items() if folder.startswith("some/")}
    assert {folder: len(lines) for folder, lines in some.items()} == {
        f"some/2026/03/09/k={k}": len([v for v in range(0, EVENTS, 40) if v % 3 == k]) for k in range(3)
    }
    numbers = [json.loads(line)["v"] for lines in some.values() for line in lines]
    assert sorted(numbers) == list(range(0, EVENTS, 40))
    counts = [json.loads(line) for folder, lines in found.items() if folder[0] == "h" for line in lines]
    assert sum(each["n"] for each in counts) == EVENTS
    for folder, lines in found.items():
        if folder.startswith("hourly/"):
            assert {json.loads(line)["at"][:13] for line in lines} == {f"2026-03-09T{folder[-2:]}"}
    assert len(hourly) == len({name.rpartition("/")[0] for name in hourly}), "one file for each hour"
    for each in (project / "run").rglob("*"):
        assert not each.is_file() or ACCOUNT_KEY.encode() not in each.read_bytes(), each
