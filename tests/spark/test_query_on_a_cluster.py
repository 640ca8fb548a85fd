"""`tideglass.query` on a standalone cluster gives the rows of this process, also after a kill."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.cluster import Cluster, driver_environment
from tideglass.testing import run

QUERY = (
    "SELECT d, COUNT(*) AS n, SUM(v) AS s INTO o FROM i TIMESTAMP BY t GROUP BY d, TumblingWindow(second, 10)"
)
#: Prints a line when the session is there, waits for one, and prints the rows.
PROGRAM = f"""
import json, sys
from pyspark.sql import SparkSession
from tideglass.spark.session.java import use_java
import tideglass

use_java()
builder = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
rows = json.loads(sys.stdin.readline())
df = spark.createDataFrame(rows, "t string, d string, v double, o long").repartition(4)
frame = tideglass.FrameInput(df, arrival="t", offset="o")
found = tideglass.query(spark, {QUERY!r}, {{"i": frame}})["o"]
print("ready", flush=True)
sys.stdin.readline()
for row in found.collect():
    print(json.dumps(row.asDict()))
spark.stop()
"""


@pytest.mark.versions
def test_a_query_on_a_cluster_gives_the_rows_of_this_process_also_after_an_executor_is_killed(
    cluster: Cluster,
) -> None:
    rows = [(f"2026-01-01T00:{n // 60:02d}:{n % 60:02d}Z", f"d{n % 7}", n / 3, n) for n in range(2000)]
    events = [{"t": t, "d": d, "v": v, "_arrival": t} for t, d, v, _ in rows]
    expected = run(QUERY, inputs={"i": events})["o"]
    assert sum(row["n"] for row in expected) == 2000
    command = [sys.executable, "-c", PROGRAM, cluster.master]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=driver_environment()
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdin is not None
        try:
            driver.stdin.write(json.dumps(rows) + "\n")
            driver.stdin.flush()
            assert driver.stdout.readline() == "ready\n"
            cluster.wait_for_executors(0)
            cluster.wait_for_executors(1)
            driver.stdin.write("\n")
            driver.stdin.flush()
            cluster.kill_executor(1)
            printed = [json.loads(line) for line in driver.stdout]
        finally:
            driver.kill()

    def in_order(found: list[dict[str, object]]) -> list[str]:
        return sorted(json.dumps(row) for row in found)

    assert in_order(printed) == in_order(expected)


def test_a_worker_whose_machine_has_gone_can_be_started_again(cluster: Cluster) -> None:
    cluster.kill_machine(0)
    assert 0 not in cluster.processes
    cluster.start_worker(0)
    assert cluster.executors(0) == []
