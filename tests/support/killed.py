"""Runs that are killed at a place of their commit, in this process: the place raises where it would kill."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from support.job_in_process import Folder
from support.restarted import RestartedJob
from tideglass.connect.output import Batch, OutputConnector
from tideglass.connect.row_ids import row_ids
from tideglass.core import failpoints
from tideglass.core.json_rows import json_lines
from tideglass.job.commit import COMMIT_STEPS
from tideglass.job.options import JobPlan
from tideglass.storage import StoragePath

#: Steps of a commit, from before the first to after the last.
STEPS = [f"{when}-{step.__name__}" for step in COMMIT_STEPS for when in ("before", "after")]


class Killed(BaseException):
    """Stands for the end of a process."""


@contextmanager
def dying_at(place: str, batch: int) -> Generator[None]:
    """While this lasts, a run ends with Killed where `TIDEGLASS_DIE_AT` would kill it."""

    def die() -> None:
        raise Killed(f"{place}:{batch}")

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(failpoints.DIE_AT, f"{place}:{batch}")
        patched.setattr(failpoints, "die", die)
        yield


def killed(job: RestartedJob, place: str, batch: int) -> bool:
    """A run that is killed there; False for one that does not come by, which so ends."""
    try:
        with dying_at(place, batch):
            job.run()
    except Killed:
        return True
    return False


@dataclass(frozen=True, slots=True)
class AppendedOutput(OutputConnector):
    """A place that only takes more, as a queue does: at least once, each row with an id.

    taken: id and JSON of the rows, in the order they came.
    """

    name: str
    taken: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        failpoints.failpoint(f"inside-publish-{self.name}", batch.number)
        texts = [text for table in staged for text in json_lines(table).to_pylist()]
        self.taken.extend(zip(row_ids(self.name, batch, staged), texts, strict=True))
        return ()

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        return {"path": None, "name": self.name}

    def describe(self) -> str:
        return "a queue"

    def rows(self) -> list[str]:
        """What a reader has who knows an id again."""
        return sorted(dict(self.taken).values()) if self.taken else []


@dataclass
class FolderWithOutputs(Folder):
    """A project whose rows go to outputs of a test.

    outputs: by name; others are files as ever.
    """

    outputs: Mapping[str, OutputConnector] = field(default_factory=dict[str, OutputConnector])

    def job(self, **options: Any) -> JobPlan:
        job = super().job(**options)
        return replace(
            job, outputs={name: self.outputs.get(name, each) for name, each in job.outputs.items()}
        )
