"""Delta tables in object stores: the same commits through Azurite and moto's S3, and a store that is away."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator

import pytest
from deltalake import DeltaTable, write_deltalake

from support.stores import StoreOnThisMachine, azurite, s3_server
from support.tables import typed_table
from tideglass.connect.delta.output import DeltaOutput
from tideglass.connect.output import Batch
from tideglass.core.errors import OutputError, OutputUnavailable
from tideglass.core.types import Type
from tideglass.storage import StoragePath, storage_path
from tideglass.storage.table_options import table_options

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=["azure", "s3"])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[StoreOnThisMachine]:
    started = azurite(tmp_path_factory.mktemp("azurite")) if request.param == "azure" else s3_server()
    with started as found, pytest.MonkeyPatch.context() as patch:
        for name, value in found.environment.items():
            patch.setenv(name, value)
        yield found


def publish(output: DeltaOutput, number: int, *values: int) -> None:
    rows = typed_table(
        n=(list(values), Type.BIGINT), kind=([f"k {each % 2}" for each in values], Type.NVARCHAR)
    )
    output.publish(Batch(1, number, "job"), [output.stage(rows, "0")])


def numbers(path: StoragePath) -> list[int]:
    table = DeltaTable(str(path), storage_options=table_options(path))
    return sorted(table.to_pyarrow_table()["n"].to_pylist())


def test_batches_are_there_once(store):
    path = storage_path(f"{store.root}/tables/hot")
    output = DeltaOutput("hot", path, "kind")
    output.prepare()
    publish(output, 0, 1, 2, 3)
    publish(output, 1, 4)
    publish(output, 1, 4)
    output.prepare()
    assert numbers(path) == [1, 2, 3, 4]
    with pytest.raises(OutputError, match="DELTA_BATCH_DIFFERS"):
        publish(output, 1, 5)


def test_another_writer_at_the_same_time_loses_nothing_and_doubles_nothing(store):
    path = storage_path(f"{store.root}/tables/shared")
    output = DeltaOutput("shared", path)
    publish(output, 0, 0)

    def other() -> None:
        for number in range(5):
            rows = typed_table(n=([100 + number], Type.BIGINT)).replace_schema_metadata(None)
            write_deltalake(
                str(path), rows, mode="append", schema_mode="merge", storage_options=table_options(path)
            )

    thread = threading.Thread(target=other)
    thread.start()
    for number in range(1, 6):
        publish(output, number, number)
        publish(output, number, number)
    thread.join()
    assert numbers(path) == [*range(6), *range(100, 105)]


def test_a_container_that_is_not_there_ends_the_start(store):
    where = (
        "missing-container@devstoreaccount1.dfs.core.windows.net" if "@" in store.root else "missing-bucket"
    )
    output = DeltaOutput("hot", storage_path(f"{store.root.partition('://')[0]}://{where}/t"))
    with pytest.raises(OutputError, match="missing-"):
        output.prepare()


def test_a_store_that_does_not_answer_is_unavailable(store, monkeypatch):
    for name in ("AZURE_STORAGE_ENDPOINT", "AWS_ENDPOINT_URL"):
        if name in os.environ:
            monkeypatch.setenv(name, "http://127.0.0.1:9/devstoreaccount1")
    with pytest.raises(OutputUnavailable):
        DeltaOutput("hot", storage_path(f"{store.root}/tables/hot")).prepare()
