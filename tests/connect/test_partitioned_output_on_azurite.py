"""An output of a project against Azurite, entered as a run enters an account: rows, odd names, errors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.partitioned_files import START, numbers_in, rows_at
from support.stores import ACCOUNT, ACCOUNT_KEY, azurite
from tideglass.connect.azure.endpoints import ENDPOINTS
from tideglass.connect.files.partitioned_output import PartitionedFileOutput
from tideglass.connect.output import Batch
from tideglass.core.errors import OutputError
from tideglass.core.json_rows import table_of
from tideglass.core.time import TICKS_PER_HOUR
from tideglass.project.project import load_project
from tideglass.storage import StorageOptions
from tideglass.storage.storage_options import VARIABLE

pytestmark = [pytest.mark.long, pytest.mark.timeout(200)]

KEY = "Outputs_hot_DataSource_AccountKey"


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a container of a running Azurite, which only the endpoints and the key of a run lead to."""
    with azurite(tmp_path_factory.mktemp("azurite")) as store, pytest.MonkeyPatch.context() as patch:
        for name in store.environment:
            patch.delenv(name, raising=False)
        endpoint = store.environment["AZURE_STORAGE_ENDPOINT"]
        patch.setenv(ENDPOINTS, json.dumps({f"{ACCOUNT}.blob.core.windows.net": endpoint}))
        patch.setenv(KEY, ACCOUNT_KEY)
        patch.setenv(VARIABLE, "")
        yield store.root.partition("://")[2].partition("@")[0]


def output(folder: Path, container: str, **block: Any) -> PartitionedFileOutput:
    """The output of a project's file, with what lets it in known to this process."""
    described = {
        "Name": "hot",
        "DataSourceType": "Blob Storage",
        "BlobStorageProperties": {
            "StorageAccounts": [{"AccountName": ACCOUNT, "AccountKey": None}],
            "Container": container,
            "PathPattern": "hot/{date}/{time}",
            **block,
        },
        "Serialization": {"Type": "Json", "Format": "LineSeparated", "Encoding": "UTF8"},
        "ScriptType": "Output",
    }
    (folder / "Outputs").mkdir(parents=True)
    (folder / "Outputs" / "hot.json").write_text(json.dumps(described))
    (folder / "job.asaql").write_text("SELECT n INTO hot FROM i")
    connector = load_project(folder).outputs["hot"].connector
    assert isinstance(connector, PartitionedFileOutput)
    StorageOptions(tuple(sorted(connector.storage_settings().items()))).put_into(os.environ)
    return connector


def test_rows_go_to_the_container_of_the_project(tmp_path: Path, container: str):
    made = output(tmp_path, container)
    made.prepare()
    for _ in range(2):
        staged = [made.stage(rows_at([(START, 1), (START + TICKS_PER_HOUR, 2)]), "i/0")]
        made.publish(Batch(1, 0), staged)
    assert numbers_in(made.path) == {"2026/03/09/00": [1], "2026/03/09/01": [2]}
    assert made.newest_batch("job") == Batch(1, 0)
    made.withdraw(Batch(1, -1))
    assert numbers_in(made.path) == {}


def test_rows_that_wait_are_given_once(tmp_path: Path, container: str):
    made = output(tmp_path, container, PathPattern="once/{date}/{time}", BlobWriteMode="Once")
    for number in range(2):
        made.publish(Batch(1, number), [made.stage(rows_at([(START, number)]), "i/0")])
        made.advance(Batch(1, number), START)
    assert numbers_in(made.path) == {}
    made.advance(Batch(1, 2), START + TICKS_PER_HOUR)
    assert numbers_in(made.path) == {"2026/03/09/00": [0, 1]}


def test_whatever_a_value_holds_its_rows_are_found_again(tmp_path: Path, container: str):
    made = output(tmp_path, container, PathPattern="names/{k}")
    values = ["a b", "é", "100%", "x?y#z", "a+b&c=d", "../..", "日本", "%2F", "'\"", "a/b"]
    table = table_of([{"$ts": START, "n": n, "k": value} for n, value in enumerate(values)])
    made.publish(Batch(1, 0), [made.stage(table, "i/0")])
    found = numbers_in(made.path)
    assert sorted(found.values()) == [[n] for n in range(len(values))]
    assert not any("/" in folder for folder in found)
    made.clear(rows=True)
    assert numbers_in(made.path) == {}


def test_a_container_that_is_not_there_ends_the_start(tmp_path: Path, container: str):
    with pytest.raises(OutputError, match="NO_SUCH_CONTAINER"):
        output(tmp_path, f"{container}-x").prepare()
