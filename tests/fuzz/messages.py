"""Damaged payloads of messages: each message counts by itself, whatever stands beside it."""

from __future__ import annotations

import io
import json
from collections import Counter
from decimal import Decimal
from random import Random
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from fuzz import counting
from fuzz.corpus import events
from fuzz.files import ASKED, encoded
from fuzz.mutation import mutate_bytes
from fuzz.trial import Trial, holds
from tideglass.connect.formats.decoded import LINE
from tideglass.connect.formats.payloads import Payload, decode_messages
from tideglass.core.json_rows import rows_of

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "t", "type": "string"},
        {"name": "a", "type": ["null", "long", "double", "string"]},
        {"name": "r", "type": {"type": "map", "values": "bytes"}},
        {"name": "l", "type": {"type": "array", "items": {"type": "int", "logicalType": "date"}}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}


def make(rng: Random) -> Trial:
    """A few messages of one format, most of them whole."""
    kind = rng.choice(["json", "json", "csv", "avro", "container"])
    payloads = [_payload(rng, kind) for _ in range(rng.randrange(1, 9))]
    damaged = [
        mutate_bytes(rng, payload, payloads) if rng.random() < 0.35 else payload for payload in payloads
    ]
    return Trial("message", {f"{n:02}": each for n, each in enumerate(damaged)}, {"kind": kind})


def _payload(rng: Random, kind: str) -> bytes:
    rows = events(rng, 4)
    if kind == "json":
        return encoded(rng, rng.choice(["lines", "array"]), rows[:1] if rng.random() < 0.5 else rows)
    if kind == "csv":
        return encoded(rng, "csv", rows)
    records = [
        {
            "t": row["t"],
            "a": rng.choice([None, n, n + 0.5, "x"]),
            "r": {"x": b"\xff\x00"},
            "l": [n, -n],
            "d": rng.choice([Decimal("1.25"), Decimal(-2)]),
        }
        for n, row in enumerate(rows)
    ]
    stream = io.BytesIO()
    if kind == "container":
        fastavro.writer(stream, SCHEMA, records, codec=rng.choice(["null", "deflate"]))
    else:
        fastavro.schemaless_writer(
            stream, SCHEMA, {"t": "", "a": 1, "r": {}, "l": [], "d": Decimal(1), **(records[:1] or [{}])[0]}
        )
    return stream.getvalue()


def check(trial: Trial) -> None:
    """Raises for any exception, and where a message changes what comes of another."""
    kind = trial.options["kind"]
    schema = json.dumps(SCHEMA) if kind == "avro" else None
    payload = Payload({"container": "avro"}.get(kind, kind), avro_schema=schema)
    messages: list[bytes | None] = [*trial.files.values(), None]
    for fields in ASKED:
        together = _decoded(messages, payload, fields)
        apart = [_decoded([each], payload, fields) for each in messages]
        for place, alone in enumerate(apart):
            mine = [row for of, row in zip(together[1], together[0], strict=True) if of == place]
            holds(
                repr(mine) == repr(alone[0]),
                "a message changes the events of another",
                (place, mine, alone[0]),
            )
        refused: Counter[str] = Counter()
        for _, _, each in apart:
            refused += each
        holds(refused == together[2], "a message changes what is refused of another", (refused, together[2]))
        if kind == "json":
            for each, alone in zip(messages, apart, strict=True):
                _json_counts(each, alone)


def _decoded(
    messages: list[bytes | None], payload: Payload, fields: Any
) -> tuple[list[Any], list[int], Counter[str]]:
    """Rows, the message of each, and refusals by type."""
    decoded, message_of = decode_messages(pa.array(messages, pa.binary()), payload, fields)
    table = decoded.table
    places = message_of[table[LINE].to_numpy()] if table.num_rows else np.zeros(0, np.int64)
    holds(np.all(np.diff(places) >= 0), "events are not in the order of their messages", places)
    names = [name for name in table.column_names if name.startswith("$payload")]
    shown = table.select(names).rename_columns([name.replace("$", "") for name in names])
    rows = rows_of(shown) if names else [{}] * table.num_rows
    refused: Counter[str] = Counter()
    for each in decoded.rejected:
        refused[each.error_type] += each.count
        holds(0 <= each.first_line < len(messages), "a refusal names no message", each)
    return rows, places.tolist(), refused


def _json_counts(message: bytes | None, read: tuple[list[Any], list[int], Counter[str]]) -> None:
    """A message is an object, or an array of them, or one refusal."""
    rows, _, refused = read
    blank = b" \t\r\n\v\f\xef\xbb\xbf"
    if message is None or not message.strip(blank):
        return
    array = message.strip(blank + b",").startswith(b"[")
    holds(rows or refused or array, "a message is not counted", message)
    event = counting.json_event(message.removeprefix(counting.BYTE_ORDER_MARK))
    if event.verdict is not None and event.verdict:
        holds(
            len(rows) == 1 and not refused, "a message that is an event is not one", (message, rows, refused)
        )
    try:
        whole = json.loads(message.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return
    if isinstance(whole, list):
        found = len(rows) + sum(refused.values())
        holds(found == len(whole), "the events of a message do not add up", (message, found, len(whole)))
