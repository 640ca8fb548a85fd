"""The kernels whose cost is held: a name, and how to make the work that is measured.

Each works on the same twelve thousand events as a run would, through the in-process driver; what is made
beforehand (decoded chunks, a compiled query) does not count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pyarrow as pa

from tideglass.connect.formats.json.decode import decode_json
from tideglass.connect.in_memory import chunk_of_rows
from tideglass.core.events import Fields
from tideglass.core.time import format_ticks
from tideglass.local import LocalDriver, PartitionBatch
from tideglass.project.settings import from_options
from tideglass.testing import compile_rows

EVENTS = 12_000
SETTINGS = {"late_arrival": "5s", "out_of_order": "2s"}
START_TICKS = 17_672_256_000_000_000
MILLISECOND_TICKS = 10_000

_AT = "SELECT device, COUNT(*) AS n, AVG(v) AS mean, System.Timestamp() AS at INTO o FROM i TIMESTAMP BY t"
QUERIES = {
    "project": "SELECT device, v * 2 AS w, UPPER(kind) AS kind INTO o FROM i TIMESTAMP BY t WHERE v > 50",
    "tumbling": f"{_AT} GROUP BY device, TumblingWindow(second, 10)",
    "hopping": f"{_AT} GROUP BY device, HoppingWindow(second, 60, 10)",
    "sliding": f"{_AT} GROUP BY device, SlidingWindow(second, 5)",
    "session": f"{_AT} GROUP BY device, SessionWindow(second, 2, 60)",
    "substreams": f"{_AT} OVER device GROUP BY device, TumblingWindow(second, 10)",
    "top": "SELECT kind, TopOne() OVER (ORDER BY v DESC) AS top INTO o FROM i TIMESTAMP BY t "
    "GROUP BY kind, TumblingWindow(second, 10)",
    "lag": "SELECT device, v - LAG(v) OVER (PARTITION BY device LIMIT DURATION(minute, 1)) AS step INTO o "
    "FROM i TIMESTAMP BY t",
    "join": "SELECT a.device, b.v INTO o FROM i a TIMESTAMP BY t JOIN i b TIMESTAMP BY t "
    "ON a.device = b.device AND DATEDIFF(second, a, b) BETWEEN 0 AND 2 "
    "WHERE a.kind = 'in' AND b.kind = 'out'",
}


def events() -> list[dict[str, object]]:
    """Events of fifty devices, ten milliseconds apart, every seventh a second behind, every 97th too late."""
    result: list[dict[str, object]] = []
    for n in range(EVENTS):
        arrival_ticks = START_TICKS + n * 10 * MILLISECOND_TICKS
        behind_ms = 20_000 if n % 97 == 0 else 1000 if n % 7 == 0 else 0
        result.append(
            {
                "device": f"device-{n * n % 50}",
                "kind": ("in", "out", "other")[n % 3],
                "v": n * 37 % 101,
                "t": format_ticks(arrival_ticks - behind_ms * MILLISECOND_TICKS),
                "_arrival": format_ticks(arrival_ticks),
            }
        )
    return result


def decoding(note: str) -> Callable[[], object]:
    """JSON lines, each with a note, to columns."""
    texts = pa.array(
        [json.dumps({k: v for k, v in row.items() if k != "_arrival"} | {"note": note}) for row in events()]
    )
    wanted = Fields((("device",), ("v",), ("t",)), False)
    return lambda: decode_json(texts, wanted, "1.2")


def running(query: str) -> Callable[[], object]:
    """A whole query over decoded events, in two batches."""
    rows = events()
    topology = compile_rows(query, {"i": rows}, from_options(SETTINGS)).topology
    fields = topology.fields["i"]
    numbered = list(enumerate(rows))
    half = len(rows) // 2
    chunks = [chunk_of_rows("i", part, fields, topology.level) for part in (numbered[:half], numbered[half:])]

    def work() -> None:
        driver = LocalDriver(topology)
        driver.run([PartitionBatch("i", 0, chunks[:1])])
        driver.run([PartitionBatch("i", 0, chunks[1:])], final=True)

    return work


def _of(query: str) -> Callable[[], Callable[[], object]]:
    return lambda: running(query)


WORK: Mapping[str, Callable[[], Callable[[], object]]] = {
    "decoding": lambda: decoding("plain"),
    "decoding with escapes": lambda: decoding('"escaped"'),
    **{name: _of(query) for name, query in QUERIES.items()},
}
