"""The toll example on a real Kafka broker, from topic to topic, beside the same events in files.

    python examples/kafka/demo.py        (or: make kafka)

Starts a broker, sends toll events to a topic of four partitions, runs `examples/tollbooth` on it with Spark's
own connector, reads the topics it has written, and compares them row by row with a run over files.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from broker import running_broker
from jars import JarsUnavailable, connector_jars
from rich.console import Console
from tolls import fill_topic, toll_events, write_stream
from topics import create_topic, read

from tideglass.cli.run import progress_table, run_with_progress
from tideglass.connect.files.written_rows import read_rows
from tideglass.core.errors import TideglassError
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.project.project import Project, ProjectInput, load_project

PROJECT = Path(__file__).parents[1] / "tollbooth"
OUTPUTS = ("perMinute", "expensive")
#: What only a message has: files have no key.
OF_MESSAGES = ("sender",)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the toll example on a real Kafka broker.")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="tideglass-kafka-") as folder:
        try:
            return compared(Path(folder), options.events, options.cores, console)
        except (JarsUnavailable, TideglassError) as error:
            console.print(str(error), style="red", markup=False)
            return 1


def compared(folder: Path, events: int, cores: int, console: Console) -> int:
    """0 when the topics hold the rows of the files, else 1."""
    project = load_project(PROJECT)
    with running_broker(folder / "broker") as address:
        console.print(f"a broker at {address}")
        began = time.monotonic()
        count = fill_topic(address, "toll", events)
        console.print(f"{count:,} messages sent in {time.monotonic() - began:.1f} s")
        for name in OUTPUTS:
            create_topic(address, name, 4)
        os.environ["KAFKA_SERVERS"] = address
        live = RunOptions(
            once=True, live=True, jars=connector_jars(), cores=cores, run_directory=folder / "live"
        )
        console.print(progress_table(run_with_progress(plan_job(project, live), console)))
        found = {name: [json.loads(each.value or b"") for each in read(address, name)] for name in OUTPUTS}
    write_stream(toll_events(events), folder / "toll", "json")
    outputs = {name: str(folder / name) for name in OUTPUTS}
    of_files = RunOptions(once=True, cores=cores, run_directory=folder / "files", outputs=outputs)
    run_with_progress(plan_job(with_files(project, folder / "toll"), of_files), console, quiet=True)
    same = True
    for name in OUTPUTS:
        expected = read_rows(folder / name)
        equal = bag(found[name]) == bag(expected)
        same &= equal and bool(expected)
        console.print(
            f"{name}: {len(found[name]):,} messages, "
            f"{'the rows' if equal else 'NOT the rows'} of a run over files ({len(expected):,})"
        )
    return 0 if same else 1


def with_files(project: Project, path: Path) -> Project:
    """The project with its input from files that say when each event arrived."""
    toll = ProjectInput(
        "toll",
        "stream",
        "local file",
        path,
        "json",
        partitions="folders",
        arrival="arrival_time",
        arrival_format="epoch_milliseconds",
    )
    return replace(project, inputs={"toll": toll})


def bag(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """The rows without regard to their order."""
    return Counter(
        json.dumps({name: value for name, value in row.items() if name not in OF_MESSAGES}, sort_keys=True)
        for row in rows
    )


if __name__ == "__main__":
    sys.exit(main())
