"""The outputs that are services behind HTTP, as tests drive them all: made, answered for, and read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from support.http_service import HttpService, Received, Says
from tideglass.connect.http.azure_functions import AzureFunctionOutput
from tideglass.connect.http.data_explorer import DataExplorerOutput
from tideglass.connect.http.sending import RequestLimits
from tideglass.connect.http.service_bus import ServiceBusOutput

APP, BUS, CLUSTER = "toll.azurewebsites.net", "toll.servicebus.windows.net", "toll.kusto.windows.net"
LOGIN = "login.microsoftonline.com"
KEY = "canary-key-0f9c1d7e"

#: Columns of the table of Data Explorer, with the column ids go to.
COLUMNS = {"n": "long", "s": "string", "at": "datetime", "row_id": "string"}


@dataclass(frozen=True)
class Peer:
    """An output and its service.

    make: the output, with at most so many rows a request.
    accepts: what the service says of rows it takes.
    rows: what a reader has, by the id it tells repetitions by, of the requests that were accepted.
    """

    name: str
    make: Callable[[int], Any]
    accepts: Says
    rows: Callable[[Sequence[Received]], dict[str, str]]


def endpoints(service: HttpService) -> str:
    """`TIDEGLASS_ENDPOINTS` that leads all hosts to a service."""
    return json.dumps(dict.fromkeys((APP, BUS, CLUSTER, LOGIN), service.url))


def schema_answer(columns: dict[str, str] = COLUMNS) -> Says:
    """What Data Explorer says of a table with these columns."""
    schema = {"Name": "hot", "OrderedColumns": [{"Name": n, "CslType": t} for n, t in columns.items()]}
    table = {
        "TableName": "Table_0",
        "Columns": [{"ColumnName": "TableName"}, {"ColumnName": "Schema"}],
        "Rows": [["hot", json.dumps(schema)]],
    }
    return Says(200, json.dumps({"Tables": [table]}).encode())


def for_rows(says: Callable[[Received], Says]) -> Callable[[Received], Says]:
    """Answers requests with rows as `says`; sign-ins, looks at tables and tests of a connection work."""

    def answer(request: Received) -> Says:
        if "/oauth2/" in request.path:
            return Says(200, b'{"access_token": "a-token", "expires_in": 3600}')
        if request.path.endswith("/mgmt"):
            return schema_answer()
        return Says() if request.body == b"[]" else says(request)

    return answer


def with_rows(requests: Sequence[Received]) -> list[Received]:
    """Those of the requests that hold rows."""
    return [
        each
        for each in requests
        if "/oauth2/" not in each.path and not each.path.endswith("/mgmt") and each.body != b"[]"
    ]


def _without_id(row: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in row.items() if name != "row_id"}, sort_keys=True)


def _of_function(requests: Sequence[Received]) -> dict[str, str]:
    return {row["row_id"]: _without_id(row) for each in with_rows(requests) for row in each.json}


def _of_bus(requests: Sequence[Received]) -> dict[str, str]:
    return {
        message["BrokerProperties"]["MessageId"]: json.dumps(json.loads(message["Body"]), sort_keys=True)
        for each in with_rows(requests)
        for message in each.json
    }


def _of_table(requests: Sequence[Received]) -> dict[str, str]:
    rows = [json.loads(line) for each in with_rows(requests) for line in each.body.splitlines()]
    return {row["row_id"]: _without_id(row) for row in rows}


PEERS = [
    Peer(
        "azure_functions",
        lambda most: AzureFunctionOutput(
            "out", "toll", "hot", KEY, RequestLimits(most, 262_144), row_id_column="row_id"
        ),
        Says(200),
        _of_function,
    ),
    Peer(
        "service_bus",
        lambda most: ServiceBusOutput(
            "out", "queue", "toll", "hot", "send", KEY, limits=RequestLimits(most, 262_144)
        ),
        Says(201),
        _of_bus,
    ),
    Peer(
        "data_explorer",
        lambda most: DataExplorerOutput("out", CLUSTER, "db", "hot", "row_id", RequestLimits(most, 4 << 20)),
        Says(200),
        _of_table,
    ),
]
