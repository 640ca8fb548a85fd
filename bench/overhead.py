"""What observing a job costs: the tumbling benchmark as it is, beside an earlier commit without observation.

    python bench/overhead.py                          4 rounds of pairs, the ratio of their processor time
    python bench/overhead.py --rounds 6 --against 5c3da39

The commit is checked out into `build/bench/against`, and reads the same events with its own code. A round
runs both over a small and a large input, each run in processes of its own; the next round begins with the
other one. Processor time is that of all processes of a run. The ratio of the large runs has the start in it;
that of what the large run took more than the small one has not. Batches are small, so that what is done a
batch counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from data import CACHE, HERE, Prepared
from measure import Measured, measure
from scenarios import SCENARIOS
from tideglass.spark.session.java import use_java

#: The last commit whose tasks report nothing of watermarks, rows and what is held.
BEFORE_OBSERVATION = "5c3da39"
RESULTS = HERE / "overhead.json"
AGAINST = CACHE / "against"
LIMIT_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Pair:
    """One round: processor seconds of both, over the small and over the large input."""

    ours_small: float
    ours_large: float
    theirs_small: float
    theirs_large: float

    @property
    def ratio(self) -> float:
        return self.ours_large / self.theirs_large

    @property
    def ratio_without_start(self) -> float:
        return (self.ours_large - self.ours_small) / (self.theirs_large - self.theirs_small)


def checked_out(commit: str) -> Path:
    """The files of a commit, in a folder of their own."""
    folder = AGAINST / commit
    if not folder.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        git = ["git", "-C", str(HERE.parent), "archive", commit, "tideglass", "bench", "examples"]
        archive = subprocess.run(git, check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", str(part)], input=archive.stdout, check=True)
        part.rename(folder)
    return folder


def once(root: Path, data: Prepared, batches: int, cores: int) -> Measured:
    """One run of the tumbling query with the code of a folder. Raises RunFailed."""
    out = CACHE / "out" / "overhead"
    shutil.rmtree(out, ignore_errors=True)
    size = sum(each.stat().st_size for each in data.root.rglob("*") if each.is_file())
    command = [sys.executable, str(root / "bench" / "tideglass_run.py"), "--query", "tumbling"]
    command += ["--data", str(data.root), "--out", str(out), "--cores", str(cores)]
    command += ["--batch-bytes", str(-(-size // batches))]
    environment: Mapping[str, str] = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(root / "bench"), str(root))),
    }
    return measure(command, environment, CACHE / "last.log", LIMIT_SECONDS)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what observing a job costs.")
    parser.add_argument("--against", default=BEFORE_OBSERVATION, help="a commit without observation")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--small", type=int, default=1_000_000)
    parser.add_argument("--batch-events", type=int, default=100_000)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    os.environ["JAVA_HOME"] = str(use_java().home)
    CACHE.mkdir(parents=True, exist_ok=True)
    os.chdir(CACHE)  # `python -m` looks in the current folder first, which must hold neither code
    kind = SCENARIOS["tumbling"].data
    small, large = (kind.prepare(events, merged=False) for events in (options.small, options.events))
    roots = {"ours": HERE.parent, "theirs": checked_out(options.against)}
    pairs: list[Pair] = []
    for number in range(options.rounds):
        names = list(roots) if number % 2 == 0 else list(roots)[::-1]
        spent: dict[str, float] = {}
        for size, data in (("small", small), ("large", large)):
            for name in names:
                batches = max(1, data.events // options.batch_events)
                run = once(roots[name], data, batches, options.cores)
                spent[f"{name}_{size}"] = run.cpu_seconds
        pairs.append(Pair(**spent))
        made = pairs[-1]
        print(
            f"round {number + 1}: {made.ours_large:.2f} s with, {made.theirs_large:.2f} s without, "
            f"ratio {made.ratio:.3f}, without the start {made.ratio_without_start:.3f}",
            flush=True,
        )
        RESULTS.write_text(
            json.dumps({"options": vars(options), "pairs": [asdict(p) for p in pairs]}, indent=1)
        )
    print(
        f"processor time with observation over that without, medians of {len(pairs)} pairs: "
        f"{median(p.ratio for p in pairs):.3f}; "
        f"without the start: {median(p.ratio_without_start for p in pairs):.3f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
