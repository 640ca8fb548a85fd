"""Payloads of messages: JSON, CSV and Avro give the same events, and each message is judged by itself."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideglass.connect.formats.avro import checked_schema
from tideglass.connect.formats.decoded import INVALID_DATA, INVALID_HEADER, LINE
from tideglass.connect.formats.payloads import Payload, decode_messages
from tideglass.core.errors import InputError
from tideglass.core.events import Fields
from tideglass.core.json_rows import rows_of
from tideglass.core.types import Type, types_of

EVENT = {
    "type": "record",
    "name": "Toll",
    "fields": [
        {"name": "plate", "type": ["null", "string"]},
        {"name": "toll", "type": "long"},
        {"name": "amount", "type": "double"},
        {"name": "paid", "type": "boolean"},
        {"name": "raw", "type": "bytes"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["CAR", "BUS"]}},
        {"name": "axles", "type": {"type": "array", "items": "int"}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "either", "type": ["null", "long", "string"]},
    ],
}
SCHEMA = json.dumps(EVENT)

TOLL: dict[str, Any] = {
    "plate": "A1",
    "toll": 2**40,
    "amount": 2.5,
    "paid": True,
    "raw": b"\x00\x01",
    "at": datetime(2026, 1, 1, 12, 0, 0, 5000, tzinfo=UTC),
    "day": date(2026, 1, 2),
    "price": Decimal("12.34"),
    "kind": "BUS",
    "axles": [1, 2],
    "tags": {"lane": "3"},
    "either": 7,
}


def plain(event: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(SCHEMA)), event)
    return stream.getvalue()


def container(*events: dict[str, Any], codec: str = "deflate") -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(json.loads(SCHEMA)), events, codec=codec)
    return stream.getvalue()


def decoded(messages: list[bytes | None], payload: Payload, *names: str, whole: bool = False) -> Any:
    fields = Fields(tuple((name,) for name in names), whole)
    return decode_messages(pa.array(messages, pa.binary()), payload, fields)


def values(messages: list[bytes | None], payload: Payload, *names: str) -> list[dict[str, Any]]:
    table = decoded(messages, payload, *names)[0].table.drop_columns([LINE])
    return rows_of(table.rename_columns([name.removeprefix("$payload.") for name in table.column_names]))


AVRO = Payload("avro", avro_schema=SCHEMA)


def test_every_avro_type_becomes_its_value() -> None:
    names = [field["name"] for field in EVENT["fields"]]
    table = decoded([plain(TOLL)], AVRO, *names)[0].table
    types = {name.removeprefix("$payload."): type_ for name, type_ in types_of(table).items()}
    assert types | {LINE: None} == {
        "plate": Type.NVARCHAR, "toll": Type.BIGINT, "amount": Type.FLOAT, "paid": Type.BIT,
        "raw": Type.NVARCHAR, "at": Type.DATETIME, "day": Type.DATETIME, "price": Type.FLOAT,
        "kind": Type.NVARCHAR, "axles": Type.ARRAY, "tags": Type.RECORD, "either": Type.BIGINT, LINE: None,
    }  # fmt: skip
    assert values([plain(TOLL)], AVRO, *names) == [
        {
            "plate": "A1", "toll": 2**40, "amount": 2.5, "paid": True, "raw": "AAE=",
            "at": "2026-01-01T12:00:00.0050000Z", "day": "2026-01-02T00:00:00.0000000Z", "price": 12.34,
            "kind": "BUS", "axles": [1, 2], "tags": {"lane": "3"}, "either": 7,
        }
    ]  # fmt: skip


def test_a_union_keeps_the_type_of_each_value() -> None:
    messages: list[bytes | None] = [plain(TOLL | {"either": each}) for each in (1, "x", None)]
    assert [row["either"] for row in values(messages, AVRO, "either")] == [1, "x", None]


def test_containers_bring_their_schema_and_several_events() -> None:
    messages: list[bytes | None] = [container(TOLL, TOLL | {"toll": 2}), None, container(TOLL | {"toll": 3})]
    found, message_of = decoded(messages, Payload("avro"), "toll")
    assert found.table["$payload.toll"].to_pylist() == [2**40, 2, 3]
    assert message_of.tolist() == [0, 0, 2]


def test_a_message_that_is_no_event_of_the_schema_is_refused_alone() -> None:
    good = plain(TOLL)
    found, message_of = decoded([good[:-1], good, None, good + b"\x00", b"", good], AVRO, "toll")
    assert message_of[found.table[LINE].to_numpy()].tolist() == [1, 5]
    assert sum(each.count for each in found.rejected) == 3
    assert {each.error_type for each in found.rejected} == {INVALID_DATA}
    assert [each.first_line for each in found.rejected] == [0, 3]
    refused = decoded([b"{}", container(TOLL)[:-3]], Payload("avro"), "toll")[0].rejected
    assert [each.count for each in refused] == [1, 1]


@pytest.mark.parametrize("text", ["{", '"string"', '{"type": "record", "name": "R"}', "7"])
def test_what_is_no_schema_of_events_is_refused_before_anything_runs(text: str) -> None:
    with pytest.raises(InputError, match="Avro schema"):
        checked_schema(text)


def test_csv_messages_have_a_header_each_and_keep_their_order() -> None:
    messages: list[bytes | None] = [
        b"a,b\n1,x\n2,y\n",
        None,
        b"b,a\nz,3",
        b"a,b\r\n4,w\r\n",
        b"a,b\n5,v",
        b"a,b\n",
        b"a,b",
        b"",
    ]
    found, message_of = decoded(messages, Payload("csv"), "a", "b")
    assert found.rejected == ()
    assert [row["a"] + row["b"] for row in values(messages, Payload("csv"), "a", "b")] == [
        "1x", "2y", "3z", "4w", "5v",
    ]  # fmt: skip
    assert message_of[found.table[LINE].to_numpy()].tolist() == [0, 0, 2, 3, 4]


def test_a_broken_csv_message_does_not_touch_its_neighbours() -> None:
    messages: list[bytes | None] = [
        b'a;b\n1;"open\n',
        b"a;b\n2;y",
        b"a;a\n3;z",
        b"a;b\n4;y;more\n5;v",
    ]
    found, message_of = decoded(messages, Payload("csv", delimiter=";"), "a", "b")
    kept = message_of[found.table[LINE].to_numpy()].tolist()
    assert {1, 3} <= set(kept)
    assert found.table["$payload.a"].to_pylist()[-2:] == ["2", "5"]
    by_type = {each.error_type: each.first_line for each in found.rejected}
    assert by_type[INVALID_HEADER] == 2
    assert by_type[INVALID_DATA] in (0, 3)


@given(st.lists(st.one_of(st.none(), st.lists(st.text(max_size=5), max_size=3)), max_size=8))
def test_csv_and_json_messages_hold_the_same_events(texts: list[list[str] | None]) -> None:
    """Text that CSV cannot tell from nothing, and line ends, which its rows normalise, are left out."""

    def cleaned(text: str) -> str:
        return "v" + "".join(
            each for each in text if each not in "\r\n\x00" and not "\ud800" <= each <= "\udfff"
        )

    def as_csv(events: list[str]) -> bytes:
        rows = ['"' + cleaned(each).replace('"', '""') + '"' for each in events]
        return "\n".join(["x", *rows]).encode()

    def as_json(events: list[str]) -> bytes:
        return json.dumps([{"x": cleaned(each)} for each in events]).encode()

    in_csv = [None if events is None else as_csv(events) for events in texts]
    in_json = [None if events is None else as_json(events) for events in texts]
    of_csv, messages_of_csv = decoded(list(in_csv), Payload("csv"), "x")
    of_json, messages_of_json = decoded(list(in_json), Payload(), "x")
    assert of_csv.table["$payload.x"].to_pylist() == of_json.table["$payload.x"].to_pylist()
    lines_of_csv, lines_of_json = of_csv.table[LINE].to_numpy(), of_json.table[LINE].to_numpy()
    assert messages_of_csv[lines_of_csv].tolist() == messages_of_json[lines_of_json].tolist()
    assert of_csv.rejected == of_json.rejected == ()


@given(st.lists(st.binary(max_size=12), max_size=6))
def test_any_bytes_are_events_or_are_refused(messages: list[bytes]) -> None:
    for payload in (Payload(), Payload("csv"), Payload("avro"), AVRO):
        found, message_of = decoded(list(messages), payload, "toll", whole=True)
        assert len(message_of) >= found.table.num_rows
        assert all(0 <= each.first_line < len(messages) for each in found.rejected)


@pytest.mark.parametrize(
    "text", ["]", "}", ",", "[", ":", "{", "[,]", "]]", "[]]", "[ [", ",,", "[\n", "\ufeff]", " , "]
)
def test_a_message_of_nothing_but_marks_is_refused(text: str) -> None:
    found, message_of = decoded(['{"a":1}', text, '[{"a":2}]'], Payload(), "a")
    assert found.table["$payload.a"].to_pylist() == [1, 2]
    assert message_of[found.table[LINE].to_numpy()].tolist() == [0, 2]
    assert [(each.error_type, each.count, each.first_line) for each in found.rejected] == [
        (INVALID_DATA, 1, 1)
    ]


@pytest.mark.parametrize("text", ["", " ", "[]", " [ ]\n", "[][]", "\ufeff[]"])
def test_a_message_that_is_blank_or_an_empty_array_holds_no_event(text: str) -> None:
    found, _ = decoded(['{"a":1}', text], Payload(), "a")
    assert (found.table.num_rows, found.rejected) == (1, ())
