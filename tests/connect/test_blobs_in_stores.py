"""Live inputs of blobs in Azurite and in moto's S3: the events of files on a disk, in their order."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.stores import ACCOUNT, ACCOUNT_KEY, azurite, s3_server
from tideglass.connect.files.folder_watch import watch_of
from tideglass.connect.files.input import FileInput
from tideglass.core.events import Fields
from tideglass.core.positions import Positions
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.project.project import load_project
from tideglass.storage import StorageOptions, StoragePath, storage_path

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]

N = Fields((("n",),))
HOST = f"{ACCOUNT}.blob.core.windows.net"


@dataclass(frozen=True)
class Blobs:
    """A running store. container: its name for a project. root: where it is."""

    container: str
    root: StoragePath


@pytest.fixture(scope="module", params=["azurite", "s3"])
def blobs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blobs]:
    with pytest.MonkeyPatch.context() as environment:
        if request.param == "azurite":
            with azurite(tmp_path_factory.mktemp("azurite")) as store:
                endpoint = store.environment["AZURE_STORAGE_ENDPOINT"]
                environment.setenv("TIDEGLASS_ENDPOINTS", json.dumps({HOST: endpoint}))
                environment.setenv("Inputs_logs_DataSource_AccountKey", ACCOUNT_KEY)
                container = store.root.partition("://")[2].partition("@")[0]
                yield Blobs(container, storage_path(store.root.replace("abfs:", "abfss:")))
        else:
            with s3_server() as store:
                for name, value in store.environment.items():
                    environment.setenv(name, value)
                environment.setenv("TIDEGLASS_ENDPOINTS", json.dumps({HOST: store.root}))
                yield Blobs("events", storage_path(store.root) / "events")


def source_of(folder: Path, blobs: Blobs, pattern: str, *, once: bool = True) -> FileInput:
    """What a live run of a project reads, its file as ASA's tools write it."""
    content = {
        "Name": "logs",
        "Type": "Data Stream",
        "DataSourceType": "Blob Storage",
        "BlobStorageProperties": {
            "StorageAccounts": [{"AccountName": ACCOUNT, "AccountKey": None}],
            "Container": blobs.container,
            "PathPattern": pattern,
            "DateFormat": "yyyy/MM/dd",
            "TimeFormat": "HH",
            "SourcePartitionCount": 2,
        },
        "Serialization": {"Type": "Json", "Encoding": "UTF8"},
        "CompresssionType": "None",
        "ScriptType": "Input",
    }
    (folder / "Inputs").mkdir(parents=True, exist_ok=True)
    (folder / "Inputs" / "logs.json").write_text(json.dumps(content))
    (folder / "job.asaql").write_text("SELECT * INTO o FROM logs")
    project = load_project(folder)
    live = project.inputs["logs"].live
    assert live is not None
    source = plan_job(project, RunOptions(live=True, once=once)).inputs["logs"]
    assert isinstance(source, FileInput)
    return source


@pytest.fixture(autouse=True)
def let_in(blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the start of a run does."""
    source_of(tmp_path / "first", blobs, "x")
    live = load_project(tmp_path / "first").inputs["logs"].live
    assert live is not None
    environment: dict[str, str] = {}
    StorageOptions(tuple(sorted(live.storage_settings().items()))).put_into(environment)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def body(*numbers: int) -> bytes:
    return "".join(json.dumps({"n": n}) + "\n" for n in numbers).encode()


def numbers(source: FileInput, start: Positions, end: Positions) -> dict[str, list[int]]:
    return {
        name: [
            value
            for chunk in source.read(name, start.get(name, []), pieces, N)
            for value in chunk.table["$payload.n"].to_pylist()
        ]
        for name, pieces in end.items()
    }


def test_folders_are_read_by_their_times_and_partitions_by_their_numbers(blobs: Blobs, tmp_path: Path):
    n = 0
    for hour in ("10", "09", "11"):
        for partition in "01":
            (blobs.root / f"a/{partition}/2026/03/01/{hour}/x.json").write(body(n, n + 1))
            (blobs.root / f"a/{partition}/2026/03/01/{hour}/y.json.gz").write(gzip.compress(body(n + 2)))
            n += 3
    source = source_of(tmp_path, blobs, "a/{partition}/{date}/{time}")
    whole = source.latest({})
    read = numbers(source, {}, whole)
    assert {name: sorted(each) for name, each in read.items()} == {
        "0": [0, 1, 2, 6, 7, 8, 12, 13, 14],
        "1": [3, 4, 5, 9, 10, 11, 15, 16, 17],
    }
    hours = {name: [piece.where.split("/")[5] for piece in pieces] for name, pieces in whole.items()}
    assert hours == {"0": ["09", "09", "10", "10", "11", "11"], "1": ["09", "09", "10", "10", "11", "11"]}
    position: Positions = {}
    cut: dict[str, list[int]] = {"0": [], "1": []}
    while (later := source.latest(position, 1)) != position:
        for name, each in numbers(source, position, later).items():
            cut[name] += each
        position = later
    assert cut == read


def test_what_appears_late_and_what_grows_is_read_once_and_arrives_when_it_was_written(
    blobs: Blobs, tmp_path: Path
):
    (blobs.root / "b/2026/03/01/08/x.json").write(body(1))
    source = source_of(tmp_path, blobs, "b/{date}/{time}", once=False)
    first = source.latest({})
    assert numbers(source, {}, first) == {"0": [1]}
    (blobs.root / "b/2026/02/01/08/late.json").write(body(2))
    (blobs.root / "b/2026/03/01/08/x.json").write(body(1, 3))  # as an append blob that has grown
    watch_of.cache_clear()  # as another process looks
    later = source.latest(first)
    assert sorted(numbers(source, first, later)["0"]) == [2, 3]
    assert source.latest(later) == later
    status = (blobs.root / "b/2026/02/01/08/late.json").status()
    assert status is not None
    arrivals = {piece.where: piece.arrival_ticks for piece in later["0"]}
    assert arrivals["b/2026/02/01/08/late.json"] >= status.modified_ns // 100


def test_a_container_that_is_not_there_is_named(blobs: Blobs, tmp_path: Path):
    missing = Blobs("nothing-here", blobs.root)
    source = source_of(tmp_path, missing, "a/{date}")
    with pytest.raises(Exception, match="nothing-here"):
        source.latest({})
