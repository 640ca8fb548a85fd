"""State as this version writes it, kept in the repository for the versions to come.

`PYTHONPATH=tests python -m support.state_fixture` writes `format-N.json.gz` for
the format of today: for every query below the state of all its operators and input partitions in the middle
of its events. A file that is there stays as it is: it stands for what users have on their disks. Queries that
none of them has get a file of their own, `format-N-2.json.gz` and so on.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oracle.strategies import iso
from support.harness import checkpoint, chunks_of, compiled_for, exact, queues_of, restored
from tideglass.job.start.manifest import STATE_FORMAT
from tideglass.local import LocalDriver, PartitionBatch, rows_by_output
from tideglass.plan.fingerprint import state_ids, state_parts
from tideglass.plan.topology import Topology
from tideglass.testing import rows_in_order

FOLDER = Path(__file__).parents[1] / "fixtures" / "state"

EVENTS = "events TIMESTAMP BY t"
OTHERS = "others TIMESTAMP BY t"
#: One for each thing that has state.
QUERIES = {
    "rows that wait": f"SELECT k, v INTO o FROM {EVENTS}",
    "tumbling": f"SELECT k, COUNT(*) AS n, SUM(v) AS s, AVG(v) AS a, MIN(v) AS low INTO o FROM {EVENTS} "
    "GROUP BY k, TumblingWindow(second, 10)",
    "hopping": f"SELECT k, MAX(v) AS m, STDEV(v) AS d INTO o FROM {EVENTS} "
    "GROUP BY k, HoppingWindow(second, 9, 3)",
    "sliding": f"SELECT k, COUNT(*) AS n INTO o FROM {EVENTS} GROUP BY k, SlidingWindow(second, 4)",
    "session": f"SELECT k, COUNT(*) AS n, COLLECT() AS c INTO o FROM {EVENTS} "
    "GROUP BY k, SessionWindow(second, 3, 12)",
    "snapshot": f"SELECT COUNT(DISTINCT k) AS n INTO o FROM {EVENTS} GROUP BY System.Timestamp()",
    "windows over windows": f"WITH s AS (SELECT k, SUM(v) AS s FROM {EVENTS} "
    "GROUP BY k, TumblingWindow(second, 2)) SELECT SUM(s) AS s, COUNT(*) AS n INTO o FROM s "
    "GROUP BY TumblingWindow(second, 8)",
    "join": f"SELECT events.k AS k, others.v AS w INTO o FROM {EVENTS} JOIN {OTHERS} "
    "ON events.k = others.k AND DATEDIFF(second, events, others) BETWEEN 0 AND 5",
    "left join": f"SELECT events.k AS k, others.v AS w INTO o FROM {EVENTS} LEFT JOIN {OTHERS} "
    "ON events.k = others.k AND DATEDIFF(second, events, others) BETWEEN -2 AND 2 AND others.v > 3",
    "analytic": f"SELECT k, LAG(v) OVER (PARTITION BY k LIMIT DURATION(second, 9)) AS p, "
    "ISFIRST(second, 5) OVER (PARTITION BY k) AS f, "
    "LAST(v) OVER (PARTITION BY k LIMIT DURATION(second, 9) WHEN v > 4) AS l, "
    f"SUM(v) OVER (PARTITION BY k LIMIT DURATION(second, 6)) AS s INTO o FROM {EVENTS}",
    "substreams of whole partitions": "SELECT k, COUNT(*) AS n INTO o "
    "FROM events TIMESTAMP BY t OVER k, PartitionId PARTITION BY PartitionId "
    "GROUP BY k, PartitionId, TumblingWindow(second, 5)",
}
SETTINGS = {"late_arrival": "20s", "out_of_order": "3s"}
PARTITIONS = 2
BATCH_ROWS = 8
#: Of the batches below, so many lie before the state.
BATCHES_BEFORE = 3


def events(seed: int) -> list[dict[str, Any]]:
    """Events of no chance: out of order, values of several types, a NULL key now and then."""
    return [
        {
            "_arrival": iso(n),
            "_partition": (n * seed) % PARTITIONS,
            "t": iso(n - (n * seed) % 5),
            "k": None if n % 17 == 0 else "abc"[(n * n + seed) % 3],
            "v": n % 7 if n % 4 else (n % 7) + 0.25,
        }
        for n in range(60)
    ]


def batches(topology: Topology) -> list[list[PartitionBatch]]:
    """The events in batches."""
    queues = queues_of(topology, {"events": events(1), "others": events(3)}, PARTITIONS)
    longest = max(len(rows) for rows in queues.values())
    return [
        [
            PartitionBatch(
                name, partition, chunks_of(topology, name, rows[first : first + BATCH_ROWS], first, 1000)
            )
            for (name, partition), rows in queues.items()
        ]
        for first in range(0, longest, BATCH_ROWS)
    ]


def rows_behind(topology: Topology, driver: LocalDriver, first: int) -> dict[str, list[str]]:
    """What a driver gives of the batches from `first` on, to the end."""
    left = batches(topology)[first:]
    messages = [m for n, batch in enumerate(left, 1) for m in driver.run(batch, final=n == len(left))]
    return exact({name: rows_in_order(parts) for name, parts in rows_by_output(topology, messages).items()})


def topology_of(query: str) -> Topology:
    return compiled_for(query, {}, SETTINGS).topology


def state_of(query: str) -> dict[str, Any]:
    """The state in the middle of a query's events, as plain JSON; operators by their place in the plan."""
    topology = topology_of(query)
    driver = LocalDriver(topology)
    for batch in batches(topology)[:BATCHES_BEFORE]:
        driver.run(batch)
    saved, numbers = checkpoint(driver), state_ids(topology)
    return {
        "query": query,
        "parts": state_parts(topology),
        "scans": [[*place, _text(body)] for place, body in saved["scans"].items()],
        "held_by": list(numbers),
        "stages": [
            {
                "level": level,
                "key_group": key_group,
                "operator": numbers.index(state_id),
                "chunks": {
                    str(bucket): [_text(chunk) for chunk in chunks] for bucket, chunks in buckets.items()
                },
                "named": {name: _text(value) for name, value in named.items()},
            }
            for (level, key_group, state_id), (buckets, named) in saved["stages"].items()
        ],
    }


def resumed(saved: Mapping[str, Any]) -> LocalDriver:
    """A driver of today with state of a fixture, its operators found by their place in the plan."""
    topology = topology_of(saved["query"])
    numbers = state_ids(topology)
    stages = {
        (each["level"], each["key_group"], numbers[each["operator"]]): (
            {int(bucket): [_bytes(chunk) for chunk in chunks] for bucket, chunks in each["chunks"].items()},
            {name: _bytes(value) for name, value in each["named"].items()},
        )
        for each in saved["stages"]
    }
    scans = {(name, partition): _bytes(body) for name, partition, body in saved["scans"]}
    return restored(topology, {"scans": scans, "stages": stages})


def _text(body: bytes) -> str:
    return base64.b64encode(body).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def states_of_today() -> dict[str, Any]:
    """By name, all states that were written in the format of today."""
    return {
        name: each
        for path in FOLDER.glob(f"format-{STATE_FORMAT}*.json.gz")
        for name, each in json.loads(gzip.decompress(path.read_bytes()))["states"].items()
    }


def main() -> None:
    known = states_of_today()
    states = {name: state_of(query) for name, query in QUERIES.items() if name not in known}
    if not states:
        raise SystemExit(
            "all are there, and what was written once stays; a change of the format has a new number"
        )
    files = len(list(FOLDER.glob(f"format-{STATE_FORMAT}*.json.gz")))
    path = FOLDER / f"format-{STATE_FORMAT}{f'-{files + 1}' if files else ''}.json.gz"
    content = {"state_format": STATE_FORMAT, "states": states}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(content, indent=0).encode(), mtime=0))


if __name__ == "__main__":
    main()
