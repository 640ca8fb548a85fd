"""A project whose runs begin and go no further."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tideglass.cli.new import make_project
from tideglass.connect.kafka.topic import HeldPartition, TopicInput
from tideglass.job.directory import JobDirectory
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.job.start.begin import RunSetup, begin
from tideglass.project.project import load_project

QUERY = """
WITH minutes AS (
    SELECT deviceId, COUNT(*) AS n FROM sensor TIMESTAMP BY readAt
    GROUP BY deviceId, TumblingWindow(minute, 1)
)
SELECT deviceId, n INTO many FROM minutes
SELECT deviceId, n INTO few FROM minutes WHERE n < 3
"""


def no_broker(topic: TopicInput, from_ms: int | None) -> Mapping[int, HeldPartition]:
    """These jobs read files."""
    raise AssertionError(f"asked for {topic} at {from_ms}")


class Bench:
    """A project whose runs begin here and go no further."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_project(folder)
        self.directory = JobDirectory.of_project(folder)
        self.directory.path.mkdir()  # the lock does, which is not under test here
        self.query(QUERY)

    def query(self, text: str) -> None:
        (self.folder / "heat.asaql").write_text(text)

    def settings(self, **changed: Any) -> None:
        path = self.folder / "JobConfig.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))

    def begin(self, **options: Any) -> RunSetup:
        chosen: dict[str, Any] = {"once": True, "cores": 2, **options}
        return begin(plan_job(load_project(self.folder), RunOptions(**chosen)), self.directory, no_broker)

    def leave_state(self, generation: int) -> Path:
        """What Spark would have left of a finished run: a checkpoint with a batch that is done."""
        checkpoint = self.directory.generation(generation) / "checkpoint"
        for name in ("commits", "offsets"):
            (checkpoint / name).mkdir()
            for batch in (3, 4):
                offset = json.dumps({"batch": batch + 1, "final": batch == 4, "inputs": {}, "at_ms": 0})
                body = "v1\n{}" if name == "commits" else f"v1\n{{}}\n{offset}"
                (checkpoint / name / str(batch)).write_text(body)
        (checkpoint / "metadata").write_text('{"id":"x"}')
        return checkpoint

    def everything(self) -> dict[str, bytes]:
        """Every file in the job directory and the outputs."""
        roots = [self.directory.path.local, self.folder / "LocalRunOutputs"]
        files = [file for root in roots for file in root.rglob("*") if file.is_file()]
        return {str(file): file.read_bytes() for file in files}
