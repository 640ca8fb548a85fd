"""ASA's own files of inputs in Blob Storage and Data Lake Storage, unchanged: streams and reference data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tideglass.connect.files.blob_input import BlobInput
from tideglass.connect.files.input import FileInput
from tideglass.core.errors import ProjectError
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.project.input_option import InputOption
from tideglass.project.project import Project, load_project
from tideglass.storage import StoragePath

#: As the tools for VS Code write it, credentials left out as they do for source control.
TOOLS: dict[str, Any] = {
    "Name": "logs",
    "Type": "Data Stream",
    "DataSourceType": "Blob Storage",
    "BlobStorageProperties": {
        "StorageAccounts": [{"AccountName": "tolls", "AccountKey": None}],
        "Container": "events",
        "PathPattern": "logs/{partition}/{date}/{time}",
        "DateFormat": "yyyy/MM/dd",
        "TimeFormat": "HH",
        "SourcePartitionCount": 4,
        "AuthenticationMode": "ConnectionString",
    },
    "DataSourceCredentialDomain": "2f7c.StreamAnalytics",
    "Serialization": {
        "Type": "Csv",
        "SerializationDllPath": None,
        "SerializationProjectPath": None,
        "SerializationClassName": None,
        "FieldDelimiter": "semicolon",
        "Encoding": "UTF8",
    },
    "PartitionKey": None,
    "CompresssionType": "GZip",
    "InputPartionKey": None,
    "ScriptType": "Input",
}
#: The same in the spelling of the service's interface.
INTERFACE: dict[str, Any] = {
    "name": "logs",
    "properties": {
        "type": "Stream",
        "datasource": {
            "type": "Microsoft.Storage/Blob",
            "properties": {
                "storageAccounts": [{"accountName": "tolls", "accountKey": "${KEY}"}],
                "container": "events",
                "pathPattern": "logs/{partition}/{date}/{time}",
                "dateFormat": "yyyy/MM/dd",
                "timeFormat": "HH",
                "sourcePartitionCount": 4,
            },
        },
        "compression": {"type": "GZip"},
        "serialization": {"type": "Csv", "properties": {"fieldDelimiter": ";", "encoding": "UTF8"}},
    },
}


def project_of(folder: Path, *inputs: dict[str, Any], query: str = "SELECT * INTO o FROM logs") -> Project:
    (folder / "Inputs").mkdir(parents=True)
    for number, each in enumerate(inputs):
        (folder / "Inputs" / f"{number}.json").write_text(json.dumps(each))
    (folder / "job.asaql").write_text(query)
    return load_project(folder)


def blob_of(project: Project) -> BlobInput:
    found = project.inputs["logs"].live
    assert isinstance(found, BlobInput)
    return found


def changed(content: dict[str, Any], **block: Any) -> dict[str, Any]:
    return content | {"BlobStorageProperties": content["BlobStorageProperties"] | block}


@pytest.mark.parametrize("content", [TOOLS, INTERFACE], ids=["the tools", "the interface"])
def test_a_file_says_where_the_blobs_are_and_how_they_are_written(content: dict[str, Any], tmp_path: Path):
    project = project_of(tmp_path, content)
    found = blob_of(project)
    assert (found.account.name, found.container) == ("tolls", "events")
    assert found.pattern.text == "logs/{partition}/{date}/{time}"
    assert (found.pattern.date_format, found.pattern.time_format) == ("YYYY/MM/DD", "HH")
    assert found.pattern.partition_count == 4
    assert (found.format, found.delimiter, found.compression) == ("csv", ";", "gzip")
    assert not project.warnings


@pytest.mark.parametrize("name", ["Data Lake Storage Gen2", "BLOB STORAGE", "Blob storage/ADLS Gen2"])
def test_both_kinds_of_storage_are_read_the_same_way(name: str, tmp_path: Path):
    found = blob_of(project_of(tmp_path, TOOLS | {"DataSourceType": name}))
    assert found.account.container(found.container) == StoragePath(
        "abfss://events@tolls.dfs.core.windows.net"
    )


def test_a_live_run_reads_the_container_and_any_other_needs_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = tmp_path / "store"
    monkeypatch.setenv("TIDEGLASS_ENDPOINTS", json.dumps({"tolls.blob.core.windows.net": store.as_uri()}))
    project = project_of(tmp_path / "project", TOOLS)
    with pytest.raises(ProjectError, match="--live to read Blob Storage"):
        plan_job(project, RunOptions(once=True))
    for once in (True, False):
        source = plan_job(project, RunOptions(once=once, live=True)).inputs["logs"]
        assert isinstance(source, FileInput)
        assert source.spec.path.local == store / "events"
        assert source.spec.finished == once


def test_a_path_pattern_of_the_command_line_stands_in_for_the_container(tmp_path: Path):
    for partition in (0, 1):
        folder = tmp_path / "copy" / str(partition) / "2026" / "03" / "01" / "08"
        folder.mkdir(parents=True)
        (folder / "a.csv").write_text("v\n1\n")
    path = tmp_path / "copy" / "{partition}" / "{date}" / "{time}"
    project = project_of(tmp_path / "project", TOOLS)
    options = RunOptions(once=True, inputs={"logs": InputOption(path)})
    source = plan_job(project, options).inputs["logs"]
    assert isinstance(source, FileInput)
    assert source.spec.path == StoragePath(str(tmp_path / "copy"))
    assert source.partitions() == ["0", "1"]
    assert {each.where for each in source.latest({})["1"]} == {"1/2026/03/01/08/a.csv"}
    missing = RunOptions(once=True, inputs={"logs": InputOption(tmp_path / "none" / "{date}")})
    with pytest.raises(ProjectError, match="does not exist"):
        plan_job(project, missing)


def test_neither_the_identity_nor_the_text_of_an_input_holds_its_key(tmp_path: Path):
    content = changed(TOOLS, StorageAccounts=[{"AccountName": "tolls", "AccountKey": "c2VjcmV0"}])
    project = project_of(tmp_path, content)
    found = blob_of(project)
    identity = json.dumps(found.identity(StoragePath(str(tmp_path))))
    assert "c2VjcmV0" not in identity + repr(found) + repr(project.inputs)
    assert any("AccountKey" in note and "c2VjcmV0" not in note for note in project.unsupported)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (changed(TOOLS, PathPattern="a/*.json"), "holds a star"),
        (changed(TOOLS, PathPattern="{day}"), "{day}"),
        (changed(TOOLS, DateFormat="long"), "no format of a date"),
        (changed(TOOLS, SourcePartitionCount=4000), "SourcePartitionCount"),
        (changed(TOOLS, Container=None), "Container"),
        (changed(TOOLS, StorageAccounts=[]), "StorageAccounts"),
        (TOOLS | {"CompresssionType": "Brotli"}, "None, GZip or Deflate"),
        (TOOLS | {"Serialization": {"Type": "Parquet"}}, "compressed in itself"),
        (TOOLS | {"Serialization": {"Type": "Protobuf"}}, "protobuf"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_file(content: dict[str, Any], words: str, tmp_path: Path):
    with pytest.raises(ProjectError) as refused:
        project_of(tmp_path, content)
    assert words in str(refused.value)
    assert "0.json" in str(refused.value)


@pytest.mark.parametrize("kind", ["Reference data", "Reference Data"])
def test_reference_data_in_blobs_is_read_by_a_live_run(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = tmp_path / "store"
    monkeypatch.setenv("TIDEGLASS_ENDPOINTS", json.dumps({"tolls.blob.core.windows.net": store.as_uri()}))
    reference = TOOLS | {
        "Name": "booths",
        "Type": kind,
        "BlobStorageProperties": None,
        "BlobReferenceProperties": {
            "StorageAccounts": [{"AccountName": "tolls", "AccountKey": None}],
            "Container": "events",
            "PathPattern": "booths/{date}/{time}/all.csv",
            "DateFormat": "yyyy-MM-dd",
            "TimeFormat": "HH-mm",
        },
        "CompresssionType": "None",
    }
    query = "SELECT b.name INTO o FROM logs l JOIN booths b ON l.id = b.id"
    project = project_of(tmp_path / "project", TOOLS, reference, query=query)
    spec = plan_job(project, RunOptions(once=True, live=True)).references["booths"]
    assert spec.path == StoragePath(str(store / "events/booths/{date}/{time}/all.csv"))
    assert (spec.date_format, spec.time_format, spec.delimiter) == ("YYYY-MM-DD", "HH-mm", ";")
    events = {"logs": InputOption(Path(__file__).parent)}
    with pytest.raises(
        ProjectError, match=r"(?s)'booths' has no files.*--live to read Blob Storage"
    ) as refused:
        plan_job(project, RunOptions(once=True, inputs=events))
    assert "{date}" in str(refused.value)
