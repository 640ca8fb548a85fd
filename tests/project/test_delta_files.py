"""Delta tables in the output files of projects: of the service, and of our own type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tideglass.connect.azure.storage_account import StorageAccount
from tideglass.connect.delta.output import DeltaOutput
from tideglass.project.connectors import Described
from tideglass.project.delta import delta_output
from tideglass.project.file_reader import Problems
from tideglass.project.project import load_project
from tideglass.project.rest_spelling import tool_output
from tideglass.storage import storage_path

CONTAINER = storage_path("abfss://lake@account.dfs.core.windows.net")


def described(folder: Path, **content: Any) -> Described:
    return Described("hot", "Blob Storage", tool_output(content), ",", folder / "hot.json", Problems(folder))


@pytest.mark.parametrize(
    "content",
    [
        {"Serialization": {"Type": "Delta", "DeltaTablePath": "a b/hot", "PartitionColumns": ["device"]}},
        {
            "properties": {
                "serialization": {
                    "type": "Delta",
                    "properties": {"deltaTablePath": "/a b/hot/", "partitionColumns": ["device"]},
                }
            }
        },
    ],
)
def test_the_service_names_a_table_in_the_serialization_of_an_output(tmp_path, content):
    account = StorageAccount("account", "secret")
    found = delta_output(described(tmp_path, **content), CONTAINER, account)
    assert found == DeltaOutput("hot", CONTAINER / "a b/hot", "device", account)
    assert "secret" not in repr(found)
    assert found.identity(storage_path(tmp_path)) == {
        "delta": "abfss://lake@account.dfs.core.windows.net/a b/hot",
        "partition_column": "device",
        "path": None,
    }


@pytest.mark.parametrize(
    ("own", "problem"),
    [
        ({}, "DeltaTablePath"),
        ({"DeltaTablePath": "a/../../b"}, "none by dots"),
        ({"DeltaTablePath": "/".join(["a"] * 255)}, "at most 254"),
        ({"DeltaTablePath": "a", "PartitionColumns": ["x", "y"]}, "must name one column"),
    ],
)
def test_what_no_table_is_named_by_is_a_problem(tmp_path, own, problem):
    file = described(tmp_path, Serialization={"Type": "Delta", **own})
    delta_output(file, CONTAINER)
    assert problem in str(file.problems.errors)


def test_rows_that_the_service_would_wait_for_are_noted(tmp_path):
    file = described(
        tmp_path,
        Serialization={"Type": "Delta", "DeltaTablePath": "a"},
        SizeWindow=2000,
        TimeWindow="00:01:00",
    )
    assert delta_output(file, CONTAINER) == DeltaOutput("hot", CONTAINER / "a")
    assert "SizeWindow and TimeWindow of a Delta table: not yet supported" in str(file.problems.notices)


def a_project(folder: Path, **own: Any) -> Path:
    (folder / "Outputs").mkdir()
    (folder / "job.asaql").write_text("SELECT * INTO hot FROM events")
    output = {
        "Name": "hot",
        "DataSourceType": "Delta Lake",
        "DeltaLakeProperties": own,
        "ScriptType": "Output",
    }
    (folder / "Outputs" / "hot.json").write_text(json.dumps(output))
    return folder


def test_our_own_type_names_a_folder_of_the_project_or_of_a_store(tmp_path):
    for place, wanted in (("../tables/hot", tmp_path / "tables" / "hot"), ("s3a://b/hot", "s3a://b/hot")):
        folder = tmp_path if place.startswith("..") else tmp_path / "other"
        folder.mkdir(exist_ok=True)
        project = load_project(a_project(folder, Path=place, PartitionColumns="device"))
        assert project.outputs["hot"].connector == DeltaOutput("hot", storage_path(wanted), "device")


def test_a_table_outside_of_the_project_is_refused(tmp_path):
    with pytest.raises(Exception, match="outside"):
        load_project(a_project(tmp_path, Path="../../elsewhere"))
