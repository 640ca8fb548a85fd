"""The queries as one batch query of DuckDB over all the files: the floor, without state, order or time.

It knows no time policies, so it is told the outcome: early events are dropped, late ones have the time
that `asa.md` 1.4 gives them (within a tolerance of two minutes nothing is out of order here). Windows are
(start, end]. Its rows are what everyone else's are compared with.
"""

from __future__ import annotations

import shutil
import time

import duckdb

from agreement import EARLY_MS, LATE_MS
from data import Data
from programs import answer, arguments

QUERIES = {
    "tumbling": """
        SELECT device, make_timestamptz((time_ms + 59999) // 60000 * 60000000) AS window_end,
            count(*) AS n, sum(tolls) AS tolls, avg(amount) AS amount
        FROM toll GROUP BY ALL
    """,
    "tumbling-hour": """
        SELECT device, make_timestamptz((time_ms + 3599999) // 3600000 * 3600000000) AS window_end,
            count(*) AS n, sum(tolls) AS tolls, avg(amount) AS amount
        FROM toll GROUP BY ALL
    """,
    "booths": """
        SELECT "partition" AS booth, device,
            make_timestamptz((time_ms + 59999) // 60000 * 60000000) AS window_end,
            count(*) AS n, sum(tolls) AS tolls, avg(amount) AS amount
        FROM toll GROUP BY ALL
    """,
    # Six panes make a window: the rows are counted once, the counts are added up.
    "hopping": """
        WITH panes AS (
            SELECT device, (time_ms + 9999) // 10000 * 10000 AS pane, count(*) AS n FROM toll GROUP BY ALL)
        SELECT device, make_timestamptz(1000 * (pane + 10000 * hop)) AS window_end,
            CAST(sum(panes.n) AS BIGINT) AS n
        FROM panes, range(6) AS hops(hop) GROUP BY ALL
    """,
    "session": """
        WITH opened AS (
            SELECT device, time_ms, coalesce(time_ms - lag(time_ms) OVER earlier > 30000, true) AS opens
            FROM toll WINDOW earlier AS (PARTITION BY device ORDER BY time_ms)),
        numbered AS (
            SELECT device, time_ms, count(*) FILTER (opens) OVER earlier AS number
            FROM opened WINDOW earlier AS (PARTITION BY device ORDER BY time_ms))
        SELECT device, make_timestamptz(1000 * (max(time_ms) + 30000)) AS window_end, count(*) AS n
        FROM numbered GROUP BY device, number
    """,
    "project": "SELECT seq, device, event_time, amount * 1.1 AS amount, plate FROM toll WHERE tolls >= 6",
    "join": """
        SELECT entry.seq AS entry_seq, exit.seq AS exit_seq, entry.plate AS plate
        FROM entry JOIN exit ON entry.plate = exit.plate AND exit.time_ms - entry.time_ms BETWEEN 0 AND 900000
    """,
    "lag": """
        SELECT seq, device,
            lag(tolls) OVER (PARTITION BY device ORDER BY time_ms, arrival_time, "partition", seq) AS previous
        FROM toll
    """,
    "groups": "SELECT device, count(*) AS n FROM toll GROUP BY ALL",
}


def main() -> None:
    options = arguments(tuple(QUERIES)).parse_args()
    data = Data("entry-exit" if options.query == "join" else "toll", options.format)
    shutil.rmtree(options.out, ignore_errors=True)
    (options.out / "rows").mkdir(parents=True)
    started = time.monotonic()
    connection = duckdb.connect(config={"threads": options.cores})
    for stream in data.names:
        connection.execute(f"""
            CREATE VIEW "{stream}" AS
            SELECT *, greatest(event_time, arrival_time - {LATE_MS}) AS time_ms
            FROM {data.files(options.data, stream)} WHERE event_time - arrival_time <= {EARLY_MS}
        """)
    connection.execute(
        f"COPY ({QUERIES[options.query]}) TO '{options.out}/rows/rows.parquet' (FORMAT parquet)"
    )
    answer(time.monotonic() - started)


if __name__ == "__main__":
    main()
