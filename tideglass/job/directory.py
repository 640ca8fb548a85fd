"""The directory of a job: where everything is that outlives a run.

<job>/manifest.json   which job this is, and how its newest generation started
<job>/runs.jsonl      the journal of its runs
<job>/lock            held by the process that runs it
<job>/status.json     the newest report of that process
<job>/history.jsonl   samples of it over time (`report.history`)
<job>/diagnostic.jsonl   the diagnostic log (`telemetry.diagnostic_log`)
<job>/query.json      the text of its query and where its steps are (`report.query_outline`)
<job>/profile.json    where the time of a run with --profile went
<job>/stop            there while the run is asked to stop
<job>/job.log         what runs in the background print; of a directory elsewhere: see `logs`
<job>/spark.log       what Spark prints; likewise
<job>/silences.jsonl  the journal of idle periods
<job>/reference/      which snapshots of reference data were found, and those of databases
<job>/generation-0001/begun.json     where it began to read (`start.read_plan`)
<job>/generation-0001/counts.json    rows its outputs got (`progress.counts`)
<job>/generation-0001/reached.json   how far its topics are read (`progress.topic_progress`)
<job>/generation-0001/replayed, ending   states of its replay (`progress.replay`)
<job>/generation-0001/checkpoint/    Spark's: offsets, commits, state
<job>/generation-0001/ingress/       states of the input partitions, by batch
<job>/generation-0001/peers/         watermarks of the partitions of its topics, by batch
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from tideglass.core.bounds import Bounds
from tideglass.core.cache import cache_folder
from tideglass.core.errors import ProjectError
from tideglass.core.file_names import folder_name
from tideglass.storage import AnyPath, StoragePath, storage_path

#: What the file `stop` holds when the run is not to finish its batch.
AT_ONCE = "at once"

_GENERATION = re.compile(r"generation-(\d{4,})")


@dataclass(frozen=True, slots=True)
class JobDirectory:
    """Paths in a job's directory, on this machine or in an object store.

    path: of the directory; a `Path` becomes the `StoragePath` of the same file
    """

    path: StoragePath

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", storage_path(self.path))

    @staticmethod
    def of_project(folder: Path, chosen: AnyPath | None = None) -> JobDirectory:
        """The directory chosen by the user, else the project's own.

        Raises ProjectError where the latter is a link that leads out of the project, and StorageError for a
        URI of a kind that is not supported.
        """
        own = folder / ".tideglass" / "run"
        if chosen is None and not Bounds((folder,)).hold(own):
            raise ProjectError(
                f"{own} is a link that leads out of the project\n  hint: name the directory with --run-dir"
            )
        return JobDirectory.at(chosen or own)

    @staticmethod
    def at(path: AnyPath) -> JobDirectory:
        """The directory of a path that a user has named, absolute and without links."""
        return JobDirectory(storage_path(path).resolve())

    @property
    def manifest(self) -> StoragePath:
        return self.path / "manifest.json"

    @property
    def journal(self) -> StoragePath:
        return self.path / "runs.jsonl"

    @property
    def idle_journal(self) -> StoragePath:
        return self.path / "silences.jsonl"

    @property
    def lock(self) -> StoragePath:
        return self.path / "lock"

    @property
    def status(self) -> StoragePath:
        return self.path / "status.json"

    @property
    def history(self) -> StoragePath:
        return self.path / "history.jsonl"

    @property
    def query(self) -> StoragePath:
        return self.path / "query.json"

    @property
    def profile(self) -> StoragePath:
        return self.path / "profile.json"

    @property
    def diagnostic_log(self) -> StoragePath:
        return self.path / "diagnostic.jsonl"

    @property
    def stop(self) -> StoragePath:
        return self.path / "stop"

    @property
    def logs(self) -> Path:
        """The folder of the logs for people, which is on the machine that runs the job.

        That is the directory itself where it is on this machine. For one that is elsewhere it is a folder
        of the user's cache, since a log grows line by line.
        """
        if self.path.is_local:
            return self.path.local
        digest = hashlib.sha256(str(self.path).encode()).hexdigest()[:8]
        return cache_folder() / "logs" / f"{folder_name(self.path.name or 'job')}-{digest}"

    @property
    def log(self) -> Path:
        return self.logs / "job.log"

    @property
    def spark_log(self) -> Path:
        return self.logs / "spark.log"

    @property
    def reference(self) -> StoragePath:
        return self.path / "reference"

    def generation(self, number: int) -> StoragePath:
        """Where the state of a generation is."""
        return self.path / f"generation-{number:04d}"

    def newest_generation(self) -> int:
        """The highest number of a generation whose state is there; 0 for none."""
        found = (_GENERATION.fullmatch(each.name) for each in self.path.glob("generation-*"))
        return max((int(match[1]) for match in found if match), default=0)

    def remove_generations(self, kept: int) -> None:
        """Remove all state but that of one generation, and what the layout of format 1 left."""
        for each in self.path.glob("generation-*"):
            match = _GENERATION.fullmatch(each.name)
            if match and int(match[1]) != kept:
                each.delete_folder()
        for name in ("checkpoint", "ingress"):
            (self.path / name).delete_folder()
