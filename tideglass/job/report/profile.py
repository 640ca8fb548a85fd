"""Where the time of a run's batches went: on the clock by phase, and inside the tasks by part.

Phases are those Spark reports of a batch, one after the other; the one that runs the tasks is split
further by the tasks' own recordings. Tasks run side by side, so their times are added up and
only their shares of the batch are shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tideglass.engine.profiled import TaskProfile
from tideglass.plan.explain import operator_text
from tideglass.plan.topology import Topology
from tideglass.storage import AnyPath, storage_path

#: The phase in which tasks run, and the one in which the driver makes their rows visible.
TASKS, OUTPUTS = "running the tasks", "committing the outputs"
#: Spark's names of a batch's phases, in words.
_PHASES = {
    "latestOffset": "looking for input",
    "getOffset": "looking for input",
    "getBatch": "taking the input",
    "queryPlanning": "planning by Spark",
    "walCommit": "logging what the batch reads",
    "addBatch": TASKS,
    "commitOffsets": "logging that the batch is done",
    "commitBatch": "logging that the batch is done",
}
_WHOLE = "triggerExecution"
_BETWEEN = "between the phases"
#: Run time of tasks in which no code of ours ran, as far as Spark reported.
OUTSIDE = "Spark: starting Python, shuffle, state store"


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a time.

    name: of the part.
    seconds: how long.
    percent: of the whole.
    calls: how often it was entered; None if that was not counted.
    """

    name: str
    seconds: float
    percent: float
    calls: int | None = None


@dataclass(slots=True)
class LevelTimes:
    """The recordings of the tasks of one level, added up."""

    nanoseconds: dict[str, int] = field(default_factory=dict[str, int])
    calls: dict[str, int] = field(default_factory=dict[str, int])
    cpu_nanoseconds: int = 0
    tasks: int = 0

    def add(self, task: TaskProfile) -> None:
        for name, value in task.nanoseconds.items():
            self.nanoseconds[name] = self.nanoseconds.get(name, 0) + value
        for name, value in task.calls.items():
            self.calls[name] = self.calls.get(name, 0) + value
        self.cpu_nanoseconds += task.cpu_nanoseconds
        self.tasks += 1


@dataclass(slots=True)
class Profile:
    """The profile of a run, filled while it goes on.

    topology: the query.
    phases: per batch, seconds by phase; they add up to the batch.
    levels: the tasks of all batches, by level; 0 is the scan.
    run_seconds: what Spark counts as run time of all tasks; None without Spark.
    """

    topology: Topology
    phases: dict[int, dict[str, float]] = field(default_factory=dict[int, dict[str, float]])
    levels: dict[int, LevelTimes] = field(default_factory=dict[int, LevelTimes])
    run_seconds: float | None = None
    _commits: dict[int, float] = field(default_factory=dict[int, float])

    def take_task(self, task: TaskProfile) -> None:
        """Take in what a task reports."""
        self.levels.setdefault(task.level, LevelTimes()).add(task)

    def take_commit(self, batch_id: int, seconds: float) -> None:
        """How long the driver took to commit the outputs of a batch."""
        self._commits[batch_id] = seconds

    def take_progress(self, progress: Mapping[str, Any]) -> None:
        """Take in Spark's progress of a batch; that of a trigger without a batch is passed over."""
        durations_ms = cast("Mapping[str, int]", progress["durationMs"])
        if "addBatch" not in durations_ms:
            return
        batch_id = int(progress["batchId"])
        phases: dict[str, float] = {}
        for name, duration_ms in durations_ms.items():
            if name != _WHOLE:
                words = _PHASES.get(name, name)
                phases[words] = phases.get(words, 0.0) + duration_ms / 1000
        committing = min(self._commits.get(batch_id, 0.0), phases[TASKS])
        phases[TASKS] -= committing
        phases[OUTPUTS] = committing
        rest = durations_ms.get(_WHOLE, 0) / 1000 - sum(phases.values())
        if rest > 0:
            phases[_BETWEEN] = rest
        self.phases[batch_id] = phases

    @property
    def batch_seconds(self) -> float:
        """All batches together."""
        return sum(sum(phases.values()) for phases in self.phases.values())

    @property
    def task_seconds(self) -> float:
        """All tasks together: by Spark's count, or by their own where that is all there is, or is more."""
        return max(self.run_seconds or 0.0, self._reported_seconds)

    @property
    def _reported_seconds(self) -> float:
        return sum(sum(times.nanoseconds.values()) for times in self.levels.values()) / 1e9

    def by_phase(self) -> list[Share]:
        """The batches' time on the clock; empty without a report of phases."""
        totals: dict[str, float] = {}
        for phases in self.phases.values():
            for name, seconds in phases.items():
                totals[name] = totals.get(name, 0.0) + seconds
        return _shares(totals, self.batch_seconds)

    def first_and_later(self) -> tuple[dict[str, float], dict[str, float]]:
        """Seconds by phase of the first batch, in which everything starts, and on average of the others."""
        batches = [phases for _, phases in sorted(self.phases.items())]
        later = batches[1:]
        names = {name for phases in later for name in phases}
        mean = {name: sum(phases.get(name, 0.0) for phases in later) / len(later) for name in names}
        return (batches[0] if batches else {}), mean

    def by_part(self) -> dict[str, list[Share]]:
        """The tasks' time by level and part, largest first; the percentages of all levels add up to 100."""
        whole = self.task_seconds
        result: dict[str, list[Share]] = {}
        for level, times in sorted(self.levels.items()):
            seconds = {self._part_text(name): ns / 1e9 for name, ns in times.nanoseconds.items()}
            calls = {self._part_text(name): count for name, count in times.calls.items()}
            result[level_text(level)] = _shares(seconds, whole, calls)
        if whole > self._reported_seconds:
            result["around"] = _shares({OUTSIDE: whole - self._reported_seconds}, whole)
        return result

    def _part_text(self, name: str) -> str:
        if not name.startswith("#"):
            return name
        return f"{name} {operator_text(self.topology, self.topology.op(int(name[1:])))}"

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data; times in seconds."""
        return {
            "batches": len(self.phases),
            "batch_seconds": _rounded(self.batch_seconds),
            "task_seconds": _rounded(self.task_seconds),
            "task_cpu_seconds": _rounded(sum(t.cpu_nanoseconds for t in self.levels.values()) / 1e9),
            "phases": [_entry(share) for share in self.by_phase()],
            "tasks": {level: [_entry(share) for share in shares] for level, shares in self.by_part().items()},
            "phases_by_batch": {
                str(batch_id): {name: _rounded(seconds) for name, seconds in phases.items()}
                for batch_id, phases in sorted(self.phases.items())
            },
        }

    def write(self, path: AnyPath) -> None:
        """Write the profile as a JSON file."""
        storage_path(path).write_text(json.dumps(self.to_json(), indent=2) + "\n")


def level_text(level: int) -> str:
    return f"stage {level}" if level else "scan"


def _shares(
    seconds: Mapping[str, float], whole: float, calls: Mapping[str, int] | None = None
) -> list[Share]:
    found = [
        Share(name, each, 100 * each / whole if whole else 0.0, None if calls is None else calls.get(name))
        for name, each in seconds.items()
    ]
    return sorted(found, key=lambda share: -share.seconds)


def _entry(share: Share) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": share.name,
        "seconds": _rounded(share.seconds),
        "percent": round(share.percent, 2),
    }
    return entry if share.calls is None else entry | {"calls": share.calls}


def _rounded(seconds: float) -> float:
    return round(seconds, 6)


def shown_shares(shares: Sequence[Share], least_percent: float = 0.5) -> list[Share]:
    """The shares worth a line; the smaller ones together as one, so that nothing is lost."""
    large = [share for share in shares if share.percent >= least_percent]
    small = [share for share in shares if share.percent < least_percent]
    if not small:
        return large
    seconds, percent = sum(s.seconds for s in small), sum(s.percent for s in small)
    return [*large, Share(f"{len(small)} smaller parts", seconds, percent)]
