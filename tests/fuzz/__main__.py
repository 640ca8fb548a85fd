"""The command of the fuzzer: `python tests/fuzz --minutes 60 --seed 7`, or `make fuzz`.

Ends with 1 if anything was found, and with what was found in files that `--again FILE` plays again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.campaign import run
from fuzz.targets import TARGETS
from fuzz.trial import load
from fuzz.watch import TRIAL_SECONDS, Watch


def main() -> int:
    """Run a campaign, or one trial again."""
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (60)")
    parser.add_argument("--seed", default="", help="what chance begins with; without it, the time of day")
    parser.add_argument(
        "--target", action="append", choices=[name for name in TARGETS if TARGETS[name].share]
    )
    parser.add_argument(
        "--findings", type=Path, default=Path("fuzz-findings"), help="where findings are kept"
    )
    parser.add_argument(
        "--seconds", type=float, default=TRIAL_SECONDS, help="processor time a trial may take"
    )
    parser.add_argument("--again", type=Path, help="play the trial of this file again")
    given = parser.parse_args()
    if given.again is not None:
        watch = Watch(given.seconds)
        found = watch.check(load(given.again))
        watch.close()
        print("nothing is broken" if found is None else f"{found.signature}\n\n{found.report}")
        return int(found is not None)
    seed = given.seed or str(int(time.time()))
    return run(given.target, seed, given.minutes * 60, given.findings, given.seconds)


if __name__ == "__main__":
    sys.exit(main())
