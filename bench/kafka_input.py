"""The events of prepared files as topics, on a broker that the benchmark starts for them and ends."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from data import CACHE, Data, Prepared

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "kafka"))
from broker import running_broker
from topics import Message, create_topic, send


@dataclass(slots=True)
class Topics:
    """The topics of one broker, each the events of a stream on disk: a partition a booth, in its order.

    A message bears the arrival time of its event (CreateTime), so every reader sees the times of the files.
    """

    address: str
    _filled: dict[Path, str] = field(default_factory=dict[Path, str])

    def of(self, data: Data, prepared: Prepared) -> str:
        """The topic of these events, filled when it is first asked for."""
        if prepared.root not in self._filled:
            (stream,) = data.names
            name = f"{stream}-{len(self._filled)}"
            booths = sorted((prepared.root / stream).iterdir(), key=lambda folder: int(folder.name))
            create_topic(self.address, name, len(booths), "CreateTime")
            send(self.address, name, (each for folder in booths for each in _messages(folder)))
            self._filled[prepared.root] = name
        return self._filled[prepared.root]


@contextmanager
def running_topics() -> Generator[Topics]:
    """A broker without topics, gone with all it held at the end. Raises JarsUnavailable."""
    folder = CACHE / "broker"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with running_broker(folder) as address:
            yield Topics(address)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _messages(booth: Path) -> Iterator[Message]:
    rows = duckdb.connect().execute(f"""
        SELECT CAST(json AS VARCHAR), json ->> '$.device', CAST(json ->> '$.arrival_time' AS BIGINT)
        FROM read_ndjson_objects('{booth}/*.json')
    """)
    number = int(booth.name)
    while found := rows.fetchmany(10_000):
        for text, device, arrival_ms in found:
            yield Message(text.encode(), device.encode(), number, arrival_ms)
