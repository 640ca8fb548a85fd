"""Chains of windows in Flink SQL, one job after the other, for propagation.py: rows to the standard output.

Streaming mode on Flink's local cluster, set for low latency: a watermark with every event, buffers flushed at
once, no mini-batches, a look for new files every 10 ms, a checkpoint every 10 s to disk, state in the heap.
There is one task a stage: a second reader of files without one would hold the watermark back, and there is
too little to do for two.

Runs in the environment that flink_home.py makes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pyflink.table import EnvironmentSettings, TableEnvironment

SECOND = "INTERVAL '1' SECOND"


def chain(stages: int) -> str:
    """The query: every stage groups by another key, so that its rows cross between tasks."""
    steps = [
        f"""s1 AS (SELECT MOD(k + 1, 16) AS k, COUNT(*) AS n, window_end, window_time
        FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(`at`), {SECOND}))
        GROUP BY k, window_start, window_end, window_time)"""
    ]
    steps += [
        f"""s{number} AS (SELECT MOD(k + 1, 16) AS k, SUM(n) AS n, window_end, window_time
        FROM TABLE(TUMBLE(TABLE r{number - 1}, DESCRIPTOR(`at`), {SECOND}))
        GROUP BY k, window_start, window_end, window_time),
        r{number} AS (SELECT k, n, window_end AS ended, window_time AS `at` FROM s{number})"""
        for number in range(2, stages + 1)
    ]
    steps.insert(1, "r1 AS (SELECT k, n, window_end AS ended, window_time AS `at` FROM s1)")
    return f"WITH {', '.join(steps)} SELECT k, n, ended FROM r{stages}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--stages", type=int, nargs="+", required=True)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    for stages in options.stages:
        environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        for name, value in {
            "parallelism.default": "1",
            "pipeline.object-reuse": "true",
            "pipeline.auto-watermark-interval": "1 ms",
            "execution.buffer-timeout.interval": "0 ms",
            "table.local-time-zone": "UTC",
            "state.backend.type": "hashmap",
            "execution.checkpointing.interval": "10 s",
            "execution.checkpointing.dir": f"file://{options.data.resolve()}/checkpoints",
        }.items():
            environment.get_config().set(name, value)
        folder = (options.data / str(stages)).resolve()
        environment.execute_sql(f"""
            CREATE TABLE e (
                k BIGINT, t BIGINT, `at` AS TO_TIMESTAMP_LTZ(t, 3), WATERMARK FOR `at` AS `at`
            ) WITH (
                'connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'json',
                'source.monitor-interval' = '10 ms',
                'scan.watermark.emit.strategy' = 'on-event'
            )
        """)
        environment.execute_sql(
            "CREATE TABLE shown (k BIGINT, n BIGINT, ended TIMESTAMP(3)) WITH ('connector' = 'print')"
        )
        job = environment.execute_sql(f"INSERT INTO shown {chain(stages)}").get_job_client()
        print(f"started {stages}", flush=True)
        sys.stdin.readline()
        job.cancel().result()


if __name__ == "__main__":
    main()
