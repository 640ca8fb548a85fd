"""A project on a standalone cluster of this machine: its first row, and what a second worker is worth.

    python bench/cluster_runs.py start --rounds 5
    python bench/cluster_runs.py scale --rounds 3 --events 4000000 --small 400000
    python bench/cluster_runs.py scale --rounds 3 --events 4000000 --small 400000 --share 0.3

start: from the start of the process to the first row of the toll query in a file, beside Spark's first
example of a stream on the same cluster, in turn. scale: events a second with one worker of one core and with
two, in turn; a rate is the events the large input has more, over the seconds its run took more, which takes
start-up out. Where the machine has no more cores than the two workers, the driver, the master and the JVMs'
own threads take theirs from the same cores, so less than twice the rate is what can be had. `--share 0.3`
grants each worker, with all that it starts, so much of a core (a control group of Linux, as root), as if the
workers were slow machines of their own beside a driver that has enough.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "cluster"))

from standalone import Cluster, Machine, running_cluster

from data import CACHE, HERE, Data, Prepared
from output import Output
from started import Project, Started

LIMIT_SECONDS = 600.0
#: What one start may take of the other.
MOST_OF_HELLO = 1.5
TOLL = Data("toll", "json")
#: The control groups of processes whose use of processors is limited, of Linux's first and second version.
FIRST_GROUPS, SECOND_GROUPS = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
PERIOD_MICROSECONDS = 100_000


def project_of(prepared: Prepared) -> Project:
    project = Project(CACHE / "on-a-cluster", "tumbling", prepared.root)
    project.clean()
    return project


def words_of(project: Project, master: str, cores: int) -> list[str]:
    """The command that runs a project to its end on a cluster, laid out for so many cores."""
    tideglass = [sys.executable, "-m", "tideglass.cli.main", "run", str(project.folder), "--allow-outside"]
    return [*tideglass, "--once", "--master", master, "--conf", f"spark.cores.max={cores}"]


def first_row(cluster: Cluster, prepared: Prepared) -> float:
    """Seconds from the start of the process to the first row in a file."""
    project = project_of(prepared)
    run = Started(words_of(project, cluster.master, 2), LIMIT_SECONDS)
    try:
        return run.new_row(Output(project.rows, ("device", "window_end"))) - run.started
    finally:
        run.kill()


def first_word(cluster: Cluster) -> float:
    """The same of Spark's example, over a text file."""
    program, data = str(HERE / "rivals" / "hello_stream.py"), CACHE / "hello"
    data.mkdir(parents=True, exist_ok=True)
    (data / "words.txt").write_text("hello stream of words\n" * 1000)
    words = ["--master", cluster.master, "--data", str(data)]
    run = Started([sys.executable, program, *words], LIMIT_SECONDS)
    run.finish()
    return run.time_of("first row") - run.started


def seconds_of(cluster: Cluster, prepared: Prepared, cores: int) -> float:
    """Seconds that a whole run takes."""
    began = time.monotonic()
    Started(words_of(project_of(prepared), cluster.master, cores), LIMIT_SECONDS).finish()
    return time.monotonic() - began


@contextmanager
def limited(cluster: Cluster, share: float | None) -> Generator[None]:
    """While this lasts, each worker and all that it starts has `share` of a core; None: whatever there is."""
    groups: list[Path] = []
    for process in cluster.processes.values() if share is not None else ():
        quota = int(PERIOD_MICROSECONDS * (share or 0))
        if FIRST_GROUPS.is_dir():
            group = FIRST_GROUPS / f"tideglass-{process.pid}"
            group.mkdir()
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            group = SECOND_GROUPS / f"tideglass-{process.pid}"
            group.mkdir()
            (group / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
        (group / "cgroup.procs").write_text(str(process.pid))
        groups.append(group)
    try:
        yield
    finally:
        for group in groups:  # a group goes once it is empty
            root = group.parent / "cgroup.procs"
            for process_id in (group / "cgroup.procs").read_text().split():
                root.write_text(process_id)
            group.rmdir()


def start(cluster: Cluster, rounds: int) -> None:
    prepared = TOLL.prepare(20_000, False)
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(rounds + 1):
        found = first_row(cluster, prepared), first_word(cluster)
        print(f"round {number}: first row {found[0]:.2f} s, Spark's example {found[1]:.2f} s", flush=True)
        if number:  # in the first one files of the JVM and of Python come from the disk
            ours.append(found[0])
            theirs.append(found[1])
    ratio = median(one / other for one, other in zip(ours, theirs, strict=True))
    print(
        f"first row after {median(ours):.2f} s, of Spark's example after {median(theirs):.2f} s: "
        f"{ratio:.2f} (at most {MOST_OF_HELLO})"
    )


def scale(clusters: Sequence[Cluster], rounds: int, events: int, small: int) -> None:
    """clusters: of one worker, of two."""
    large, few = TOLL.prepare(events, False), TOLL.prepare(small, False)
    rates: list[list[float]] = [[] for _ in clusters]
    for number in range(rounds):
        for found, cluster in zip(rates, clusters, strict=True):
            cores = len(cluster.machines)
            took = seconds_of(cluster, large, cores) - seconds_of(cluster, few, cores)
            found.append((large.events - few.events) / took)
            print(f"round {number + 1}: {cores} workers, {found[-1]:,.0f} events/s", flush=True)
    one, two = rates
    ratio = median(more / less for less, more in zip(one, two, strict=True))
    print(
        f"1 worker {median(one):,.0f} events/s, 2 workers {median(two):,.0f} events/s: {ratio:.2f} times, "
        f"on {os.cpu_count()} cores in all"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("start", "scale"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--small", type=int, default=400_000)
    parser.add_argument("--share", type=float, help="of a core that each worker is granted")
    options = parser.parse_args()
    # Spark plans with the `python3` of the driver's machine, and workers with theirs.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    os.environ |= {"PYSPARK_PYTHON": "python3", "SPARK_LOCAL_IP": "127.0.0.1"}
    machine = Machine(python_path=(HERE.parent,))
    with tempfile.TemporaryDirectory(prefix="tideglass-") as text:
        folder = Path(text)
        with running_cluster(folder / "two", (machine, machine)) as two:
            if options.what == "start":
                start(two, options.rounds)
                return
            with (
                running_cluster(folder / "one", (machine,)) as one,
                limited(one, options.share),
                limited(two, options.share),
            ):
                scale((one, two), options.rounds, options.events, options.small)


if __name__ == "__main__":
    main()
