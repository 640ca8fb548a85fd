"""Messages of hubs: properties in AMQP's encoding, records of metadata, and compressed payloads."""

from __future__ import annotations

import datetime
import gzip
import json
import struct
import uuid
import zlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideglass.connect.azure.amqp_values import property_value
from tideglass.connect.dataframes.input import FrameSpec, chunk_of_frame
from tideglass.connect.formats.compressed_payloads import MOST_BYTES
from tideglass.connect.formats.payloads import Payload, decode_messages
from tideglass.core.events import Chunk, Fields
from tideglass.core.json_rows import rows_of

AT = datetime.datetime(2026, 1, 1, 8, 0, 0, 5000, tzinfo=datetime.UTC)
GUID = uuid.UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (None, None),
        (b"", ""),
        (b"text", "text"),
        ("zwölf".encode(), "zwölf"),
        (b"\x40", "@"),
        (b"abc", "abc"),
        (b"\xa1\x07device1", "device1"),
        (b"\xb1\x00\x00\x00\x02hi", "hi"),
        (b"\xa3\x03sym", "sym"),
        (b"\xa0\x02\x00\xff", "AP8="),
        (b"\x54\xfe", -2),
        (b"\x55\x05", 5),
        (b"\x71\x00\x00\x01\x00", 256),
        (b"\x81" + struct.pack(">q", -(2**40)), -(2**40)),
        (b"\x82" + struct.pack(">d", 2.5), 2.5),
        (b"\x56\x01", True),
        (b"\x83" + struct.pack(">q", 1_767_225_600_250), "2026-01-01T00:00:00.250Z"),
        (b"\x98" + GUID.bytes, str(GUID)),
        (b"\xa1\x09short", "oQlzaG9ydA=="),
        (b"\xff\xfe", "//4="),
    ],
)
def test_a_property_is_a_value_of_amqp_or_text_or_bytes(data: bytes | None, value: object):
    found = property_value(data)
    assert (found, type(found)) == (value, type(value))


@given(st.binary(max_size=40))
def test_any_bytes_are_some_value_that_json_can_hold(data: bytes):
    json.dumps(property_value(data))


def message(value: bytes, offset: int = 7, key: str | None = "k", **headers: bytes) -> dict[str, Any]:
    return {
        "key": key,
        "value": value,
        "partition": 1,
        "offset": offset,
        "timestamp": AT,
        "headers": [{"key": name.replace("_", "-"), "value": each} for name, each in headers.items()] or None,
    }


SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def chunk(messages: Sequence[dict[str, Any]], fields: Fields, records: str, **payload: Any) -> Chunk:
    spec = FrameSpec(
        "in", "timestamp", "partition", "offset", "value", payload_as=Payload(**payload), records=records
    )
    needed = spec.columns(tuple(SCHEMA.names), fields)
    return chunk_of_frame(pa.Table.from_pylist(messages, SCHEMA).select(needed), spec, fields, "1.2")


def rows(found: Chunk) -> list[dict[str, Any]]:
    """The fields of the events; `@` stands for `$`, which begins a name that is not shown."""
    names = [name for name in found.table.column_names if name.startswith("$payload.")]
    shown = [name.removeprefix("$payload.").replace("$", "@") for name in names]
    return list(rows_of(found.table.select(names).rename_columns(shown)))


def test_records_of_an_event_hub_stand_beside_fields_of_their_names():
    fields = Fields(
        (
            ("User", "lane"),
            ("$User", "lane"),
            ("$User", "axles"),
            ("$EventHub", "SequenceNumber"),
            ("$EventHub", "partitionkey"),
            ("$EventHub", "EventEnqueuedUtcTime"),
        )
    )
    sent = [
        message(b'[{"User": {"lane": "own"}}, {}]', lane=b"\xa1\x01a", axles=b"\x54\xff"),
        message(b"{}", 8, None),
    ]
    found = chunk(sent, fields, "EventHub")
    time = "2026-01-01T08:00:00.0050000Z"
    first = {
        "@User.lane": "a",
        "@User.axles": -1,
        "@EventHub.SequenceNumber": 7,
        "@EventHub.partitionkey": "k",
    }
    first |= {"@EventHub.EventEnqueuedUtcTime": time}
    assert [{k: v for k, v in row.items() if v is not None} for row in rows(found)] == [
        first | {"User.lane": "own"},
        first,
        {"@EventHub.SequenceNumber": 8, "@EventHub.EventEnqueuedUtcTime": time},
    ]


def test_the_record_of_an_iot_hub_is_a_field_of_its_events_alone():
    sent = [message(b'{"IoTHub": 1}', iothub_connection_device_id=b"\xa1\x02d1", kind=b"x")]
    fields = Fields((("IoTHub", "connectiondeviceid"), ("$User",), ("$EventHub", "IoTConnectionDeviceId")))
    (row,) = rows(chunk(sent, fields, "IoTHub"))
    assert row["IoTHub.connectiondeviceid"] == "d1"
    assert row["@User"] == {"kind": "x"}
    assert row["@EventHub.IoTConnectionDeviceId"] == "d1"
    (row,) = rows(chunk(sent, fields, "EventHub"))
    assert row["IoTHub.connectiondeviceid"] is None


def packed(text: bytes, how: str) -> bytes:
    if how == "gzip":
        return gzip.compress(text)
    if how == "zlib":
        return zlib.compress(text)
    maker = zlib.compressobj(wbits=-15)
    return maker.compress(text) + maker.flush()


@pytest.mark.parametrize(("compression", "how"), [("gzip", "gzip"), ("deflate", "raw"), ("deflate", "zlib")])
def test_a_compressed_message_holds_events_and_another_is_refused_with_its_offset(compression: Any, how: str):
    sent = [
        message(packed(b'[{"n": 1}, {"n": 2}]', how), 5),
        message(b'{"n": 3}', 6),
        message(packed(b'{"n": 4}', how), 7),
        message(packed(b'{"n": 5}', how)[:-3], 8),
    ]
    found = chunk(sent, Fields((("n",),)), "", compression=compression)
    assert [row["n"] for row in rows(found)] == [1, 2, 4]
    assert sum(each.count for each in found.rejected) == 2
    assert {each.error_type for each in found.rejected} == {"InputDeserializerError.InvalidCompressionType"}
    assert min(each.first_line for each in found.rejected) == 6


def test_a_message_that_unpacks_to_more_than_the_limit_is_refused():
    bomb = gzip.compress(bytes(MOST_BYTES + 1))
    decoded, _ = decode_messages(pa.array([bomb]), Payload(compression="gzip"), Fields((("n",),)))
    assert decoded.table.num_rows == 0
    assert "holds more than" in decoded.rejected[0].message


@given(st.lists(st.binary(max_size=60), max_size=5), st.sampled_from(["gzip", "deflate"]))
def test_any_bytes_are_events_or_a_refusal(payloads: list[bytes], compression: Any):
    payload = Payload(compression=compression)
    decoded, _ = decode_messages(pa.array(payloads, pa.binary()), payload, Fields((("n",),)))
    assert sum(each.count for each in decoded.rejected) + decoded.table.num_rows >= 0
