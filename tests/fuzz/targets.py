"""What can be fuzzed: how a trial of each target is made, and how it is checked."""

from __future__ import annotations

import faulthandler
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

from fuzz import files, job_files, messages, projects, queries
from fuzz.trial import BrokenPropertyError, Trial


@dataclass(frozen=True)
class Target:
    """make: a trial from chance. check: raises if the trial breaks something. share: of a campaign."""

    make: Callable[[Random], Trial]
    check: Callable[[Trial], None]
    share: int


def _drill(trial: Trial) -> None:
    """What the watch must survive; asked for by its own tests only."""
    match trial.files["do"]:
        case b"hang":
            time.sleep(3600)
        case b"spin":
            while True:
                pass
        case b"crash":
            faulthandler._sigsegv()  # type: ignore[attr-defined]
        case b"leave":
            os._exit(7)
        case b"break":
            raise BrokenPropertyError("a drill", "broken on purpose")
        case b"fail":
            raise ZeroDivisionError("on purpose")
        case content:
            if b"bad" in content:
                raise ValueError("on purpose")


def _no_drill(rng: Random) -> Trial:
    return Trial("drill", {"do": b""})


TARGETS: Mapping[str, Target] = {
    "query": Target(queries.make, queries.check, 4),
    "file": Target(files.make, files.check, 3),
    "message": Target(messages.make, messages.check, 1),
    "project": Target(projects.make, projects.check, 2),
    "job": Target(job_files.make, job_files.check, 1),
    "drill": Target(_no_drill, _drill, 0),
}


def trial_of(target: str, seed: str) -> Trial:
    """The trial a seed stands for; the same while the repository's queries, projects and the fuzzer are."""
    return replace(TARGETS[target].make(Random(f"{target} {seed}")), seed=seed)
