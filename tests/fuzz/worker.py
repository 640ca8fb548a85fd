"""The process that checks trials, one a line; whatever it does, the campaign goes on (see `watch`).

A line in is a trial as JSON. A line out is `{}` for one that holds, else its signature and report. What
native code prints or dies of goes to the standard error, where faulthandler also writes the stack of a hang.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.targets import TARGETS
from fuzz.trial import BrokenPropertyError, Trial


def main() -> None:
    """Check the trials of the standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a print in what is checked is no answer
    warnings.simplefilter("ignore")
    faulthandler.enable()
    stack_seconds = float(sys.argv[1])
    print("{}", file=answers, flush=True)  # ready: what follows is the time of trials
    for line in sys.stdin:
        trial = Trial.from_json(json.loads(line))
        faulthandler.dump_traceback_later(stack_seconds, exit=False)
        answer = _checked(trial)
        faulthandler.cancel_dump_traceback_later()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _checked(trial: Trial) -> dict[str, str]:
    try:
        TARGETS[trial.target].check(trial)
    except MemoryError:
        return {"signature": f"{trial.target}: MemoryError", "report": traceback.format_exc()}
    except Exception as error:
        return {"signature": signature(trial, error), "report": traceback.format_exc(limit=-40)}
    return {}


def signature(trial: Trial, error: BaseException) -> str:
    """The target, what was broken, and the innermost place of the project the error passed through."""
    if isinstance(error, BrokenPropertyError):
        return f"{trial.target}: {error.name}"
    # Of a chain, the first error is the cause.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/tideglass/" in frame.filename]
    place = "outside of the project"
    if frames:
        place = f"in {frames[-1].filename.rsplit('/tideglass/', 1)[1]} {frames[-1].name}"
    if isinstance(error, RecursionError):  # it may surface anywhere in the circle
        place = f"in {frames[-1].filename.rsplit('/tideglass/', 1)[1]}" if frames else place
    return f"{trial.target}: {type(error).__name__} {place}"


if __name__ == "__main__":
    main()
