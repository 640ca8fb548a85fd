"""A project as ASA's tools write it runs live from Azurite: a stream and reference data in blobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from support.stores import ACCOUNT, ACCOUNT_KEY, azurite
from tideglass.storage import StoragePath, storage_path

pytestmark = pytest.mark.timeout(300)

QUERY = """
SELECT b.name, COUNT(*) AS cars, System.Timestamp() AS until
INTO perMinute FROM entry TIMESTAMP BY at JOIN booths b ON entry.booth = b.id
GROUP BY b.name, TumblingWindow(minute, 1)

SELECT at, PartitionId AS p, BlobName AS blob INTO each FROM entry TIMESTAMP BY at
"""
CARS, MINUTES, PARTITIONS = 40, 3, 2


def input_file(name: str, type_: str, container: str, **block: Any) -> dict[str, Any]:
    key = "BlobReferenceProperties" if type_ == "Reference data" else "BlobStorageProperties"
    accounts = [{"AccountName": ACCOUNT, "AccountKey": None}]
    return {
        "Name": name,
        "Type": type_,
        "DataSourceType": "Blob Storage",
        key: {"StorageAccounts": accounts, "Container": container, **block},
        "DataSourceCredentialDomain": "0f.StreamAnalytics",
        "ScriptType": "Input",
    }


def project_in(folder: Path, container: str) -> Path:
    stream = input_file(
        "entry",
        "Data Stream",
        container,
        PathPattern="tolls/{partition}/{date}/{time}",
        DateFormat="yyyy-MM-dd",
        TimeFormat="HH",
        SourcePartitionCount=PARTITIONS,
    )
    stream |= {"CompresssionType": "Deflate", "Serialization": {"Type": "Json", "Encoding": "UTF8"}}
    reference = input_file(
        "booths", "Reference data", container, PathPattern="booths/{date}.csv", DateFormat="yyyy-MM-dd"
    )
    reference |= {"Serialization": {"Type": "Csv", "FieldDelimiter": ",", "Encoding": "UTF8"}}
    (folder / "Inputs").mkdir(parents=True)
    for each in (stream, reference):
        (folder / "Inputs" / f"{each['Name']}.json").write_text(json.dumps(each))
    settings = {"EventsLateArrivalMaxDelayInSeconds": -1, "ScriptType": "JobConfig"}
    (folder / "JobConfig.json").write_text(json.dumps(settings))
    (folder / "job.asaql").write_text(QUERY)
    return folder


def write_blobs(root: StoragePath) -> None:
    for partition in range(PARTITIONS):
        for minute in range(MINUTES):
            events = "".join(
                json.dumps({"at": f"2026-03-01T{8 + minute:02d}:00:{car:02d}Z", "booth": str(car % 2)}) + "\n"
                for car in range(1, CARS + 1)
            )
            name = f"tolls/{partition}/2026-03-01/{8 + minute:02d}/cars"
            (root / name).write(zlib.compress(events.encode()))
    (root / "booths/2026-01-01.csv").write(b"id,name\n0,west\n1,east\n")


def rows(project: Path, output: str) -> list[dict[str, Any]]:
    files = sorted((project / "LocalRunOutputs" / output).glob("part-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_a_live_run_reads_a_container_by_the_project_alone(java: None, tmp_path: Path) -> None:
    with azurite(tmp_path / "azurite") as store:
        container = store.root.partition("://")[2].partition("@")[0]
        project = project_in(tmp_path / "project", container)
        with pytest.MonkeyPatch.context() as environment:
            for name, value in store.environment.items():
                environment.setenv(name, value)
            write_blobs(storage_path(store.root))
        endpoint = f"{ACCOUNT}.blob.core.windows.net={store.environment['AZURE_STORAGE_ENDPOINT']}"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tideglass.cli.main", "run", str(project), "--once", "--live"),
                *("--cores", "2", "--endpoint", endpoint),
            ],
            env={**os.environ, "Inputs_entry_DataSource_AccountKey": ACCOUNT_KEY}
            | {"Inputs_booths_DataSource_AccountKey": ACCOUNT_KEY},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    found = sorted((row["name"], row["until"], row["cars"]) for row in rows(project, "perMinute"))
    assert found == sorted(
        (name, f"2026-03-01T{8 + minute:02d}:01:00.0000000Z", CARS // 2 * PARTITIONS)
        for name in ("east", "west")
        for minute in range(MINUTES)
    )
    each = rows(project, "each")
    assert len(each) == CARS * MINUTES * PARTITIONS
    assert {(row["p"], row["blob"]) for row in each} == {
        (partition, f"tolls/{partition}/2026-03-01/{8 + minute:02d}/cars")
        for partition in range(PARTITIONS)
        for minute in range(MINUTES)
    }
    told = done.stdout + done.stderr
    told += "".join(
        file.read_text(errors="replace")
        for file in (project / ".tideglass").rglob("*")
        if file.is_file() and file.stat().st_size < 1 << 20
    )
    assert ACCOUNT_KEY not in told
