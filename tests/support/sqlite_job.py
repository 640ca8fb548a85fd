"""The job docs/extending.md shows, batch by batch in one process: prints what its output holds after each.

Run as a script in the folder that holds the project, where the page's package is on the path.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from tideglass.connect.output import Batch
from tideglass.engine.messages import Kind, Message
from tideglass.engine.output_filter import emitted_messages
from tideglass.engine.snapshots import Snapshots
from tideglass.job.options import JobPlan, RunOptions
from tideglass.job.output_publisher import OutputPublisher
from tideglass.job.outputs import TaskSink
from tideglass.job.plan import plan_job
from tideglass.project.project import load_project
from tideglass.spark.file_source import JobReader, SourceJob
from tideglass.spark.key_numbers import key_numbers

DATABASE = "heat/heat.db"


def insert(*temperatures: int) -> None:
    with sqlite3.connect(DATABASE) as made:
        made.execute(
            "CREATE TABLE IF NOT EXISTS readings (id INTEGER PRIMARY KEY, at, arrived, device, temperature)"
        )
        for each in temperatures:
            at = f"2026-01-01T00:00:{each:02}Z"
            made.execute(
                "INSERT INTO readings (at, arrived, device, temperature) VALUES (?, ?, 'a', ?)",
                (at, at, each),
            )


def written() -> list[str]:
    with sqlite3.connect(DATABASE) as made:
        return [row for (row,) in made.execute("SELECT row FROM hot ORDER BY row")]


def batch(job: JobPlan, start: dict[str, Any] | None, number: int) -> dict[str, Any]:
    """One batch of a process that has just started, done twice; the offset at its end."""
    topology = job.compiled.topology
    source = JobReader(
        SourceJob(
            topology=topology,
            inputs=tuple(job.inputs.values()),
            snapshots=Snapshots("ingress"),
            sink=TaskSink(job.outputs),
            key_numbers=key_numbers(1),
            finished=False,
            batch_bytes=1 << 20,
            idle_seconds=60.0,
            tasks=1,
            stop_file="stop",
        )
    )
    start = source.initialOffset() if start is None else start
    end = source.latestOffset(start, ReadAllAvailable())
    for _ in range(2):  # a batch that is run again changes nothing
        messages = [
            Message(**{**row, "kind": Kind(row["kind"])})
            for share in source.partitions(start, end)
            for each in source.read(share)
            for row in each.to_pylist()
        ]
        publisher = OutputPublisher(job.outputs)
        publisher.publish(Batch(1, number), emitted_messages(messages), topology.outputs)
    return end


def main() -> None:
    insert(20, 31, 32)
    project = load_project(Path("heat"))
    assert not project.unsupported, project.unsupported
    job = plan_job(project, RunOptions(live=True, key_groups=1))
    first = batch(job, None, 0)
    print(written())
    insert(33, 10, 34)
    second = batch(job, first, 1)
    print(written())
    assert batch(job, second, 2) == second
    for output in job.outputs.values():
        output.withdraw(Batch(1, 0))
    print(written())


if __name__ == "__main__":
    main()
