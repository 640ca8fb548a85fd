"""Outputs to Blob Storage and Data Lake Storage, as the tools and the interface write them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideglass.connect.azure.storage_account import StorageAccount
from tideglass.connect.files.folder_pattern import FolderPattern
from tideglass.connect.files.output import FileOutput
from tideglass.connect.files.partitioned_output import PartitionedFileOutput, Waiting
from tideglass.core.errors import ProjectError
from tideglass.core.time import TICKS_PER_MINUTE, TICKS_PER_SECOND
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.project.project import load_project
from tideglass.storage import storage_path

BLOCK: dict[str, Any] = {
    "StorageAccounts": [{"AccountName": "toll", "AccountKey": None}],
    "Container": "results",
    "PathPattern": "hot/{date}/{time}/x",
    "DateFormat": "yyyy-MM-dd",
    "TimeFormat": "HH",
}
#: As the tools write it, with a block for every other type.
FILE: dict[str, Any] = {
    "EventHubProperties": None,
    "BlobStorageProperties": BLOCK,
    "PowellBIProperties": None,
    "DataSourceCredentialDomain": "00000000-0000-0000-0000-000000000000.StreamAnalyticsTest",
    "Name": "hot",
    "DataSourceType": "Blob Storage",
    "Serialization": {"Encoding": "UTF8", "Type": "Json", "FieldDelimiter": None, "Format": "LineSeparated"},
    "MinimumRows": None,
    "MaximumTime": None,
    "ScriptType": "Output",
}
ROOT = storage_path("abfss://results@toll.dfs.core.windows.net/hot")
PATTERN = FolderPattern("{date}/{time}/x", "yyyy-MM-dd", "HH")
MINUTE = TICKS_PER_MINUTE


def project(folder: Path, content: dict[str, Any], query: str = "SELECT n INTO hot FROM i") -> Path:
    (folder / "Outputs").mkdir(parents=True)
    (folder / "Outputs" / "hot.json").write_text(json.dumps(content))
    (folder / "job.asaql").write_text(query)
    (folder / "i.json").write_text('{"n": 1}\n')
    return folder


def read(folder: Path, **changes: Any) -> PartitionedFileOutput:
    """The output of the file with changes; those of its block are in `block`."""
    block = BLOCK | changes.pop("block", {})
    found = load_project(project(folder, FILE | {"BlobStorageProperties": block} | changes))
    connector = found.outputs["hot"].connector
    assert isinstance(connector, PartitionedFileOutput), found.unsupported
    return connector


def test_a_file_of_the_tools_is_read_as_it_is(tmp_path: Path):
    found = read(tmp_path)
    assert found == PartitionedFileOutput("hot", ROOT, PATTERN, account=StorageAccount("toll"))
    assert found.describe() == f"{ROOT}/{{date}}/{{time}}/x"
    assert found.guarantee == "exactly once"
    assert load_project(tmp_path).unsupported == ()


def test_a_document_of_the_interface_is_the_same(tmp_path: Path):
    lower = {key[0].lower() + key[1:]: value for key, value in BLOCK.items()}
    properties: dict[str, Any] = {
        "datasource": {"type": "Microsoft.Storage/Blob", "properties": lower | {"blobWriteMode": "Once"}},
        "serialization": {"type": "Parquet", "properties": {}},
        "timeWindow": "00:02:00",
        "sizeWindow": 500,
    }
    found = load_project(project(tmp_path / "a", {"name": "hot", "properties": properties})).outputs["hot"]
    waiting = Waiting(once=True)
    assert found.connector == PartitionedFileOutput(
        "hot", ROOT, PATTERN, "parquet", waiting=waiting, account=StorageAccount("toll")
    )
    del properties["datasource"]["properties"]["blobWriteMode"]
    found = load_project(project(tmp_path / "b", {"name": "hot", "properties": properties})).outputs["hot"]
    assert isinstance(found.connector, PartitionedFileOutput)
    assert found.connector.waiting == Waiting(500, 2 * MINUTE)


@pytest.mark.parametrize(
    "type_", ["Blob Storage", "blob storage/ADLS Gen2", "Data Lake Storage Gen2", "ADLS Gen2"]
)
def test_a_data_lake_is_an_account_too(tmp_path: Path, type_: str):
    assert read(tmp_path, DataSourceType=type_).path == ROOT


def test_a_type_may_have_a_block_of_its_own_name(tmp_path: Path):
    content = FILE | {"BlobStorageProperties": None, "DataSourceType": "Data Lake Storage Gen2"}
    found = load_project(project(tmp_path, content | {"DataLakeStorageGen2Properties": BLOCK}))
    assert found.outputs["hot"].connector is not None


def test_a_prefix_stands_before_the_pattern_and_no_pattern_is_one_folder(tmp_path: Path):
    assert read(tmp_path / "a", block={"BlobPathPrefix": "all"}).path == ROOT.parent / "all" / "hot"
    one = read(tmp_path / "b", block={"PathPattern": ""})
    assert (one.path, one.pattern.text) == (ROOT.parent, "")


@pytest.mark.parametrize(
    ("serialization", "format_", "delimiter", "array"),
    [
        ({"Type": "Json", "Format": "Array"}, "json", ",", True),
        ({"Type": "Json", "Format": "Line separated", "Encoding": "UTF-8"}, "json", ",", False),
        ({"Type": "Csv", "FieldDelimiter": "semicolon", "Encoding": "UTF8"}, "csv", ";", False),
        ({"Type": "Avro"}, "avro", ",", False),
    ],
)
def test_the_serialization_is_that_of_the_file(
    tmp_path: Path, serialization: dict[str, Any], format_: str, delimiter: str, array: bool
):
    found = read(tmp_path, Serialization=serialization)
    assert (found.format, found.delimiter, found.array) == (format_, delimiter, array)
    assert found.waiting is None


@pytest.mark.parametrize(
    ("changes", "waiting"),
    [
        ({"Serialization": {"Type": "Parquet"}}, Waiting(2000, MINUTE)),
        ({"Serialization": {"Type": "Parquet"}, "MinimumRows": "10"}, Waiting(10, MINUTE)),
        (
            {"Serialization": {"Type": "Parquet"}, "block": {"PathPattern": "{datetime:ss}"}},
            Waiting(2000, TICKS_PER_SECOND),
        ),
        ({"MinimumRows": 100, "MaximumTime": "00:00:30"}, Waiting(100, MINUTE // 2)),
        ({"MaximumTime": "0.01:00:00"}, Waiting(2000, 60 * MINUTE)),
        ({"block": {"BlobWriteMode": "Once after all results of the time partition"}}, Waiting(once=True)),
        ({"block": {"BlobWriteMode": "Append"}}, None),
    ],
)
def test_rows_wait_as_the_file_says(tmp_path: Path, changes: dict[str, Any], waiting: Waiting | None):
    assert read(tmp_path, **changes).waiting == waiting


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"block": {"Container": "{customer}"}}, "a container that depends on a column is not yet supported"),
        ({"block": {"Container": "../x"}}, "which is no name of a container"),
        ({"block": {"PathPattern": "{a}/{b}"}}, "names 2 columns"),
        ({"block": {"PathPattern": "{datetime:yyyy-MM}"}}, "a token {datetime:…} holds one of"),
        ({"block": {"DateFormat": "mm/dd"}}, "the date format 'mm/dd' holds 'mm'"),
        ({"block": {"BlobWriteMode": "Twice"}}, "\"BlobWriteMode\" is 'Twice'"),
        ({"block": {"BlobWriteMode": "Once", "PathPattern": "{date}"}}, "must hold {date} and {time}"),
        ({"block": {"BlobWriteMode": "Once", "PathPattern": "{date}/{time}/{n}"}}, "may hold no column"),
        ({"Serialization": {"Type": "Json", "Encoding": "UTF16"}}, "files are written in UTF-8"),
        ({"Serialization": {"Type": "Json", "Format": "Lines"}}, 'must be "LineSeparated" or "Array"'),
        ({"MinimumRows": 0}, "a whole number from 1 to 10000"),
        ({"MaximumTime": "03:00:00"}, "a time up to two hours"),
        ({"MaximumTime": "soon"}, "a time up to two hours"),
        ({"MaximumTime": "01:30:00"}, "waits for rows longer than a time partition"),
        ({"block": {"StorageAccounts": [{"AccountKey": "k"}]}}, '"AccountName" is missing'),
    ],
)
def test_what_cannot_be_written_is_reported_with_the_file(tmp_path: Path, changes: dict[str, Any], says: str):
    with pytest.raises(ProjectError) as error:
        read(tmp_path, **changes)
    assert str(error.value).startswith("Outputs/hot.json: ")
    assert says in str(error.value)


@pytest.mark.parametrize("missing", [{"StorageAccounts": []}, {"Container": ""}])
def test_a_file_that_names_no_container_serves_runs_that_are_not_live(
    tmp_path: Path, missing: dict[str, Any]
):
    content = FILE | {"BlobStorageProperties": BLOCK | missing, "Serialization": {"Type": "Csv"}}
    found = load_project(project(tmp_path, content))
    assert found.outputs["hot"].connector is None
    assert "needs a storage account and a container" in found.unsupported[0]
    local = RunOptions(inputs={"i": tmp_path / "i.json"})
    output = plan_job(found, local).outputs["hot"]
    assert isinstance(output, FileOutput)
    assert output.format == "csv"
    with pytest.raises(ProjectError, match=r"cannot be written by a run with --live: .*needs"):
        plan_job(found, replace(local, live=True))


def test_rows_go_to_the_account_only_where_a_run_is_live_and_nothing_stands_in(tmp_path: Path):
    found = load_project(project(tmp_path, FILE))
    local = RunOptions(inputs={"i": tmp_path / "i.json"})
    assert isinstance(plan_job(found, local).outputs["hot"], FileOutput)
    assert plan_job(found, replace(local, live=True)).outputs["hot"].own_folder() == ROOT
    other = replace(local, live=True, outputs={"hot": str(tmp_path / "rows")})
    assert isinstance(plan_job(found, other).outputs["hot"], FileOutput)


def test_a_partition_cannot_be_given_once_where_substreams_have_times_of_their_own(tmp_path: Path):
    once = FILE | {"BlobStorageProperties": BLOCK | {"BlobWriteMode": "Once"}}
    query = "SELECT n INTO hot FROM i TIMESTAMP BY t OVER k"
    found = load_project(project(tmp_path, once, query))
    options = RunOptions(inputs={"i": tmp_path / "i.json"}, live=True)
    with pytest.raises(ProjectError, match="each substream its own"):
        plan_job(found, options)
    plan_job(found, replace(options, live=False))
