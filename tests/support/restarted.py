"""A job that is stopped and started again in this process, as Spark would do it.

What a run holds in memory is forgotten between two runs. What Spark keeps in its checkpoint (the offsets of a
batch, logged before it runs, and the state after it) is kept here, by generation and batch, so that a job
directory of which an old copy was restored finds the state of its own last batch.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.job_in_process import Folder, RunInProcess
from tideglass.operators.state.store import MemoryState

States = dict[tuple[int, int, int], MemoryState]


@dataclass
class RestartedJob:
    """A job whose runs follow each other; each forgets what is not on the disk.

    folder: the project.
    options: of each run.
    """

    folder: Folder
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    states: dict[tuple[str, int], States] = field(default_factory=dict[tuple[str, int], States])

    def run(self, each: Callable[[int], object] = lambda _: None) -> int:
        """A run until nothing more is there; how many batches it committed.

        each: called with the number of every batch before it.
        """
        with RunInProcess(self.folder.job(once=True, **self.options)) as run:
            generation, done = run.committer.generation, 0
            committed = _newest(generation.local / "checkpoint" / "commits")
            logged = _newest(generation.local / "checkpoint" / "offsets")
            if committed is not None:
                run.states = copy.deepcopy(self.states[generation.name, committed])
                run.offset, run.number = _offset(generation.local, committed), committed + 1
            while True:
                each(run.number)
                again = logged == run.number
                before = run.offset
                if again:  # it was logged, and what it reads stands
                    end = _offset(generation.local, run.number)
                    run.reader.latestOffset = lambda *_, end=end: end  # type: ignore[method-assign]
                ran = run.batch()
                if again:
                    del run.reader.latestOffset
                if not ran:
                    run.committer.finish()
                    return done
                assert run.offset != before
                self.states[generation.name, run.number - 1] = copy.deepcopy(run.states)
                done += 1

    def rows(self) -> dict[str, list[str]]:
        """What a reader of each output finds, in order."""
        found: dict[str, list[str]] = {}
        for part in sorted(self.folder.path.glob("LocalRunOutputs/*/part-*")):
            found.setdefault(part.parent.name, []).extend(part.read_text().splitlines())
        return {name: sorted(rows) for name, rows in found.items()}


def _newest(log: Path) -> int | None:
    """The newest batch of a log of Spark."""
    return max((int(file.name) for file in log.glob("*") if file.name.isdigit()), default=None)


def _offset(generation: Path, batch: int) -> dict[str, Any]:
    """What Spark has logged as the end of a batch."""
    return json.loads((generation / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()[2])
