"""Values of message properties as Event Hubs hands them over through its Kafka endpoint.

A property that a client of AMQP has set arrives as a header whose bytes are an AMQP 1.0 value: a constructor
and the value (OASIS AMQP 1.0, part 1, 1.6). A header of a Kafka client arrives as it was sent, by custom in
UTF-8. A constructor from 0x80 on begins no text in UTF-8, so the two can be told apart there; below it bytes
that are printable text are that text: `TA` is no `int` of 65.
"""

from __future__ import annotations

import base64
import struct
import uuid
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

PropertyValue: TypeAlias = str | int | float | bool | None

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Constructors of fixed width, each with the format of what follows.
_NUMBERS = {
    0x50: ">B",
    0x51: ">b",
    0x52: ">B",
    0x53: ">B",
    0x54: ">b",
    0x55: ">b",
    0x56: ">?",
    0x60: ">H",
    0x61: ">h",
    0x70: ">I",
    0x71: ">i",
    0x72: ">f",
    0x80: ">Q",
    0x81: ">q",
    0x82: ">d",
    0x83: ">q",
}
_ALONE: dict[int, PropertyValue] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0}
_TIMESTAMP, _UUID, _CHARACTER = 0x83, 0x98, 0x73
#: Constructors of variable width: how the length is written, and whether the bytes are text.
_BYTES = {
    0xA0: (">B", False),
    0xA1: (">B", True),
    0xA3: (">B", True),
    0xB0: (">I", False),
    0xB1: (">I", True),
    0xB3: (">I", True),
}


def property_value(data: bytes | None) -> PropertyValue:
    """The value of a header: of AMQP, else its text, else its bytes in base64.

    A time is ISO text, an identifier its usual text.

    >>> property_value(b"plain"), property_value(b"\\xa1\\x02d1"), property_value(b"\\x54\\xff")
    ('plain', 'd1', -1)
    """
    if data is None:
        return None
    text = _text(data)
    if text is not None and text.isprintable():
        return text
    try:
        return _amqp(data)
    except (ValueError, struct.error, UnicodeDecodeError, OverflowError):
        return text if text is not None else base64.b64encode(data).decode()


def _text(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _amqp(data: bytes) -> PropertyValue:
    """Raises ValueError, struct.error, UnicodeDecodeError or OverflowError for other bytes."""
    code, rest = data[0], data[1:]
    if code in _ALONE and not rest:
        return _ALONE[code]
    if code in _BYTES:
        form, is_text = _BYTES[code]
        size = struct.calcsize(form)
        (length,) = struct.unpack(form, rest[:size])
        body = rest[size:]
        if len(body) != length:
            raise ValueError
        return body.decode("utf-8") if is_text else base64.b64encode(body).decode()
    if code == _UUID:
        return str(uuid.UUID(bytes=rest))
    if code == _CHARACTER:
        return rest.decode("utf-32-be")
    if code not in _NUMBERS:
        raise ValueError
    (value,) = struct.unpack(_NUMBERS[code], rest)
    if code == _TIMESTAMP:
        return (_EPOCH + timedelta(milliseconds=value)).isoformat(timespec="milliseconds")[:-6] + "Z"
    return value
