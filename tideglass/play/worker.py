"""The process attempts run in: `python -m tideglass.play.worker`, a line per playground or attempt.

    P<playground>    what is played with from now on; nothing is answered
    E<attempt>    run it; the answer is its outcome, one line

It has no secrets of the machine: its environment is made for it, and it reads no file for an attempt.
"""

from __future__ import annotations

import json
import resource
import sys

from tideglass.play.attempt import ATTEMPT, OUTCOME, PLAYGROUND, Attempt, Outcome, Playground, Problem
from tideglass.play.evaluation import play

#: Beside what the process holds once all is imported; an attempt beyond it fails.
_MEGABYTES = 1024
#: Longer texts of errors are for logs.
_MOST_CHARACTERS = 2_000


def main() -> None:
    """Serve until the input ends."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit_memory()
    playground = None
    answers = sys.stdout.buffer
    for line in sys.stdin.buffer:
        kind, content = line[:1], json.loads(line[1:])
        if kind == b"P":
            playground = PLAYGROUND.of_plain(content)
        elif playground is not None:
            answers.write(OUTCOME.body(outcome_of(playground, ATTEMPT.of_plain(content))) + b"\n")
            answers.flush()


def outcome_of(playground: Playground, attempt: Attempt) -> Outcome:
    """What becomes of an attempt; a fault of the engine is a problem like any other."""
    try:
        return play(playground, attempt)
    except MemoryError:
        return Outcome(problems=(Problem("TOO_MUCH", "it takes too much memory", "try fewer events"),))
    except Exception as error:
        words = f"the engine failed: {type(error).__name__}: {error}"[:_MOST_CHARACTERS]
        return Outcome(problems=(Problem("FAULT", words, "this is a fault of tideglass; please report it"),))


def _limit_memory() -> None:
    try:
        with open("/proc/self/status") as status:
            held = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))
    except (OSError, StopIteration):
        return
    most = held + (_MEGABYTES << 20)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


if __name__ == "__main__":
    main()
