"""The job that is disturbed in the tests of faults: windows, a join and a filter over two partitions."""

from __future__ import annotations

import random
from pathlib import Path

from support.job_in_process import Folder
from support.restarted import RestartedJob
from support.times import at

QUERY = """SELECT device, COUNT(*) AS n, SUM(v) AS v, System.Timestamp() AS at INTO counts
FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)

SELECT l.device, l.v, r.v AS other INTO pairs FROM events l TIMESTAMP BY t JOIN events r TIMESTAMP BY t
ON l.device = r.device AND DATEDIFF(second, l, r) BETWEEN 1 AND 7

SELECT device, v INTO large FROM events TIMESTAMP BY t WHERE v % 3 = 0"""


def fault_job(folder: Path, files: int = 6) -> RestartedJob:
    """A job whose input is there; it makes a batch of about two files."""
    made = Folder(folder, QUERY, late_seconds=60)
    for number in range(files):
        for partition in range(2):
            made.put(partition, events(partition, range(number * 8, number * 8 + 8)))
    return RestartedJob(made, {"batch_bytes": 1000})


def events(partition: int, numbers: range) -> list[dict[str, object]]:
    """An event every two seconds."""
    return [
        {"device": f"d{n % 3}", "v": n + 100 * partition, "t": at(n * 2), "arrived": at(n * 2 + 1)}
        for n in numbers
    ]


def seeds(count: int) -> list[int]:
    """As many seeds; a test prints the one that failed, and it gives the same faults again."""
    return [random.Random(f"faults {number}").randrange(1 << 31) for number in range(count)]
