"""Rows for Data Explorer: which columns take them, and what it says of errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.http_outputs import CLUSTER, endpoints, for_rows, schema_answer, with_rows
from support.http_service import HttpService, Received, Says, an_http_service
from tideglass.connect.azure import entra
from tideglass.connect.http.data_explorer import DataExplorerOutput, columns_in
from tideglass.connect.output import Batch
from tideglass.connect.refused_rows import RefusalKind, RowsRefused
from tideglass.core.errors import OutputError, OutputUnavailable
from tideglass.core.json_rows import table_of

BATCH = Batch(1, 0, "job")
COLUMNS = {
    "i": "int",
    "l": "long",
    "f": "real",
    "s": "string",
    "t": "datetime",
    "b": "bool",
    "d": "dynamic",
    "unused": "decimal",
}


@pytest.fixture(scope="module")
def running() -> Iterator[HttpService]:
    with an_http_service() as service:
        yield service


@pytest.fixture
def service(running: HttpService, monkeypatch: pytest.MonkeyPatch) -> HttpService:
    running.forget()
    monkeypatch.setenv("TIDEGLASS_ENDPOINTS", endpoints(running))
    for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"):
        monkeypatch.setenv(name, name.lower())
    monkeypatch.setattr(entra, "_kept", {})
    with_columns(running, lambda request: Says())
    return running


def with_columns(service: HttpService, says: Any, columns: dict[str, str] = COLUMNS) -> None:
    answer = for_rows(says)
    service.says = lambda request: (
        schema_answer(columns) if request.path.endswith("/mgmt") else answer(request)
    )


def a_table(**more: Any) -> DataExplorerOutput:
    return DataExplorerOutput("out", CLUSTER, "my db", "hot's", **more)


def publish(*rows: dict[str, Any]) -> None:
    a_table().publish(BATCH, [table_of([row]) for row in rows])


def refusal(*rows: dict[str, Any]) -> list[tuple[int, RefusalKind]]:
    with pytest.raises(RowsRefused) as raised:
        publish(*rows)
    return [(row.part, row.kind) for row in raised.value.rows]


def test_rows_are_lines_of_json_and_columns_nobody_writes_are_left_alone(service: HttpService) -> None:
    rows = [
        {"i": 1, "l": 2**40, "f": 1.5, "s": "é\n", "t": "2026-01-01T00:00:00Z", "b": True, "d": [1]},
        {"i": None, "d": {"x": 1}},
    ]
    with_columns(service, lambda request: Says(), COLUMNS | {"t": "string"})
    publish(*rows)
    (request,) = with_rows(service.requests)
    assert [json.loads(line) for line in request.body.splitlines()] == [*rows]
    assert request.path == "/v1/rest/ingest/my%20db/hot%27s?streamFormat=json"


def test_a_table_is_looked_at_before_the_first_batch_and_its_name_is_quoted(service: HttpService) -> None:
    output = a_table()
    output.prepare()
    output.publish(BATCH, [table_of([{"i": 1}])])
    (look,) = [each for each in service.requests if each.path.endswith("/mgmt")]
    assert look.json == {"db": "my db", "csl": ".show table ['hot\\'s'] schema as json"}


def test_a_row_the_table_has_no_place_for_is_refused_before_anything_is_sent(service: HttpService) -> None:
    assert refusal({"i": 1}, {"I": 1}, {"nothing": 2}) == [
        (1, RefusalKind.COLUMN_NAME_INVALID),
        (2, RefusalKind.COLUMN_NAME_INVALID),
    ]
    assert not with_rows(service.requests)


@pytest.mark.parametrize(
    "row",
    [
        {"i": 2**31},
        {"i": 1.0},
        {"f": 1},
        {"l": "1"},
        {"s": 1},
        {"b": 1},
        {"t": "2026-01-01T00:00:00Z"},
        {"i": {"x": 1}},
        {"unused": 1.0},
    ],
    ids=str,
)
def test_a_value_of_another_type_than_the_columns_is_refused(service: HttpService, row: Any) -> None:
    assert refusal(row) == [(0, RefusalKind.TYPE_CONVERSION_ERROR)]


@pytest.mark.parametrize(("permanent", "error"), [(True, OutputError), (False, OutputUnavailable)])
def test_an_error_is_asked_again_if_data_explorer_says_it_may_pass(
    service: HttpService, permanent: bool, error: type[OutputError]
) -> None:
    body = json.dumps({"error": {"code": "BadRequest", "@permanent": permanent}}).encode()
    with_columns(service, lambda request: Says(400, body))
    with pytest.raises(OutputError) as raised:
        publish({"i": 1})
    assert type(raised.value) is error


def test_a_table_without_the_column_for_ids_ends_the_start(service: HttpService) -> None:
    with pytest.raises(OutputError, match="no column 'row' of the type string"):
        a_table(row_id_column="row").prepare()
    with pytest.raises(OutputError, match="no column 'i' of the type string"):
        a_table(row_id_column="i").prepare()


@pytest.mark.parametrize("body", [b"", b"{}", b'{"Tables": []}', b"[1]", b"\xff"])
def test_an_answer_that_is_no_schema_is_an_error(body: bytes) -> None:
    with pytest.raises(OutputError, match="is no schema"):
        columns_in(body, "the table")


def test_a_refused_sign_in_ends_the_start_and_an_unreachable_one_is_tried_again(service: HttpService) -> None:
    def says(status: int) -> Any:
        def answer(request: Received) -> Says:
            return Says(status, b"no") if "/oauth2/" in request.path else Says()

        return answer

    service.says = says(401)
    with pytest.raises(Exception, match="Entra ID refuses") as raised:
        a_table().prepare()
    assert "azure_client_secret" not in str(raised.value)
    service.says = says(503)
    with pytest.raises(OutputUnavailable, match="Entra ID cannot be reached"):
        a_table().prepare()
