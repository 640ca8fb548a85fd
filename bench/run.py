"""Measures tideglass beside its rivals on the same files, in one run.

    make bench                                   tumbling query, JSON, 4 M events, 3 pairs
    python bench/run.py --query hopping --events 10000000 --rounds 5

Each engine runs a small and a large input, in turn with its rivals, every run in a process of its own.
The rate is (events of the large − events of the small) / (seconds of the large − seconds of the small),
which takes start-up out of it; medians over the rounds. All state is durable. Before anything is
timed the results are compared: every row must agree, except rows of windows that hold an event which
the engines treat differently on purpose (late or early ones: rivals drop them, we re-time them).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
CACHE = HERE.parent / "build" / "bench"
GENERATE = HERE.parent / "examples" / "tollbooth" / "generate.py"

ENGINES = {
    "tideglass": HERE / "tideglass_run.py",
    "structured streaming": HERE / "rivals" / "structured_streaming.py",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one engine: seconds it reports, CPU seconds and peak memory of its process tree."""

    seconds: float
    cpu_seconds: float
    peak_mib: float


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure tideglass beside its rivals.")
    parser.add_argument("--query", choices=("tumbling", "hopping", "session", "project"), default="tumbling")
    parser.add_argument("--format", choices=("json", "parquet"), default="json")
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--small", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", action="append", choices=tuple(ENGINES), help="default: all")
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    console = Console(highlight=False)
    engines = options.engine or list(ENGINES)
    small = data(options.small, options.format, console)
    large = data(options.events, options.format, console)
    results: dict[str, list[tuple[Measured, Measured]]] = {name: [] for name in engines}
    for round_ in range(options.rounds):
        for name in engines:
            pair = []
            for path in (small, large):
                console.print(f"round {round_ + 1}: {name}, {path.parent.name} …", style="dim")
                pair.append(measure(name, options, path))
            results[name].append((pair[0], pair[1]))
        if round_ == 0 and len(engines) > 1 and options.query == "tumbling":
            console.print(agreement(large, options.format, engines))
    console.print(report(options, results))


def data(events: int, file_format: str, console: Console) -> Path:
    """The generated events, made once."""
    root = CACHE / f"{file_format}-{events}"
    if not (root / "toll").exists():
        console.print(f"generating {events:,} events …", style="dim")
        command = [sys.executable, str(GENERATE), "--events", str(events), "--out", f"{root}.part"]
        subprocess.run([*command, "--format", file_format], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(root, ignore_errors=True)
        os.replace(f"{root}.part", root)
    return root / "toll"


def measure(name: str, options: argparse.Namespace, path: Path) -> Measured:
    """Run one engine once. Raises SystemExit with its output when it fails."""
    out = CACHE / "out" / name.replace(" ", "-")
    command = [sys.executable, str(ENGINES[name]), "--query", options.query, "--input", str(path)]
    command += ["--format", options.format, "--out", str(out), "--cores", str(options.cores)]
    shutil.rmtree(out, ignore_errors=True)
    log = CACHE / "last.log"
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        peak_mib, cpu_seconds = watch(process)
    text = log.read_text()
    seconds = [line.split()[1] for line in text.splitlines() if line.startswith("seconds ")]
    if process.returncode or not seconds:
        raise SystemExit(f"{name} failed:\n{text[-4000:]}")
    return Measured(float(seconds[-1]), cpu_seconds, peak_mib)


def watch(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Peak memory (MiB) and CPU seconds of the process and all it started.

    A page that several processes share is counted once (each has its part of it).
    """
    ticks = os.sysconf("SC_CLK_TCK")
    peak, cpu = 0.0, {}
    while process.poll() is None:
        total = 0
        for pid in session_pids(process.pid):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            total += proportional_kib(pid)
            cpu[pid] = (int(fields[11]) + int(fields[12])) / ticks
        peak = max(peak, total / 2**10)
        time.sleep(0.2)
    return peak, sum(cpu.values())


def proportional_kib(pid: int) -> int:
    """Memory of one process, shared pages by its share of them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def session_pids(leader: int) -> list[int]:
    """Processes of the session `leader` leads."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == leader:
                found.append(int(entry.name))
    return found


def agreement(path: Path, file_format: str, engines: list[str]) -> str:
    """Compares the rows of the engines; says what is left out and why. SystemExit if any differ."""
    reader = "read_json" if file_format == "json" else "read_parquet"
    events = f"{reader}('{path}/*/*.{file_format}')"
    ours, other = (CACHE / "out" / name.replace(" ", "-") / "rows" for name in engines[:2])
    seconds = f"""
        SELECT device, CAST(ceil({{time}} / 60000.0) AS BIGINT) AS minute FROM {events}
        WHERE event_time - arrival_time > 300000 OR arrival_time - event_time > 120000
    """
    touched = (
        " UNION ".join(seconds.format(time=time) for time in ("event_time", "(arrival_time - 120000)"))
        + f""" UNION SELECT device, CAST(event_time // 60000 AS BIGINT) + n AS minute
        FROM {events}, (VALUES (0), (1)) AS around(n) WHERE event_time % 60000 = 0"""
    )
    minute = "CAST(epoch_ms(CAST(window_end AS TIMESTAMPTZ)) // 60000 AS BIGINT)"
    sql = f"""
        WITH touched AS ({touched}),
        a AS (SELECT device, {minute} AS minute, n, tolls, amount
              FROM read_parquet('{ours}/*.parquet')),
        b AS (SELECT device, {minute} AS minute, n, tolls, amount
              FROM read_parquet('{other}/*.parquet')),
        x AS (SELECT * FROM a WHERE (device, minute) NOT IN (SELECT (device, minute) FROM touched)
              AND minute <= (SELECT max(minute) FROM b)),
        y AS (SELECT * FROM b WHERE (device, minute) NOT IN (SELECT (device, minute) FROM touched))
        SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM x), count(*),
               count(*) FILTER (x.n IS DISTINCT FROM y.n OR x.tolls IS DISTINCT FROM y.tolls
                                OR abs(x.amount - y.amount) > 1e-9 * abs(y.amount)
                                OR x.device IS NULL OR y.device IS NULL)
        FROM x FULL JOIN y USING (device, minute)
    """
    row = duckdb.sql(sql).fetchall()[0]
    rows, compared, joined, differing = row
    if differing:
        raise SystemExit(f"{differing} of {joined} rows differ between {engines[0]} and {engines[1]}")
    return (
        f"{engines[0]} and {engines[1]} agree on {compared:,} rows; {rows - compared:,} more hold "
        "a late, early or boundary event, or are of the last minutes, which only one engine flushes"
    )


def report(options: argparse.Namespace, results: dict[str, list[tuple[Measured, Measured]]]) -> Table:
    """Rates, ratios to the first engine, memory and CPU."""
    table = Table(
        title=f"{options.query}, {options.format}, {options.events:,} events, {options.cores} cores"
    )
    for column in ("engine", "events/s", "tideglass ×", "peak MiB", "CPU s / M events"):
        table.add_column(column, justify="left" if column == "engine" else "right")
    more = options.events - options.small
    rates: dict[str, list[float]] = {
        name: [more / max(large.seconds - small.seconds, 1e-9) for small, large in pairs]
        for name, pairs in results.items()
    }
    first = next(iter(results))
    for name, pairs in results.items():
        ratios = [ours / theirs for ours, theirs in zip(rates[first], rates[name], strict=True)]
        cpu = [(large.cpu_seconds - small.cpu_seconds) / more * 1e6 for small, large in pairs]
        table.add_row(
            name,
            f"{statistics.median(rates[name]):,.0f}",
            f"{statistics.median(ratios):.2f}",
            f"{statistics.median(large.peak_mib for _, large in pairs):,.0f}",
            f"{statistics.median(cpu):.2f}",
        )
    return table


if __name__ == "__main__":
    main()
