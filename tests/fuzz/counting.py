"""What events there are in bytes, found out slowly and without the project's code, by json and zlib.

A verdict is True for an event that must be accepted, False for one that must be refused, None where this
reference cannot tell (deep nesting, numbers only refused where they are read).
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass
from typing import Any

_BLANKS = b" \t\r\n"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class _RefusedError(ValueError):
    pass


@dataclass(frozen=True)
class Event:
    """verdict: as above. value: of an event that is accepted, the object."""

    verdict: bool | None
    value: Any = None


def _integer(text: str) -> int:
    number = int(text) if len(text) < 40 else 2**99
    if not -(2**63) <= number < 2**63:
        raise _RefusedError("no int64")
    return number


def _constant(text: str) -> Any:
    raise _RefusedError(text)


def _first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


DECODER = json.JSONDecoder(object_pairs_hook=_first_wins, parse_int=_integer, parse_constant=_constant)


def json_event(text: bytes) -> Event:
    """One event."""
    if text.count(b"[") + text.count(b"{") > 400:
        return Event(None)
    try:
        whole = text.decode("utf-8").strip(" \t\r\n")
        value, end = DECODER.raw_decode(whole)
        if end != len(whole) or not isinstance(value, dict):
            return Event(False)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # fails for half a pair of surrogates
    except ValueError:  # of UTF-8 and of JSON too
        return Event(False)
    if _too_large(value):
        return Event(None)
    return Event(True, value)


def _too_large(value: Any) -> bool:
    """Whether a number is outside of float."""
    match value:
        case dict():
            return any(map(_too_large, value.values()))
        case list():
            return any(map(_too_large, value))
        case float():
            return value in (float("inf"), float("-inf"))
        case _:
            return False


def json_lines(data: bytes) -> list[Event] | None:
    """The events of a file in which each line is whole, or broken so that its end is in no doubt.

    A line may also be an array of events. None for any other file.
    """
    lines = [line for line in data.removeprefix(BYTE_ORDER_MARK).split(b"\n") if line.strip(_BLANKS)]
    events: list[Event] = []
    for line in lines:
        inner = json_values(line)
        if inner is not None and (len(inner) == 1 or line.strip(_BLANKS).startswith(b"[")):
            events += inner
        elif line.startswith(b"{") and not set(line[1:]) & set(b"{}[]\\"):
            events.append(Event(False))  # it is cut
        else:
            return None
    return events


def whole_objects(data: bytes) -> int | None:
    """How many lines are an event each, where all begin one; None for any other file."""
    lines = [line for line in data.removeprefix(BYTE_ORDER_MARK).split(b"\n") if line.strip(_BLANKS)]
    if not all(line.startswith(b"{") for line in lines):
        return None
    return sum(json_event(line).verdict is True for line in lines)


def json_values(data: bytes) -> list[Event] | None:
    """The events of a file that is whole: arrays and objects one after the other, commas between them or not.

    None for a file in which anything is broken.
    """
    if data.count(b"[") + data.count(b"{") > 20_000 or data.count(b"[[[[[[[[[["):
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    events: list[Event] = []
    at, plain = 0, json.JSONDecoder(object_pairs_hook=_first_wins)
    while True:
        at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n,"))
        if at == len(text):
            return events
        try:
            value, end = plain.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        if isinstance(value, list):
            inner = elements(text[at:end])
            if inner is None:
                return None
            events += [json_event(each.encode()) for each in inner]
        else:
            events.append(json_event(text[at:end].encode()))
        at = end


def elements(text: str) -> list[str] | None:
    """The texts of the elements of a whole array."""
    decoder = json.JSONDecoder()
    found: list[str] = []
    at = 1
    while True:
        at = len(text) - len(text[at:].lstrip(" \t\r\n,"))
        if text[at] == "]":
            return found
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        found.append(text[at:end])
        at = end


def csv_rows(data: bytes, delimiter: str) -> list[bytes] | None:
    """The rows of CSV, header included, blank ones left out.

    None where a quote stands in the middle of a field: which other quote opens a field is in doubt then.
    """
    mark, rows, row = ord(delimiter), list[bytes](), bytearray()
    state = "begin"  # of a field; or "plain", "quoted", "closing" behind a quote within a quoted one
    for byte in data.removeprefix(BYTE_ORDER_MARK):
        row.append(byte)
        quote = byte == ord('"')
        if state == "quoted":
            state = "closing" if quote else "quoted"
        elif state == "closing" and quote:
            state = "quoted"
        elif byte == mark:
            state = "begin"
        elif byte == ord("\n"):
            rows.append(bytes(row))
            row, state = bytearray(), "begin"
        elif (quote and state == "plain") or (state == "closing" and byte != ord("\r")):
            return None
        else:
            state = "quoted" if state == "begin" and quote else "plain"
    rows.append(bytes(row))
    return [each for each in rows if each not in (b"", b"\n", b"\r\n", b"\r")]


@dataclass(frozen=True)
class Unpacked:
    """What a gzip file holds up to where it breaks. whole: it does not break."""

    data: bytes
    whole: bool


def unpacked(data: bytes) -> Unpacked:
    """Member after member; zeros behind a member are padding."""
    found = b""
    while data:
        inflate = zlib.decompressobj(wbits=31)
        try:
            for at in range(len(data)):
                found += inflate.decompress(data[at : at + 1])
                if inflate.eof:
                    data = data[at + 1 :].lstrip(b"\x00")
                    break
            else:
                return Unpacked(found, False)
        except zlib.error:
            return Unpacked(found, False)
    return Unpacked(found, True)


def whole_lines(data: bytes) -> int:
    """Lines that are not blank and have their line end."""
    return len([line for line in re.findall(rb"[^\n]*\n", data) if line.strip(_BLANKS)])
