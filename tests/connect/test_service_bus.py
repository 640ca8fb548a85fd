"""Messages of Service Bus: tokens, properties, formats, sizes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, unquote_plus

import pytest

from support.http_outputs import BUS, KEY, endpoints
from support.http_service import HttpService, Says, an_http_service
from tideglass.connect.http.sending import RequestLimits
from tideglass.connect.http.service_bus import ServiceBusOutput, sas_token
from tideglass.connect.output import Batch
from tideglass.connect.refused_rows import RefusalKind, RowsRefused
from tideglass.core.errors import OutputError, OutputUnavailable, ProjectError
from tideglass.core.json_rows import table_of

BATCH = Batch(1, 0, "job")
ROWS = [
    {"n": 1, "kind": "a", "at": "2026-01-01T10:00:00.5000000Z", "left": 30, "r": {"x": 1}},
    {"n": 2, "kind": None, "at": None, "left": None, "r": None},
]


@pytest.fixture(scope="module")
def running() -> Iterator[HttpService]:
    with an_http_service() as service:
        yield service


@pytest.fixture
def service(running: HttpService, monkeypatch: pytest.MonkeyPatch) -> HttpService:
    running.forget()
    running.says = lambda request: Says(201)
    monkeypatch.setenv("TIDEGLASS_ENDPOINTS", endpoints(running))
    return running


def a_queue(**more: Any) -> ServiceBusOutput:
    return ServiceBusOutput("out", "queue", "toll", "hot", "send", KEY, **more)


def sent(output: ServiceBusOutput, service: HttpService, rows: list[dict[str, Any]] = ROWS) -> list[Any]:
    output.publish(BATCH, [table_of(rows)])
    return [message for request in service.requests for message in request.json]


def test_a_message_is_the_row_under_its_id(service: HttpService) -> None:
    first, second = sent(a_queue(), service)
    assert json.loads(first["Body"]) == ROWS[0]
    assert first["BrokerProperties"]["ContentType"] == "application/json"
    assert first["BrokerProperties"]["MessageId"] != second["BrokerProperties"]["MessageId"]
    (request,) = service.requests
    assert request.path == "/hot/messages"
    assert request.headers["content-type"] == "application/vnd.microsoft.servicebus.json"


def test_a_token_is_signed_with_the_key_and_ends(service: HttpService) -> None:
    sent(a_queue(), service)
    scheme, _, words = service.requests[0].headers["authorization"].partition(" ")
    held = {name: values[0] for name, values in parse_qs(words).items()}
    assert scheme == "SharedAccessSignature"
    assert held["sr"] == f"https://{BUS}/hot"
    assert held["skn"] == "send"
    assert 600 < int(held["se"]) - time.time() < 3600
    text = f"https%3A%2F%2F{BUS}%2Fhot\n{held['se']}"
    signature = hmac.new(KEY.encode(), text.encode(), hashlib.sha256).digest()
    assert base64.b64decode(held["sig"]) == signature
    assert KEY not in str(service.requests[0])


def test_a_token_is_what_the_services_own_example_has() -> None:
    """The steps of learn.microsoft.com/rest/api/eventhub/generate-sas-token, in Python."""
    token = sas_token("https://Ns.servicebus.windows.net/Q", "root", "k=", 1438205742)
    assert token.startswith("SharedAccessSignature sr=https%3A%2F%2Fns.servicebus.windows.net%2Fq&sig=")
    assert token.endswith("&se=1438205742&skn=root")
    assert len(base64.b64decode(unquote_plus(token.split("&")[1].removeprefix("sig=")))) == 32


def test_columns_that_are_properties_are_no_part_of_the_body(service: HttpService) -> None:
    output = a_queue(
        properties=("Kind", "n"),
        system_properties={"ScheduledEnqueueTimeUtc": "at", "TimeToLive": "left", "Label": "n"},
    )
    first, second = sent(output, service)
    assert json.loads(first["Body"]) == {"r": {"x": 1}}
    assert first["UserProperties"] == {"Kind": "a", "n": 1}
    assert second["UserProperties"] == {"n": 2}, "what is NULL is no property"
    broker = first["BrokerProperties"]
    assert broker["ScheduledEnqueueTimeUtc"] == "Thu, 01 Jan 2026 10:00:00 GMT"
    assert broker["TimeToLive"] == 30
    assert broker["Label"] == "1"
    assert set(second["BrokerProperties"]) == {"MessageId", "ContentType", "Label"}


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"properties": ("r",)}, RefusalKind.TYPE_CONVERSION_ERROR),
        ({"properties": ("absent",)}, RefusalKind.REQUIRED_COLUMN_MISSING),
        ({"system_properties": {"TimeToLive": "kind"}}, RefusalKind.TYPE_CONVERSION_ERROR),
        ({"system_properties": {"ScheduledEnqueueTimeUtc": "kind"}}, RefusalKind.TYPE_CONVERSION_ERROR),
        ({"system_properties": {"ForcePersistence": "n"}}, RefusalKind.TYPE_CONVERSION_ERROR),
    ],
)
def test_what_is_no_property_refuses_the_row_before_anything_is_sent(
    service: HttpService, more: dict[str, Any], kind: RefusalKind
) -> None:
    with pytest.raises(RowsRefused) as raised:
        sent(a_queue(**more), service)
    assert raised.value.rows[0].row == 0
    assert {row.kind for row in raised.value.rows} == {kind}
    assert not service.requests


def test_messages_of_one_request_agree_in_their_session(service: HttpService) -> None:
    rows = [{"n": n, "s": session} for n, session in enumerate("aab")]
    sent(a_queue(system_properties={"SessionId": "s"}), service, rows)
    assert [len(request.json) for request in service.requests] == [2, 1]


def test_csv_has_a_header_in_every_message(service: HttpService) -> None:
    rows = [{"a": 1, "b": "x;y", "p": 3}, {"a": 2, "b": "é\n", "p": 4}]
    first, second = sent(a_queue(format="csv", delimiter=";", properties=("p",)), service, rows)
    assert first["Body"] == 'a;b\n1;"x;y"\n'
    assert second["Body"] == 'a;b\n2;"é\n"\n'
    assert second["UserProperties"] == {"p": 4}


def test_a_message_is_measured_as_it_is_and_not_as_it_is_written(service: HttpService) -> None:
    """JSON in JSON has a backslash before every quote; the service counts the message itself."""
    quotes = [{"q": '"' * 700}]
    assert len(sent(a_queue(limits=RequestLimits(10, 2048)), service, quotes)) == 1
    assert len(service.requests[0].body) > 2048
    with pytest.raises(RowsRefused, match="2,048 at most"):
        sent(a_queue(limits=RequestLimits(10, 2048)), service, [{"q": '"' * 1000}])


def test_a_queue_that_is_full_is_asked_again_and_a_missing_right_is_not(service: HttpService) -> None:
    service.says = lambda request: Says(403, b"The maximum entity size has been reached or exceeded")
    with pytest.raises(OutputUnavailable, match="is full"):
        sent(a_queue(), service)
    service.says = lambda request: Says(403, b"Unauthorized access")
    with pytest.raises(OutputError, match="needs the right Send") as raised:
        sent(a_queue(), service)
    assert not isinstance(raised.value, OutputUnavailable)


def test_a_key_that_is_not_set_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOBODY_SETS_IT", raising=False)
    output = ServiceBusOutput("out", "queue", "toll", "hot", "send", "${NOBODY_SETS_IT}")
    with pytest.raises(ProjectError, match="NOBODY_SETS_IT"):
        output.prepare()


def test_identity_and_words_hold_no_key() -> None:
    output = a_queue()
    assert KEY not in repr(output)
    assert KEY not in json.dumps(output.identity(None))  # type: ignore[arg-type]
    assert output.describe() == "the queue hot of toll"
