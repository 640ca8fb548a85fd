"""The toll queries in Flink SQL, in streaming mode on Flink's local cluster, in its best configuration here.

Object reuse, mini-batches, a checkpoint every 10 s to disk, state in the heap or in RocksDB (incremental
checkpoints), as many slots as cores, rows to CSV files, which is the cheapest format that comes with it.
Every reader gets one file in order of arrival (see data.py). Early events give no watermark, for one far
in the future would make everything after it late, and are filtered; the watermark is two minutes behind
the newest event, later rows are dropped, which is less work than the rules of `asa.md` 1.4.

Runs in the environment that flink_home.py makes.
"""

from __future__ import annotations

import shutil
import time

from pyflink.table import EnvironmentSettings, TableEnvironment

from programs import answer, arguments

STREAM = """
    CREATE TABLE `{name}_read` (
        seq BIGINT, `partition` BIGINT, device STRING, event_time BIGINT, arrival_time BIGINT, tolls BIGINT,
        amount DOUBLE, plate STRING,
        `at` AS TO_TIMESTAMP_LTZ(event_time, 3),
        WATERMARK FOR `at` AS CASE WHEN event_time - arrival_time <= 300000
            THEN TO_TIMESTAMP_LTZ(event_time, 3) - INTERVAL '2' MINUTE END
    ) WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'json')
"""
#: Name of a query -> the columns of its rows, the query.
QUERIES = {
    "tumbling": (
        "device STRING, window_end TIMESTAMP(3), n BIGINT, tolls BIGINT, amount DOUBLE",
        """SELECT device, window_end, COUNT(*), SUM(tolls), AVG(amount)
        FROM TABLE(TUMBLE(TABLE toll, DESCRIPTOR(`at`), INTERVAL '1' MINUTE))
        GROUP BY device, window_start, window_end""",
    ),
    "hopping": (
        "device STRING, window_end TIMESTAMP(3), n BIGINT",
        """SELECT device, window_end, COUNT(*)
        FROM TABLE(HOP(TABLE toll, DESCRIPTOR(`at`), INTERVAL '10' SECOND, INTERVAL '60' SECOND))
        GROUP BY device, window_start, window_end""",
    ),
    "session": (
        "device STRING, window_end TIMESTAMP(3), n BIGINT",
        """SELECT device, window_end, COUNT(*)
        FROM TABLE(SESSION(TABLE toll PARTITION BY device, DESCRIPTOR(`at`), INTERVAL '30' SECOND))
        GROUP BY device, window_start, window_end""",
    ),
    "project": (
        "seq BIGINT, device STRING, event_time BIGINT, amount DOUBLE, plate STRING",
        "SELECT seq, device, event_time, amount * 1.1, plate FROM toll WHERE tolls >= 6",
    ),
    "join": (
        "entry_seq BIGINT, exit_seq BIGINT, plate STRING",
        """SELECT e.seq, x.seq, e.plate FROM `entry` e JOIN `exit` x
        ON e.plate = x.plate AND x.`at` BETWEEN e.`at` AND e.`at` + INTERVAL '15' MINUTE""",
    ),
    "lag": (
        "seq BIGINT, device STRING, previous BIGINT",
        "SELECT seq, device, LAG(tolls) OVER (PARTITION BY device ORDER BY `at`) FROM toll",
    ),
}


def main() -> None:
    parser = arguments(tuple(QUERIES))
    parser.add_argument("--backend", choices=("hashmap", "rocksdb"), required=True)
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in {
        "parallelism.default": str(options.cores),
        "pipeline.object-reuse": "true",
        "table.local-time-zone": "UTC",
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "1 s",
        "table.exec.mini-batch.size": "20000",
        "state.backend.type": options.backend,
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.dir": f"file://{options.out.resolve()}/checkpoints",
        "execution.checkpointing.incremental": "true",
        # What a local cluster reserves without being told, 128 MB, would be RocksDB's only cache.
        "taskmanager.memory.managed.size": "1 gb",
    }.items():
        environment.get_config().set(name, value)
    for name in ("entry", "exit") if options.query == "join" else ("toll",):
        environment.execute_sql(STREAM.format(name=name, path=(options.data / name).resolve()))
        environment.execute_sql(
            f"CREATE VIEW `{name}` AS SELECT * FROM `{name}_read` WHERE event_time - arrival_time <= 300000"
        )
    columns, query = QUERIES[options.query]
    rows = (options.out / "rows").resolve()
    environment.execute_sql(f"""
        CREATE TABLE written ({columns})
        WITH ('connector' = 'filesystem', 'path' = 'file://{rows}', 'format' = 'csv')
    """)
    started = time.monotonic()
    environment.execute_sql(f"INSERT INTO written {query}").wait()
    answer(time.monotonic() - started)


if __name__ == "__main__":
    main()
