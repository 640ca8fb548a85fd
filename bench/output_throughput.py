"""Rows a second that outputs of files take on Spark, beside Spark's own writers of the same rows.

    python bench/output_throughput.py                 a million rows, the best of three rounds
    python bench/output_throughput.py --rows 4000000 --cores 4

Rows lie in a Parquet file. Both read it with the same tasks: Spark's writer writes a folder of it, ours
stages files in the tasks and publishes them on the driver, as a batch of a job does. Neither reads events,
keeps time or computes. The first round of each is not counted: it starts Python and compiles.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from data import CACHE
from tideglass.connect.files.folder_pattern import FolderPattern
from tideglass.connect.files.output import FileOutput
from tideglass.connect.files.partitioned_output import PartitionedFileOutput
from tideglass.connect.output import Batch, OutputConnector
from tideglass.core.ipc import from_bytes, to_bytes
from tideglass.core.time import TICKS_PER_SECOND
from tideglass.core.types import SYSTEM_TIMESTAMP, Type, field
from tideglass.spark.session.java import use_java
from tideglass.storage import storage_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDER = CACHE / "output_throughput"
_START_TICKS = 17_730_000_000_000_000
#: A table a task hands to an output, as many rows as a batch of Arrow has there.
_ROWS_AT_ONCE = 100_000


def write_rows(path: Path, count: int) -> None:
    """Rows of four columns over six hours: about 100 bytes each as JSON."""
    numbers = np.arange(count)
    table = pa.table(
        {
            SYSTEM_TIMESTAMP: _START_TICKS + numbers * (6 * 3600 * TICKS_PER_SECOND // count),
            "id": numbers,
            "device": pa.array([f"device-{number % 1000:04d}" for number in range(count)]),
            "temperature": np.random.default_rng(7).normal(20, 5, count),
            "note": pa.array(["nothing to say of it"] * count),
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(table, path, row_group_size=_ROWS_AT_ONCE)


def ours(spark: SparkSession, rows: Path, output: OutputConnector) -> None:
    """One batch of an output."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        for number, batch in enumerate(batches):
            table = pa.Table.from_batches([batch])
            names = table.column_names
            fields = [field(name, Type.DATETIME) if name[0] == "$" else table.field(name) for name in names]
            staged = output.stage(table.cast(pa.schema(fields)), f"{part}/{number}")
            yield pa.record_batch({"staged": [to_bytes(staged)]})

    found = spark.read.parquet(str(rows)).mapInArrow(stage, "staged binary").collect()
    output.publish(Batch(1, 0), [from_bytes(bytes(row["staged"])) for row in found])


def plain(spark: SparkSession, rows: Path, target: Path, form: str) -> None:
    """Spark's own writer."""
    spark.read.parquet(str(rows)).drop(SYSTEM_TIMESTAMP).write.format(form).save(str(target))


def best_seconds(write: Callable[[Path], None], rounds: int) -> float:
    """Of a number of rounds, each to an empty folder."""
    seconds: list[float] = []
    for _ in range(rounds + 1):
        target = _FOLDER / "target"
        shutil.rmtree(target, ignore_errors=True)
        began = time.monotonic()
        write(target)
        seconds.append(time.monotonic() - began)
    return min(seconds[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    use_java()
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    spark = (
        builder.master(f"local[{chosen.cores}]")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", str(_ROWS_AT_ONCE))
        .config("spark.sql.files.maxPartitionBytes", str(8 << 20))
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    rows = _FOLDER / "rows.parquet"
    write_rows(rows, chosen.rows)
    hourly = FolderPattern("{date}/{time}")

    def folder(form: str) -> Callable[[Path], None]:
        return lambda target: ours(spark, rows, FileOutput("o", storage_path(target), form))

    def folders(form: str) -> Callable[[Path], None]:
        return lambda target: ours(
            spark, rows, PartitionedFileOutput("o", storage_path(target), hourly, form)
        )

    measured: dict[str, Callable[[Path], None]] = {
        "Spark, JSON": lambda target: plain(spark, rows, target, "json"),
        "Spark, Parquet": lambda target: plain(spark, rows, target, "parquet"),
        "a folder, JSON": folder("json"),
        "a folder, CSV": folder("csv"),
        "a folder, Avro": folder("avro"),
        "a folder, Parquet": folder("parquet"),
        "{date}/{time}, JSON": folders("json"),
        "{date}/{time}, Parquet": folders("parquet"),
    }
    found = {
        name: round(chosen.rows / best_seconds(write, chosen.rounds)) for name, write in measured.items()
    }
    print(json.dumps({"rows": chosen.rows, "cores": chosen.cores, "rows_per_second": found}, indent=2))


if __name__ == "__main__":
    main()
