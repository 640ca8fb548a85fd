"""Outputs over HTTP: every answer of a service, and what a reader has after crashes, for each of them."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.http_outputs import CLUSTER, KEY, PEERS, Peer, endpoints, for_rows, with_rows
from support.http_service import HttpService, Says, an_http_service
from tideglass.connect.azure import entra
from tideglass.connect.http import azure_functions, client
from tideglass.connect.http.client import post, retry_after_seconds
from tideglass.connect.http.sending import OutgoingRow, RequestLimits, send
from tideglass.connect.output import Batch
from tideglass.connect.refused_rows import RefusalKind, RowsRefused
from tideglass.core.errors import OutputError, OutputUnavailable
from tideglass.core.types import Type, field

each_peer = pytest.mark.parametrize("peer", PEERS, ids=[peer.name for peer in PEERS])
BATCH = Batch(1, 7, "job")


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
    return running


def numbers(*values: int, text: str = "") -> pa.Table:
    fields = [field("n", Type.BIGINT), field("s", Type.NVARCHAR)]
    return pa.table([pa.array(values, pa.int64()), pa.array([text] * len(values))], schema=pa.schema(fields))


def answers(service: HttpService, *says: Says, then: Says) -> None:
    """Say these of requests with rows, then always `then`."""
    left = iter(says)
    service.says = for_rows(lambda request: next(left, then))


def texts(peer: Peer, service: HttpService) -> list[int]:
    """The numbers a reader has, once repetitions are left out."""
    return [json.loads(text)["n"] for text in peer.rows(service.accepted).values()]


# ---------------------------------------------------------------- answers


@each_peer
def test_rows_go_in_order_in_requests_of_at_most_so_many(peer: Peer, service: HttpService) -> None:
    service.says = for_rows(lambda request: peer.accepts)
    output = peer.make(2)
    output.prepare()
    assert list(output.publish(BATCH, [numbers(1, 2, 3), numbers(4), numbers(5)])) == []
    assert texts(peer, service) == [1, 2, 3, 4, 5]
    assert len(with_rows(service.requests)) == 3
    assert len({each.client for each in with_rows(service.requests)}) == 1, "the connection is kept"


@each_peer
@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_service_that_cannot_now_is_asked_again_for_what_it_has_not_accepted(
    peer: Peer, service: HttpService, status: int
) -> None:
    answers(service, peer.accepts, Says(status, b"busy", {"Retry-After": "7"}), then=peer.accepts)
    output = peer.make(2)
    with pytest.raises(OutputUnavailable, match="busy") as raised:
        output.publish(BATCH, [numbers(1, 2, 3, 4)])
    assert raised.value.retry_after_seconds == 7.0
    output.publish(BATCH, [numbers(1, 2, 3, 4)])
    assert texts(peer, service) == [1, 2, 3, 4]
    assert len(with_rows(service.accepted)) == 2, "what was accepted is not sent again"


@each_peer
@pytest.mark.parametrize(("status", "word"), [(401, "refuses access"), (403, "hint"), (404, "not there")])
def test_a_service_that_never_will_ends_the_run_with_a_remedy(
    peer: Peer, service: HttpService, status: int, word: str
) -> None:
    answers(service, then=Says(status, b"no"))
    with pytest.raises(OutputError, match=word) as raised:
        peer.make(2).publish(BATCH, [numbers(1)])
    assert not isinstance(raised.value, OutputUnavailable | RowsRefused)
    assert KEY not in str(raised.value)


@each_peer
@pytest.mark.parametrize("status", [302, 400, 418])
def test_an_answer_nobody_knows_is_an_error_with_its_text(
    peer: Peer, service: HttpService, status: int
) -> None:
    answers(service, then=Says(status, b"what is this", {"Location": "http://127.0.0.1:9/elsewhere"}))
    with pytest.raises(OutputError, match="what is this"):
        peer.make(2).publish(BATCH, [numbers(1)])


@each_peer
def test_requests_that_are_too_large_are_halved_until_they_fit(peer: Peer, service: HttpService) -> None:
    def says(request: Any) -> Says:
        return peer.accepts if len(peer.rows([request])) <= 2 else Says(413)

    service.says = for_rows(says)
    peer.make(100).publish(BATCH, [numbers(*range(11))])
    assert texts(peer, service) == list(range(11))


@each_peer
def test_a_row_that_is_refused_alone_is_named_and_rows_before_it_are_not_sent_again(
    peer: Peer, service: HttpService
) -> None:
    def says(request: Any) -> Says:
        return Says(413) if '"n": 3' in str(peer.rows([request])) else peer.accepts

    service.says = for_rows(says)
    output, parts = peer.make(100), [numbers(1, 2), numbers(3, 4)]
    with pytest.raises(RowsRefused) as raised:
        output.publish(BATCH, parts)
    assert [(row.part, row.row, row.kind) for row in raised.value.rows] == [
        (1, 0, RefusalKind.RECORD_EXCEEDED_SIZE_LIMIT)
    ]
    output.publish(BATCH, [parts[0], parts[1].slice(1)])
    assert texts(peer, service) == [1, 2, 4]
    sent = [n for request in with_rows(service.accepted) for n in peer.rows([request])]
    assert len(sent) == 3


@each_peer
def test_a_row_that_no_request_can_hold_is_refused_before_anything_is_sent(
    peer: Peer, service: HttpService
) -> None:
    service.says = for_rows(lambda request: peer.accepts)
    wide = numbers(2, text="x" * (4 << 20))
    with pytest.raises(RowsRefused, match="bytes") as raised:
        peer.make(10).publish(BATCH, [numbers(1), wide])
    assert [(row.part, row.row) for row in raised.value.rows] == [(1, 0)]
    assert not with_rows(service.requests)


@each_peer
@pytest.mark.parametrize(
    "broken", [Says(200, b"x" * 64, breaks=True), Says(200, lost=True)], ids=["cut in the answer", "lost"]
)
def test_a_lost_answer_is_asked_for_again_under_the_same_ids(
    peer: Peer, service: HttpService, broken: Says
) -> None:
    answers(service, broken, then=peer.accepts)
    output = peer.make(10)
    with pytest.raises(OutputUnavailable, match="cannot be reached"):
        output.publish(BATCH, [numbers(1, 1, 2)])
    output.publish(BATCH, [numbers(1, 1, 2)])
    first, second = with_rows(service.accepted)
    assert first.body == second.body
    assert first.headers.get("idempotency-key") == second.headers.get("idempotency-key")
    assert texts(peer, service) == [1, 1, 2], "equal rows are told apart"


def test_a_service_that_hangs_is_left_after_the_time_out(
    service: HttpService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_functions, "TIMEOUT_SECONDS", 0.2)
    (functions,) = [peer for peer in PEERS if peer.name == "azure_functions"]
    answers(service, Says(hangs=True), then=Says())
    output, started = functions.make(10), time.monotonic()
    with pytest.raises(OutputUnavailable, match=r"has not answered within 0\.2 s"):
        output.publish(BATCH, [numbers(1)])
    assert time.monotonic() - started < 10
    output.publish(BATCH, [numbers(1)])
    assert texts(functions, service) == [1]


@each_peer
def test_a_service_that_is_not_there_is_asked_again_later(
    peer: Peer, service: HttpService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "TIDEGLASS_ENDPOINTS",
        json.dumps(dict.fromkeys(json.loads(endpoints(service)), "http://127.0.0.1:1")),
    )
    with pytest.raises(OutputUnavailable):
        peer.make(10).publish(BATCH, [numbers(1)])


# ---------------------------------------------------------------- crashes

SAID = st.sampled_from(["ok", "ok", "too large", "busy", "lost", "broken"])


@each_peer
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    batches=st.lists(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1), max_size=3),
    said=st.lists(SAID, max_size=12),
    crashes=st.lists(st.booleans(), max_size=12),
    most=st.integers(1, 4),
)
def test_after_crashes_a_reader_of_ids_has_the_rows_of_the_undisturbed_run(
    peer: Peer,
    service: HttpService,
    batches: list[list[list[int]]],
    said: list[str],
    crashes: list[bool],
    most: int,
) -> None:
    """A crash loses what the process knows; the batch then runs again, cut into parts otherwise."""
    service.forget()
    service.says = for_rows(lambda request: peer.accepts)
    for number, parts in enumerate(batches):
        peer.make(100).publish(Batch(1, number, "job"), [numbers(*part) for part in parts])
    undisturbed = sorted(peer.rows(service.accepted).items())

    service.forget()
    answer = {
        "ok": peer.accepts,
        "too large": Says(413),
        "busy": Says(503),
        "lost": Says(200, lost=True),
        "broken": Says(200, b"x" * 64, breaks=True),
    }
    answers(service, *(answer[each] for each in said), then=peer.accepts)
    output, crash = peer.make(most), iter(crashes)
    for number, parts in enumerate(batches):
        while True:
            tables = [numbers(*part) for part in parts]
            try:
                output.publish(Batch(1, number, "job"), tables)
            except RowsRefused:  # of a row alone: whoever runs the job makes the service take it
                continue
            except OutputUnavailable:
                if next(crash, False):
                    output = pickle.loads(pickle.dumps(output))
                    parts = [[n for part in parts for n in part]]
                continue
            if not next(crash, False):
                break
            output = pickle.loads(pickle.dumps(output))  # after all was sent, before that is known
    assert sorted(peer.rows(service.accepted).items()) == undisturbed


# ---------------------------------------------------------------- the parts


def test_retry_after_is_seconds_or_a_date() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert retry_after_seconds("Thu, 01 Jan 2026 00:00:30 GMT", now) == 30.0
    assert retry_after_seconds("Wed, 31 Dec 2025 00:00:30 GMT", now) == 0.0
    assert retry_after_seconds("999999999") == timedelta(hours=1).total_seconds()
    assert retry_after_seconds("-3") is None
    assert retry_after_seconds("") is None


def test_an_answer_without_end_is_cut(service: HttpService) -> None:
    service.in_turn(Says(200, b"x" * (3 << 20)))
    assert len(post(f"{service.url}/", b"", {}).body) == 1 << 20


def test_certificates_are_verified_and_redirects_not_followed() -> None:
    made = client._client(-1)
    assert not made.follow_redirects
    context = made._transport._pool._ssl_context  # type: ignore[attr-defined]
    assert context.verify_mode.name == "CERT_REQUIRED"
    assert context.check_hostname
    client._client.cache_clear()


def test_requests_hold_as_many_bytes_as_they_may_and_no_more() -> None:
    rows = [OutgoingRow(str(n), b"x" * n, 0, n) for n in (1, 2, 3, 40, 2, 2)]
    sent: list[list[int]] = []

    def request(chunk: Any) -> bool:
        sent.append([len(row.data) for row in chunk])
        return True

    send(rows, RequestLimits(10, 42), set(), request, "it")
    assert sent == [[1, 2, 3], [40], [2, 2]]


def test_rows_that_do_not_go_together_go_in_requests_of_their_own() -> None:
    rows = [OutgoingRow(str(n), b"x", 0, n, together=key) for n, key in enumerate("aabba")]
    sent: list[int] = []

    def request(chunk: Any) -> bool:
        sent.append(len(chunk))
        return True

    send(rows, RequestLimits(10, 100), set(), request, "it")
    assert sent == [2, 2, 1]


def test_data_explorer_asks_with_a_token_of_its_cluster(service: HttpService) -> None:
    (table,) = [peer for peer in PEERS if peer.name == "data_explorer"]
    service.says = for_rows(lambda request: Says())
    table.make(10).publish(BATCH, [numbers(1)])
    (sign_in,) = [each for each in service.requests if "/oauth2/" in each.path]
    assert f"https%3A%2F%2F{CLUSTER}%2F.default".encode() in sign_in.body
    (sent,) = with_rows(service.requests)
    assert sent.headers["authorization"] == "Bearer a-token"
    assert sent.path == "/v1/rest/ingest/db/hot?streamFormat=json"
