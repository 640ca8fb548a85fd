"""When folders of a path pattern are listed: what may gain a file often, all others seldom (`asa.md` 6.1).

Where files lie by their time, thousands of old folders stand beside the one that is written to. At every look
the folders of the present time are listed. All folders are listed by the first look, and again only
once a hundred times as long as that took has passed: a file that appears late in an old folder is found then.
In an object store, where listings cost money, looks become rarer while nothing appears: after 1 s, 2,
4, up to 90 s, as the service polls.

What is remembered here is which files there are, and never how far they are read: it is lost without harm.
"""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from tideglass.connect.files.input_pattern import InputPattern
from tideglass.storage import FileStatus, StoragePath

#: The shortest and the longest time between two looks at an object store, in seconds.
SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 90.0
#: All folders are listed again after so many times the time that took, one second at least.
_FULL_EVERY = 100
#: What a finished input holds is listed again after so many times the time that took.
_FINISHED_EVERY = 10


class FolderWatch:
    """The files of a pattern as they were when last looked at; one for each input of a process.

    listed: all files that are known, by their names below the root.
    fresh: the names that the last look has listed.
    looks: how often folders were listed, be it all or some; full_looks: how often all were.
    """

    def __init__(self, root: StoragePath, pattern: InputPattern, finished: bool) -> None:
        """finished: no file will appear any more."""
        self.listed: dict[str, FileStatus] = {}
        self.fresh: set[str] = set()
        self.looks = self.full_looks = 0
        self._root, self._pattern, self._finished = root, pattern, finished
        self._names: dict[str, list[tuple[int, int, str]]] = {}  # by partition, in reading order
        self._changes = 0  # of what is listed
        self._quiet: tuple[int, Any] | None = None
        self._pause_seconds = SHORTEST_PAUSE_SECONDS
        self._next_look = self._next_full = float("-inf")

    def look(self, now: Callable[[], float] = time.time) -> None:
        """List what is due. now: seconds since 1970."""
        at = now()
        if at < self._next_look:
            return
        if at >= self._next_full:
            self._look_at_all(now)
        elif not self._finished:
            self._look_at_present(at)

    def partitions(self) -> list[str]:
        """Names of the partitions that have files."""
        return list(self._names)

    def names(self, partition: str) -> list[str]:
        """The files of a partition: by the times of their folders, then by when they were written."""
        return [name for _, _, name in self._names.get(partition, ())]

    def is_quiet(self, position: object) -> bool:
        """Whether there was nothing beyond `position`, and nothing has changed since."""
        return self._quiet == (self._changes, position)

    def has_gained(self, position: object | None, now: Callable[[], float] = time.time) -> None:
        """Told after each look whether there was something to read, which decides when the next one is.

        position: beyond which there is nothing; None: there was something.
        """
        is_first, self._quiet = position is None or self._quiet is None, None
        if position is None:
            self._pause_seconds, self._next_look = SHORTEST_PAUSE_SECONDS, float("-inf")
            return
        self._quiet = (self._changes, position)
        at = now()
        if not (self._root.is_local or self._finished) and (is_first or at >= self._next_look):
            self._next_look = at + self._pause_seconds
            self._pause_seconds = min(LONGEST_PAUSE_SECONDS, 2 * self._pause_seconds)

    def _look_at_all(self, now: Callable[[], float]) -> None:
        started = now()
        found = self._files(self._pattern.folder)
        took = now() - started
        self._next_full = now() + (_FINISHED_EVERY * took if self._finished else max(1.0, _FULL_EVERY * took))
        for name in self.listed.keys() - found.keys():
            self._forget(name)
        self._take(found)
        self._changes += 1  # what was read is compared with what is there
        self.full_looks += 1

    def _look_at_present(self, at: float) -> None:
        found: dict[str, FileStatus] = {}
        for folder in self._pattern.folders_around(datetime.fromtimestamp(at, UTC), set(self._names)):
            found |= self._files(folder)
        self._take(found)

    def _take(self, found: Mapping[str, FileStatus]) -> None:
        for name, status in found.items():
            before = self.listed.get(name)
            if before is not None and before.modified_ns == status.modified_ns:
                self._changes += (before.size, before.version) != (status.size, status.version)
                self.listed[name] = status
                continue
            if before is not None:
                self._forget(name)
            place = None if _is_hidden(name) else self._pattern.place_of(name)
            if place is not None:
                self._changes += 1
                self.listed[name] = status
                insort(
                    self._names.setdefault(place.partition, []),
                    (place.folder_ticks, status.modified_ns, name),
                )
        self.fresh = found.keys() & self.listed.keys()
        self.looks += 1

    def _forget(self, name: str) -> None:
        status, place = self.listed.pop(name), self._pattern.place_of(name)
        if place is not None:
            names = self._names[place.partition]
            entry = (place.folder_ticks, status.modified_ns, name)
            del names[bisect_left(names, entry)]

    def _files(self, folder: str) -> dict[str, FileStatus]:
        """The files below a folder, by their names below the root."""
        before = f"{folder}/" if folder else ""
        listed = (self._root / folder if folder else self._root).list(recursive=True)
        return {before + each.name: each for each in listed if not each.is_folder}


def _is_hidden(name: str) -> bool:
    """Whether a file is temporary, or not for readers."""
    return name.endswith((".tmp", ".crc")) or any(part[:1] in ("_", ".") for part in name.split("/"))


@lru_cache(maxsize=256)
def watch_of(root: StoragePath, pattern: InputPattern, finished: bool) -> FolderWatch:
    """The watch of this process."""
    return FolderWatch(root, pattern, finished)
