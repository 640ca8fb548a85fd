"""A container of Cosmos DB as an output: ids, documents that are there, crashes and refusals."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from azure.cosmos import ContainerProxy, CosmosClient, PartitionKey
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cosmos import cosmos_server, refusing_cosmos
from support.tables import typed_table
from tideglass.connect.azure.endpoints import ENDPOINTS
from tideglass.connect.cosmos.output import CosmosOutput
from tideglass.connect.output import Batch
from tideglass.connect.refused_rows import RefusalKind, RowsRefused
from tideglass.core.errors import OutputError, OutputUnavailable
from tideglass.core.types import Type

pytestmark = pytest.mark.long
HOST = "account.documents.azure.com"


def stand_in(patch: pytest.MonkeyPatch, url: str, host: str = HOST) -> None:
    patch.setenv(ENDPOINTS, json.dumps({host: url}))


@pytest.fixture(scope="module")
def database() -> Generator[Any]:
    with cosmos_server() as url, pytest.MonkeyPatch.context() as patch:
        stand_in(patch, url)
        client = CosmosClient(url, "key=", enable_endpoint_discovery=False)
        yield client.create_database("db")


@pytest.fixture
def container(database) -> Any:
    number = len(list(database.list_containers()))
    return database.create_container(f"c{number}", PartitionKey("/k"))


def an_output(container: Any, document_id: str | None = None, level: str = "1.2") -> CosmosOutput:
    return CosmosOutput("out", "account", "db", container.id, "key=", document_id).at_level(level)


def table_of(*rows: dict[str, Any]) -> pa.Table:
    """A row for each object, a second apart."""
    return typed_table(payload=([json.dumps(row) for row in rows], Type.RECORD)).append_column(
        "$ts", pa.array(range(len(rows)), pa.int64())
    )


def publish(output: CosmosOutput, batch: int, *rows: dict[str, Any], generation: int = 1) -> None:
    output.publish(Batch(generation, batch, "job"), [output.stage(table_of(*rows), "0")])


def documents(container: Any) -> list[dict[str, Any]]:
    found = [
        {name: each[name] for name in each if not name.startswith("_")} for each in container.read_all_items()
    ]
    return sorted(found, key=lambda each: json.dumps(each, sort_keys=True))


def without_ids(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: each[name] for name in each if name != "id"} for each in found]


def refused(output: CosmosOutput, *rows: dict[str, Any]) -> list[tuple[int, RefusalKind]]:
    with pytest.raises(RowsRefused) as caught:
        publish(output, 9, *rows)
    return [(each.row, each.kind) for each in caught.value.rows]


def test_rows_without_an_id_have_one_of_their_own_and_are_there_once(container):
    output = an_output(container)
    output.prepare()
    rows = [{"k": "a", "v": 1}, {"k": "a", "v": 1}, {"v": 2.5}, {"k": None, "r": {"x": [1]}}]
    publish(output, 0, *rows)
    publish(output, 0, *reversed(rows))
    found = documents(container)
    assert len({each["id"] for each in found}) == 4
    assert sorted(map(repr, without_ids(found))) == sorted(map(repr, rows))


def test_the_column_of_the_document_id_replaces_documents(container):
    output = an_output(container, "Device")
    publish(output, 0, {"device": 5, "k": "a", "v": 1}, {"device": "x", "k": "a", "v": 1, "old": True})
    publish(output, 1, {"device": "x", "k": "a", "v": 2}, {"device": "x", "k": "a", "v": 3})
    wanted = [{"device": "x", "k": "a", "v": 3, "id": "x"}, {"device": 5, "k": "a", "v": 1, "id": "5"}]
    assert documents(container) == wanted


@pytest.mark.parametrize("level", ["1.0", "1.1"])
def test_below_level_1_2_documents_are_merged_and_arrays_replaced(container, level):
    output = an_output(container, "d", level)
    publish(output, 0, {"d": "x", "k": "a", "v": 1, "l": [1, 2], "old": True})
    publish(output, 1, {"d": "x", "k": "a", "v": 2, "l": [3]}, {"d": "x", "k": "a", "more": 1})
    assert documents(container) == [{"d": "x", "k": "a", "v": 2, "l": [3], "old": True, "more": 1, "id": "x"}]


def test_a_second_document_with_an_id_of_its_own_is_a_duplicate_unless_it_is_the_same(container):
    output = an_output(container)
    publish(output, 0, {"id": "x", "k": "a", "v": 1})
    publish(output, 0, {"id": "x", "k": "a", "v": 1})
    assert refused(output, {"id": "y", "k": "a"}, {"id": "x", "k": "a", "v": 2}) == [
        (1, RefusalKind.DUPLICATE_KEY)
    ]
    assert [each["id"] for each in documents(container)] == ["x", "y"]


def test_rows_that_no_document_can_be_made_of_are_refused_before_any_is_written(container):
    output = an_output(container, "d")
    missing, wrong = RefusalKind.REQUIRED_COLUMN_MISSING, RefusalKind.TYPE_CONVERSION_ERROR
    rows = [{"d": "ok"}, {"v": 1}, {"d": None}, {"d": {"x": 1}}, {"d": "a/b"}, {"d": ""}, {"d": "x" * 1024}]
    rows.append({"d": "big", "text": "é" * (1 << 20)})
    assert refused(output, *rows) == [
        *((1, missing), (2, missing), (3, wrong), (4, wrong), (5, wrong), (6, wrong)),
        (7, RefusalKind.RECORD_EXCEEDED_SIZE_LIMIT),
    ]
    assert documents(container) == []


def test_a_start_needs_the_container_and_a_partition_key_at_the_top(database, container):
    with pytest.raises(OutputError, match="make the database and the container first"):
        CosmosOutput("out", "account", "db", "nowhere", "key=").prepare()
    nested = database.create_container("nested", PartitionKey("/a/b"))
    with pytest.raises(OutputError, match=r"/a/b; it must be one property at the top"):
        an_output(nested).prepare()
    assert "key=" not in repr(an_output(container))


class Killed(Exception):
    """The run dies here."""


ROWS = st.lists(
    st.fixed_dictionaries(
        {"k": st.sampled_from(["a", "b"]), "d": st.sampled_from("xyz"), "v": st.integers(0, 3)}
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=15)
@given(
    batches=st.lists(st.tuples(ROWS, st.lists(st.integers(0, 4), max_size=2)), max_size=4),
    document_id=st.sampled_from([None, "d"]),
    level=st.sampled_from(["1.1", "1.2"]),
)
def test_documents_are_those_of_an_undisturbed_run_wherever_a_publication_dies(
    database, batches, document_id, level
):
    number = len(list(database.list_containers()))
    plain, killed = (database.create_container(f"p{number + each}", PartitionKey("/k")) for each in (0, 1))
    for at, (rows, deaths) in enumerate(batches):
        publish(an_output(plain, document_id, level), at, *rows)
        for after in deaths:
            with pytest.MonkeyPatch.context() as patch:
                dying_after(patch, after)
                try:
                    publish(an_output(killed, document_id, level), at, *rows)
                except Killed:
                    continue
        publish(an_output(killed, document_id, level), at, *rows)
    assert documents(killed) == documents(plain)


def dying_after(patch: pytest.MonkeyPatch, writes: int) -> None:
    """Let that many documents be written, and die then."""
    left = [writes]
    for name in ("upsert_item", "create_item", "replace_item"):
        original = getattr(ContainerProxy, name)

        def dying(*arguments: Any, original: Any = original, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return original(*arguments, **options)

        patch.setattr(ContainerProxy, name, dying)


# ---------------------------------------------------------------- a service that refuses


def to_refusing(patch: pytest.MonkeyPatch, url: str, status: int) -> CosmosOutput:
    host = f"refuses{status}.documents.azure.com"
    stand_in(patch, url, host)
    return CosmosOutput("out", host, "db", "c", "key=", "d")


@pytest.mark.parametrize(("status", "kind"), [(413, "RecordExceededSizeLimit"), (400, "TypeConversionError")])
def test_a_document_the_service_refuses_is_a_refused_row(monkeypatch, status, kind):
    with refusing_cosmos(status) as url:
        output = to_refusing(monkeypatch, url, status)
        assert refused(output, {"d": "x"}, {"d": "y"}) == [(0, RefusalKind(kind)), (1, RefusalKind(kind))]


def test_a_service_that_is_busy_or_away_is_unavailable(monkeypatch):
    with refusing_cosmos(429, x_ms_retry_after_ms="50") as url:
        output = to_refusing(monkeypatch, url, 429)
        with pytest.raises(OutputUnavailable) as caught:
            publish(output, 0, {"d": "x"})
        assert caught.value.retry_after_seconds == 0.05
    stand_in(monkeypatch, "http://127.0.0.1:9", "away.documents.azure.com")
    with pytest.raises(OutputUnavailable):
        CosmosOutput("out", "away", "db", "c", "key=").prepare()


def test_a_key_the_service_refuses_ends_the_run(monkeypatch):
    with refusing_cosmos(401) as url:
        output = to_refusing(monkeypatch, url, 401)
        with pytest.raises(OutputError, match="look at the account's key") as caught:
            publish(output, 0, {"d": "x"})
    assert not isinstance(caught.value, OutputUnavailable)
    assert "key=" not in str(caught.value)
