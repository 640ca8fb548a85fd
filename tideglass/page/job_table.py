"""The jobs a page shows: the one it was started for, or all whose directories are below a folder.

What a request names is looked up in this table; nothing of an address becomes part of a path.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tideglass.job.directory import JobDirectory
from tideglass.storage import AnyPath, storage_path

#: A folder is looked through again after so long, so that a new job shows.
_RENEW_SECONDS = 5.0
#: Deeper folders, and more of them than this, are not looked through: the index is for a folder of jobs.
_DEEPEST, _MOST_FOLDERS = 6, 5_000
#: Of a project, between its folder and its job directory.
_OWN = (".tideglass", "run")


class JobTable:
    """Job directories by the name that addresses have for them.

    directory: of the one job; None where there are many
    root: the folder of many jobs; None where there is one
    """

    def __init__(self, *, directory: JobDirectory | None = None, root: Path | None = None) -> None:
        self._root = root
        self._found: Mapping[str, JobDirectory] = {} if directory is None else named([directory])
        self._renewed_seconds: float | None = None

    @property
    def many(self) -> bool:
        """Whether it holds the jobs below a folder."""
        return self._root is not None

    def jobs(self) -> Mapping[str, JobDirectory]:
        """All jobs by name, in the order of the names; those of a folder as they were seconds ago."""
        now_seconds = time.monotonic()
        renewed = self._renewed_seconds
        if self._root is not None and (renewed is None or now_seconds - renewed > _RENEW_SECONDS):
            self._found = named(list(job_directories(self._root)))
            self._renewed_seconds = now_seconds
        return self._found


def is_job_directory(folder: AnyPath) -> bool:
    """Whether a run has left its status or its journal there."""
    directory = JobDirectory(storage_path(folder))
    return directory.status.is_file() or directory.journal.is_file()


def job_directories(root: Path) -> Iterator[JobDirectory]:
    """The job directories below a folder, itself among them. Symbolic links are not followed."""
    for seen, (path, folders, _) in enumerate(os.walk(root)):
        here = Path(path)
        if is_job_directory(here):
            folders.clear()
            yield JobDirectory.at(here)
        elif len(here.relative_to(root).parts) >= _DEEPEST or seen > _MOST_FOLDERS:
            folders.clear()
        else:
            folders[:] = sorted(each for each in folders if not each.startswith(".") or each == _OWN[0])


def named(directories: list[JobDirectory]) -> dict[str, JobDirectory]:
    """Directories by the name of their folder (a project's own: of the project), longer where two have one.

    >>> list(named([JobDirectory(Path("/jobs/heat/.tideglass/run")), JobDirectory(Path("/jobs/toll"))]))
    ['heat', 'toll']
    >>> list(named([JobDirectory(Path("/a/heat")), JobDirectory(Path("/b/heat"))]))
    ['a.heat', 'b.heat']
    """
    parts = {directory: _parts(directory) for directory in directories}
    found: dict[str, JobDirectory] = {}
    for directory, own in parts.items():
        others = [other for each, other in parts.items() if each != directory]
        length = 1
        while length < len(own) and any(other[-length:] == own[-length:] for other in others):
            length += 1
        found[".".join(own[-length:]) or "job"] = directory
    return dict(sorted(found.items()))


def _parts(directory: JobDirectory) -> tuple[str, ...]:
    parts = directory.path.parts[1:]
    return parts[: -len(_OWN)] if parts[-len(_OWN) :] == _OWN else parts
