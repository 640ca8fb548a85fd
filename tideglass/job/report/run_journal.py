"""The journal of a job's runs: what each began with and how it ended, one line for either.

Lines are only added. A run whose end is not there was killed, or still goes on; the next run that
starts writes the end of such a one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tideglass.core.documents import Document
from tideglass.core.durable import unsealed
from tideglass.core.errors import StateError
from tideglass.job.work_layout import Layout
from tideglass.storage import AnyPath, storage_path


class Ended(StrEnum):
    """How a run ended."""

    FINISHED = "finished"  # its inputs did
    STOPPED = "stopped"  # as asked, after a whole batch
    BROKEN_OFF = "broken off"  # as asked twice, within a batch
    FAILED = "failed"  # by an error
    KILLED = "killed"  # without a word: its process, or its machine


@dataclass(frozen=True, slots=True)
class RunStart:
    """What a run began with.

    run: its number, from 1.
    started: when, ISO text.
    generation: number of the state it goes on with.
    resumed: that state was there before.
    mode: start mode (`StartMode`).
    cause: why it started so, in words.
    began_from: where it reads on, in words.
    pid, host: its process.
    folder: the current folder of that process.
    changes: what had changed since the last run, in words.
    arguments: of `tideglass run` in `folder`, to start it again; None when that was not the command.
    query, plan: hashes of its text and of what is computed (`Identity`).
    layout: how its work is split; None: an earlier version did not say.
    """

    run: int
    started: str
    generation: int
    resumed: bool
    mode: str
    cause: str
    began_from: str
    pid: int
    host: str
    folder: str = ""
    changes: tuple[str, ...] = ()
    arguments: tuple[str, ...] | None = None
    query: str = ""
    plan: str = ""
    layout: Layout | None = None


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended.

    run: its number.
    ended: when, ISO text.
    how: as an `Ended`.
    batches, events: done and read by this run.
    rows: emitted per output by this run.
    error: what made it fail; None if nothing did.
    caught_up_seconds: how long it took to read what was there at the start; None if it has not read that far.
    """

    run: int
    ended: str
    how: Ended
    batches: int = 0
    events: int = 0
    rows: Mapping[str, int] = field(default_factory=dict[str, int])
    error: str | None = None
    caught_up_seconds: float | None = None


_START, _END = Document(RunStart), Document(RunEnd)


@dataclass(frozen=True, slots=True)
class Run:
    """A run; `end` is None while it goes on, and for one that was killed until another starts."""

    start: RunStart
    end: RunEnd | None = None


def read_runs(path: AnyPath) -> list[Run]:
    """All runs, oldest first. Raises StateError for a journal that cannot be read."""
    try:
        lines = storage_path(path).read_lines()
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    runs: dict[int, Run] = {}
    for number, line in enumerate(lines, 1):
        try:
            content = unsealed(json.loads(line))
            if "how" in content:
                end = _END.of_plain(content)
                runs[end.run] = Run(runs[end.run].start, end)
            else:
                start = _START.of_plain(content)
                runs[start.run] = Run(start)
        except (ValueError, LookupError) as error:
            raise _damaged(path, f"line {number}: {error}") from error
    return list(runs.values())


def add(path: AnyPath, entry: RunStart | RunEnd) -> None:
    """Add an entry, in place of a line that was cut by a crash; it is on the disk when this returns."""
    storage_path(path).append_lines([_START.text(entry) if isinstance(entry, RunStart) else _END.text(entry)])


def _damaged(path: AnyPath, problem: str) -> StateError:
    """No row depends on the journal, so the way out needs no new start."""
    return StateError(
        f"[STATE_DAMAGED] {path} cannot be read ({problem}), so nobody knows what runs there were\n"
        "  hint: rename it; the job goes on without it, and counts its runs anew"
    )
