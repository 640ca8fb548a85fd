"""Payloads of messages as events: JSON, CSV or Avro, a batch of messages at once (`asa.md` 5.3, 6.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa

from tideglass.connect.formats.avro import decode_avro
from tideglass.connect.formats.compressed_payloads import unpacked_payloads
from tideglass.connect.formats.csv import decode_csv, read_header, row_bounds
from tideglass.connect.formats.decoded import INVALID_HEADER, LINE, Decoded, Refusals, merge_rejected
from tideglass.connect.formats.json.mixed import decode_payloads
from tideglass.connect.formats.table import FORMATS, formats_that, function, in_words
from tideglass.core.arrays import Bytes, Ints, pc
from tideglass.core.columns import unify
from tideglass.core.errors import InputError
from tideglass.core.events import Fields, Rejected


@dataclass(frozen=True, slots=True)
class Payload:
    """How a message holds its events.

    json: one, or several as a file would hold them. csv: a header, which every message has, and a row each.
    avro: one in plain Avro, by `avro_schema` (JSON text); without it an object container.
    compression: of the message; `deflate` is with or without the frame of zlib.
    Raises InputError for a format that is not read from messages.
    """

    format: str = "json"
    delimiter: str = ","
    avro_schema: str | None = None
    compression: Literal["none", "gzip", "deflate"] = "none"

    def __post_init__(self) -> None:
        known = formats_that("messages")
        if self.format not in known:
            raise InputError(
                f"messages in the format {self.format!r} are not known here; use {in_words(known)}"
            )


#: The events of messages (binary, or text), and the message of each event by its `$line`.
DecodeMessages: TypeAlias = Callable[[pa.Array, Payload, Fields, str], tuple[Decoded, Ints]]


def decode_messages(
    payloads: pa.Array, payload: Payload, fields: Fields, level: str = "1.2"
) -> tuple[Decoded, Ints]:
    """The events of messages (binary, or text), and the message of each event by its `$line`.

    A message without a payload holds no event. A refusal names the first message it
    concerns, not the first event.
    """
    decode = cast("DecodeMessages", function(FORMATS[payload.format].messages or ""))
    if payload.compression == "none":
        return decode(payloads, payload, fields, level)
    refusals = Refusals()
    unpacked = unpacked_payloads(payloads, payload.compression, refusals)
    decoded, message_of = decode(unpacked, payload, fields, level)
    return Decoded(decoded.table, merge_rejected([*refusals.all(), *decoded.rejected])), message_of


def json_messages(payloads: pa.Array, payload: Payload, fields: Fields, level: str) -> tuple[Decoded, Ints]:
    """Messages of one event or more each, as a file would hold them."""
    decoded, message_of = decode_payloads(payloads, fields, level)
    return Decoded(decoded.table, _by_message(decoded.rejected, message_of)), message_of


def avro_messages(payloads: pa.Array, payload: Payload, fields: Fields, level: str) -> tuple[Decoded, Ints]:
    """Messages of one event each, or object containers."""
    messages = cast("list[bytes | None]", payloads.cast(pa.binary()).to_pylist())
    return decode_avro(messages, payload.avro_schema, fields, level)


def _by_message(rejected: Sequence[Rejected], message_of: Ints) -> tuple[Rejected, ...]:
    return tuple(replace(each, first_line=int(message_of[each.first_line])) for each in rejected)


# ---------------------------------------------------------------- CSV


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of messages with one header, one after the other.

    names: of the header.
    data: the bytes of all rows.
    bounds: where each row begins in them, and the end of the last.
    message_of: the number of the message of each row.
    """

    names: tuple[str, ...]
    data: Bytes
    bounds: Ints
    message_of: Ints


def csv_messages(payloads: pa.Array, payload: Payload, fields: Fields, level: str) -> tuple[Decoded, Ints]:
    """Messages of a header and rows each."""
    payloads, delimiter = payloads.cast(pa.binary()), payload.delimiter
    refusals = Refusals()
    groups = _by_header(payloads, delimiter, refusals)
    every = np.concatenate([np.zeros(0, np.int64), *(group.message_of for group in groups)])
    order = np.argsort(every, kind="stable")
    lines = np.empty(len(every), np.int64)
    lines[order] = np.arange(len(every))
    groups = groups or [_Rows(("column1",), np.zeros(0, np.uint8), np.zeros(1, np.int64), every)]
    decoded: list[Decoded] = []
    begin = 0
    for group in groups:
        mine = lines[begin : begin + len(group.message_of)]
        begin += len(mine)
        decoded.append(decode_csv(group.data, group.bounds, group.names, delimiter, fields, level, mine))
    table = decoded[0].table
    if len(decoded) > 1:
        table = unify([each.table for each in decoded])
        table = table.take(pa.array(np.argsort(table[LINE].to_numpy(), kind="stable")))
    message_of = every[order]
    of_rows = [each for part in decoded for each in _by_message(part.rejected, message_of)]
    return Decoded(table, merge_rejected([*refusals.all(), *of_rows])), message_of


def _by_header(payloads: pa.Array, delimiter: str, refusals: Refusals) -> list[_Rows]:
    """The messages by their header; usually all have one, so this looks at few of them."""
    groups: list[_Rows] = []
    remaining = np.flatnonzero(np.asarray(payloads.is_valid()))
    while len(remaining):
        first = cast("bytes", payloads[int(remaining[0])].as_py())
        data = np.frombuffer(first, np.uint8)
        try:
            found = read_header(data, delimiter)
        except ValueError as error:
            refusals.add(INVALID_HEADER, str(error), remaining[:1], [first])
            found = None
        if found is None:  # refused, or a header without rows
            remaining = remaining[1:]
            continue
        names, end = found
        messages = payloads.take(pa.array(remaining))
        alike = np.asarray(pc.starts_with(messages, first[:end]))
        rows = [each[end:] for each in cast("list[bytes]", messages.filter(pa.array(alike)).to_pylist())]
        groups.append(_rows(rows, remaining[alike], tuple(names), delimiter))
        remaining = remaining[~alike]
    return groups


def _rows(bodies: list[bytes], messages: Ints, names: tuple[str, ...], delimiter: str) -> _Rows:
    ended = [body + b"\n" if body and not body.endswith(b"\n") else body for body in bodies]
    data = np.frombuffer(b"".join(ended), np.uint8)
    edges = np.cumsum([0, *map(len, ended)], dtype=np.int64)
    bounds = row_bounds(data, delimiter)
    if not np.isin(edges, bounds).all():  # a quote that is left open must not swallow the next message
        bounds = np.unique(np.concatenate([edges, *_bounds_apart(data, edges, delimiter)]))
    message_of = messages[np.searchsorted(edges, bounds[:-1], side="right") - 1]
    return _Rows(names, data, bounds, message_of)


def _bounds_apart(data: Bytes, edges: Ints, delimiter: str) -> list[Ints]:
    return [
        row_bounds(data[start:end], delimiter) + start
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
