"""What addresses of the page answer of a job: the files of its directory as JSON, times in milliseconds.

Everything is read anew, and nothing is written. A file that is missing or damaged is a `NoAnswer`, which says
what is not there and what to do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tideglass.core.documents import to_plain
from tideglass.core.errors import StateError
from tideglass.job.diagnosis.diagnose import diagnose_directory
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import running
from tideglass.job.report.query_outline import read_outline
from tideglass.job.report.run_journal import read_runs
from tideglass.job.report.status import Status, read_status
from tideglass.page.epoch_times import with_epoch_times

_MOST_RUNS = 50


class NoAnswer(Exception):
    """What was asked for is not there.

    code: a stable name. message, hint: for people. status: of HTTP.
    """

    def __init__(self, code: str, message: str, hint: str = "", status: int = 404) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.status = code, message, hint, status

    @property
    def content(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}


def now_ms() -> float:
    """The clock of this machine, milliseconds of the epoch."""
    return time.time() * 1000


def jobs_answer(
    jobs: Mapping[str, JobDirectory],
    *,
    many: bool,
    play: bool,
    status_of: Callable[[JobDirectory], Status | None] = read_status,
) -> dict[str, Any]:
    """The index: every job with its state and delay."""
    return {
        "jobs": [_index_entry(name, directory, status_of(directory)) for name, directory in jobs.items()],
        "many": many,
        "play": play,
        "version": _version(),
        "now_ms": now_ms(),
    }


def _index_entry(name: str, directory: JobDirectory, status: Status | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "job": None, "state": None, "alive": is_alive(directory)}
    if status is None:
        return entry
    return entry | {
        "job": status.job,
        "state": status.state.value,
        "run": status.run,
        "since": status.since,
        "updated": status.updated,
        "watermark_delay_seconds": status.watermark_delay_seconds,
        "events": status.events,
        "rows": sum(status.rows.values()),
        "catching_up": status.catching_up is not None,
        "error": status.error,
    }


def is_alive(directory: JobDirectory) -> bool:
    """Whether a process runs the job now."""
    return running(directory) is not None


def no_status() -> NoAnswer:
    """The refusal for a job that has left no status."""
    return NoAnswer(
        "NO_STATUS",
        "this job has left no status that can be read",
        "a run writes one when it starts; a run under way writes it anew every two seconds",
    )


def shown_status(status: Status, *, alive: bool) -> dict[str, Any]:
    """A status as the page has it."""
    return {**with_epoch_times(to_plain(status)), "alive": alive}


def query_answer(directory: JobDirectory) -> dict[str, Any]:
    """The query and where its steps are. Raises NoAnswer where no run has written it down."""
    outline = read_outline(directory)
    if outline is None:
        raise NoAnswer(
            "NO_QUERY",
            "the text of the query is not in the job directory",
            "a run of this version writes it when it starts",
        )
    return with_epoch_times(to_plain(outline))


def why_answer(directory: JobDirectory, output: str | None = None) -> dict[str, Any]:
    """What is wrong, in words, worst first. output: only what concerns one output."""
    outline = read_outline(directory)
    found = diagnose_directory(directory, query=None if outline is None else outline.text)
    return with_epoch_times(found.plain() if output is None else found.of(output).plain())


def runs_answer(directory: JobDirectory) -> dict[str, Any]:
    """The newest runs, newest first. Raises NoAnswer for a journal that cannot be read."""
    try:
        found = read_runs(directory.journal)[::-1][:_MOST_RUNS]
    except StateError as error:
        raise NoAnswer("DAMAGED_JOURNAL", str(error)) from error
    alive = is_alive(directory)
    return {
        "runs": [
            {
                "how": run.end.how.value if run.end else "under way" if alive and place == 0 else "killed",
                **to_plain(run),
            }
            for place, run in enumerate(found)
        ]
    }


def profile_answer(directory: JobDirectory) -> Any:
    """Where the time of the batches went. Raises NoAnswer where no run has measured it."""
    try:
        return with_epoch_times(json.loads(directory.profile.read_bytes()))
    except (OSError, ValueError) as error:
        raise NoAnswer(
            "NO_PROFILE", "no run of this job has measured where its time goes", "run it with --profile"
        ) from error


def _version() -> str:
    try:
        return version("tideglass")
    except PackageNotFoundError:  # a checkout that is not installed
        return ""
