"""Chains of windows in tideglass, one job after the other, for propagation.py: rows to standard output."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from tideglass.compile import compile_query
from tideglass.connect.console import ConsoleOutput
from tideglass.connect.files.input import FileInput
from tideglass.connect.spec import InputSpec
from tideglass.core.errors import Source
from tideglass.core.json_rows import rows_of
from tideglass.job.directory import JobDirectory
from tideglass.job.options import JobPlan, RunOptions
from tideglass.job.outputs import BatchRows
from tideglass.job.report.metrics import Metrics
from tideglass.job.runner import run
from tideglass.project.settings import from_options
from tideglass.spark.session.spark_session import local_session

#: No tolerance, as Flink's watermark here has none; what arrives late is not asked.
SETTINGS = {"out_of_order": "0s"}


def chain(stages: int) -> str:
    """The query: every stage groups by another key, so that its rows cross between tasks."""
    steps = [
        "s1 AS (SELECT (k + 1) % 16 AS k, COUNT(*) AS n FROM e "
        "TIMESTAMP BY DATEADD(millisecond, t, '1970-01-01T00:00:00Z') GROUP BY k, TumblingWindow(second, 1))"
    ]
    steps += [
        f"s{number} AS (SELECT (k + 1) % 16 AS k, SUM(n) AS n FROM s{number - 1} "
        "GROUP BY k, TumblingWindow(second, 1))"
        for number in range(2, stages + 1)
    ]
    return f"WITH {', '.join(steps)} SELECT k, n, System.Timestamp() AS window_end INTO result FROM s{stages}"


def on_batch(number: int, rows: BatchRows, metrics: Metrics) -> None:
    for _, shown in rows.shown:
        for row in rows_of(shown):
            print(row["k"], row["n"], row["window_end"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--stages", type=int, nargs="+", required=True)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    settings = from_options(SETTINGS)
    spark = local_session(options.cores, options.data / "spark.log")
    for stages in options.stages:
        compiled = compile_query(Source(chain(stages)), settings, key_groups=options.cores)
        assert compiled.topology.levels == stages, "every stage has an exchange of its own"
        directory = JobDirectory(options.data / f"run-{stages}")

        def stop_when_asked(directory: JobDirectory = directory) -> None:
            sys.stdin.readline()
            directory.stop.write_text("")

        threading.Thread(target=stop_when_asked, daemon=True).start()
        files = InputSpec(name="e", path=options.data / str(stages), format="json", finished=False)
        job = JobPlan(
            name=f"chain-{stages}",
            compiled=compiled,
            settings=settings,
            inputs={"e": FileInput(files)},
            outputs={"result": ConsoleOutput("result")},
            run_directory=directory.path,
            options=RunOptions(cores=options.cores),
        )
        run(job, on_batch, spark, lambda start, stages=stages: print(f"started {stages}", flush=True))


if __name__ == "__main__":
    main()
