"""Toll events on a cluster of two workers, one of whose executors is killed, beside a run on this machine.

    python examples/cluster/demo.py        (or: make cluster)

Starts a standalone cluster, runs `examples/cluster/tolls` here and there, kills an executor while the second
runs, and compares the rows byte by byte.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from standalone import Machine, running_cluster

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GENERATOR = HERE.parent / "tollbooth" / "generate.py"
RUN = (sys.executable, "-u", "-m", "tideglass.cli.main", "run", str(HERE / "tolls"), "--once")
#: Small enough for several batches, so that there is one in which to kill.
BATCH_MB = 2


def main() -> int:
    parser = argparse.ArgumentParser(description="Run toll events on a cluster and kill an executor.")
    parser.add_argument("--events", type=int, default=200_000)
    events = parser.parse_args().events
    with tempfile.TemporaryDirectory(prefix="tideglass-cluster-") as folder:
        return compared(Path(folder), events)


def compared(folder: Path, events: int) -> int:
    """0 when the run on the cluster wrote the rows of the run on this machine, else 1."""
    subprocess.run([sys.executable, GENERATOR, "--events", str(events), "--out", folder], check=True)
    words = [
        *RUN,
        "--input",
        f"toll={folder / 'toll'},arrival=arrival_time,arrival-format=epoch_milliseconds,partitions=folders",
    ]
    words += ["--batch-mb", str(BATCH_MB)]
    print("a run on this machine", flush=True)
    subprocess.run([*words, *places(folder, "here"), "--quiet"], check=True, stdout=subprocess.DEVNULL)
    with running_cluster(folder / "cluster", [Machine(python_path=(ROOT,))] * 2) as cluster:
        print(f"a run on {cluster.master}", flush=True)
        with subprocess.Popen(
            [*words, *places(folder, "there"), "--master", cluster.master],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": "python3"},
        ) as driver:
            assert driver.stdout is not None
            killed = False
            for line in driver.stdout:
                print(f"  {line}", end="", flush=True)
                if line.startswith("batch 1:"):
                    time.sleep(0.5)
                    cluster.kill_executor(1)
                    killed = True
                    print("  kill -9 of an executor", flush=True)
        if driver.returncode != 0 or not killed:
            print(f"the run ended with code {driver.returncode}, and {killed=}")
            return 1
    here, there = rows_in(folder / "out-here"), rows_in(folder / "out-there")
    same = here == there
    verdict = "equal" if same else "NOT equal"
    print(f"{len(here):,} rows here, {len(there):,} rows there: {verdict}, byte for byte")
    return 0 if same and here else 1


def places(folder: Path, name: str) -> list[str]:
    """Options that name the places of a run: its job directory and its output."""
    return ["--run-dir", str(folder / f"run-{name}"), "--output", f"perMinute={folder / f'out-{name}'}"]


def rows_in(folder: Path) -> list[bytes]:
    """Every row as it stands in the files, in an order of its own."""
    return sorted(line for file in folder.glob("part-*") for line in file.read_bytes().splitlines())


if __name__ == "__main__":
    sys.exit(main())
