"""Toll events as messages: the same as `examples/tollbooth/generate.py` writes to files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import duckdb
import pyarrow as pa
from topics import Message, create_topic, send

sys.path.insert(0, str(Path(__file__).parents[1] / "tollbooth"))
from generate import BOOTHS, toll_events, write_stream

__all__ = ["fill_topic", "messages", "toll_events", "write_stream"]


def fill_topic(
    address: str,
    topic: str,
    events: int,
    seed: int = 1,
    stamp: Literal["CreateTime", "LogAppendTime"] = "CreateTime",
) -> int:
    """Make a topic of a partition per booth and fill it with so many toll events; answers how many.

    Keys are devices. With CreateTime a message bears the arrival time of its event, so that every run sees
    the same; with LogAppendTime the broker stamps it now.
    """
    create_topic(address, topic, BOOTHS, stamp)
    return send(address, topic, messages(toll_events(events, seed)))


def messages(table: pa.Table) -> Iterator[Message]:
    """A message for each event, in their order."""
    texts = duckdb.from_arrow(table).query("t", "SELECT CAST(to_json(t) AS VARCHAR) AS value FROM t")
    columns = (table[name].to_pylist() for name in ("device", "partition", "arrival_time"))
    values = texts.fetch_arrow_table()["value"].to_pylist()
    for device, booth, arrival_ms, value in zip(*columns, values, strict=True):
        yield Message(value.encode(), device.encode(), booth, arrival_ms)
