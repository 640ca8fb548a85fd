"""Runs one toll query with tideglass; prints the seconds from the start of the query to its end."""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

from tideglass.compile import compile_query
from tideglass.connect.spec import Arrival, InputSpec, OutputSpec
from tideglass.core.errors import Source
from tideglass.job.runner import Job, RunOptions, run
from tideglass.job.settings import from_options
from tideglass.spark.session import local_session

QUERIES = Path(__file__).parent / "toll"

#: The rivals' watermark is two minutes; so are our tolerances.
SETTINGS = {"late_arrival": "2m", "out_of_order": "2m", "policy": "adjust"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--query", required=True)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--format", default="json")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--batch-mb", type=int, default=512)
    options = parser.parse_args()
    settings = from_options(SETTINGS)
    path = QUERIES / f"{options.query}.asaql"
    compiled = compile_query(
        Source(path.read_text(), path.name), settings.policies(), key_groups=options.cores
    )
    shutil.rmtree(options.out, ignore_errors=True)
    arrival = Arrival(path=("arrival_time",), format="epoch_milliseconds")
    toll = InputSpec(
        name="toll", path=options.input, format=options.format, partitions="folders", arrival=arrival
    )
    job = Job(
        name=options.query,
        compiled=compiled,
        settings=settings,
        inputs={"toll": toll},
        outputs={"result": OutputSpec(name="result", path=options.out / "rows", format="parquet")},
        run_directory=options.out / "run",
        options=RunOptions(once=True, cores=options.cores, batch_bytes=options.batch_mb << 20),
    )
    spark = local_session(options.cores, options.out / "spark.log")
    started = time.monotonic()
    metrics = run(job, lambda n, given, _: print(f"batch {n}: {time.monotonic() - started:.1f} s"), spark)
    print(f"rows {metrics.output_rows}")
    print(f"seconds {time.monotonic() - started:.3f}")
    spark.stop()


if __name__ == "__main__":
    main()
