"""Which files an input has at one look, in the order in which they are read.

A disk is asked file by file, which costs nothing. An object store is listed once a look: the listing has
sizes, times and versions, and a request for each file would take as long as reading it.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from tideglass.connect.files.file_marks import FileMark
from tideglass.connect.files.folder_watch import FolderWatch, watch_of
from tideglass.connect.spec import InputSpec
from tideglass.core.errors import InputError
from tideglass.core.partition_numbers import number_in
from tideglass.storage import FileStatus, StoragePath

#: The name of the partition of an input that has one.
ONLY_PARTITION = "0"


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files of an input.

    spec: of the input.
    is_one_file: the path names a file. One that takes turns may be missing for a moment.
    root: the folder below which all files are.
    listed: what an object store holds below `root`, by name; None on a disk, and where the path names a file.
    watch: what lists the folders of a path pattern; None without one.
    """

    spec: InputSpec
    is_one_file: bool
    root: StoragePath
    listed: Mapping[str, FileStatus] | None
    watch: FolderWatch | None = None

    @classmethod
    def of(cls, spec: InputSpec) -> FoundFiles:
        """The files that are there now."""
        if spec.pattern is not None:
            watch = watch_of(spec.path, spec.pattern, spec.finished)
            watch.look()
            return cls(spec, False, spec.path, watch.listed, watch)
        path, is_pattern = spec.path, glob.has_magic(spec.path.name)
        is_one_file, root = _is_one_file(spec), root_of(spec)
        if path.is_local or is_one_file:
            return cls(spec, is_one_file, root, None)
        return cls(spec, is_one_file, root, {each.name: each for each in root.list(recursive=not is_pattern)})

    def partitions(self) -> list[str]:
        """Names of the partitions, numbers first in their order, then texts.

        Raises InputError if the path does not exist.
        """
        if self.watch is not None:
            names = self.watch.partitions()
            if not names and not self.root.exists():
                self._none(ONLY_PARTITION)
            if not names:
                return [ONLY_PARTITION]
        elif self.spec.partitions == "none":
            self.names(ONLY_PARTITION)
            return [ONLY_PARTITION]
        else:
            names = [name for name in self._sub_folders() if name[0] not in "._"]
        numbers = {name: number_in(name) for name in names}
        return sorted(names, key=lambda name: (numbers[name] is None, numbers[name] or 0, name))

    def names(self, partition: str) -> list[str]:
        """Names of the partition's files in reading order, without hidden (`_`, `.`) and temporary ones.

        Raises InputError if the path does not exist, and for one that leads out of the bounds.
        """
        path = self.spec.path
        if self.watch is not None:
            self._see_inside(path)
            return self.watch.names(partition)
        if self.spec.partitions == "none" and self.is_one_file:
            self._see_inside(path)
            return [path.name] if path.exists() else []
        folder = self.folder(partition)
        self._see_inside(folder)
        if self.listed is None:
            if not folder.is_dir():
                return self._none(partition)
            return self._names_on_disk(folder)
        found = self._names_listed(partition)
        return found if found or self.listed else self._none(partition)

    def folder(self, partition: str) -> StoragePath:
        return self.root if self.spec.partitions == "none" else self.root / partition

    def status(self, path: StoragePath) -> FileStatus | None:
        """A file as it is; None if it is not there."""
        if self.listed is None:
            return path.status()
        found = self.listed.get(path.relative_to(self.root))
        return path.status() if found is None and self.watch is not None else found

    def is_settled(self, name: str, mark: FileMark | None) -> bool:
        """Whether a file that was read to its end, by its mark, has not been listed since.

        Thousands of old files need not be looked at each time.
        """
        if self.watch is None or mark is None or name in self.watch.fresh:
            return False
        status = self.watch.listed.get(name)
        return status is not None and status.size == mark.size

    def _sub_folders(self) -> list[str]:
        path = self.spec.path
        if self.listed:
            return list(dict.fromkeys(name.partition("/")[0] for name in self.listed if "/" in name))
        if not path.is_dir():
            raise InputError(
                f"the input {self.spec.name!r} has a partition per folder, but {path} is no folder"
            )
        return [each.name for each in path.local.iterdir() if each.is_dir()] if path.is_local else []

    def _none(self, partition: str) -> list[str]:
        if partition == ONLY_PARTITION:
            raise InputError(f"the input {self.spec.name!r} has no file or folder {self.spec.path}")
        return []

    def _names_on_disk(self, folder: StoragePath) -> list[str]:
        path, local = self.spec.path, folder.local
        pattern = path.name if glob.has_magic(path.name) else "**/*"
        found = [
            each.relative_to(local)
            for each in local.glob(pattern)
            if each.is_file() and not each.name.endswith((".tmp", ".crc"))
        ]
        shown = [each for each in found if not any(part[0] in "._" for part in each.parts)]
        for each in shown:
            if (local / each).is_symlink():
                self._see_inside(folder / each)
        return sorted(each.as_posix() for each in shown)

    def _names_listed(self, partition: str) -> list[str]:
        assert self.listed is not None
        before = "" if self.spec.partitions == "none" else f"{partition}/"
        names = [name.removeprefix(before) for name in self.listed if name.startswith(before)]
        pattern = self.spec.path.name if glob.has_magic(self.spec.path.name) else None
        return sorted(
            name
            for name in names
            if not name.endswith((".tmp", ".crc"))
            and not any(part[0] in "._" for part in name.split("/"))
            and not self.listed[before + name].is_folder
            and (pattern is None or fnmatchcase(name, pattern))
        )

    def _see_inside(self, path: StoragePath) -> None:
        """Raises InputError for a path that leads out of the bounds."""
        bounds = self.spec.bounds
        if bounds.roots is None or (path.is_local and bounds.hold(path.local)):
            return
        raise InputError(
            f"the input {self.spec.name!r} reads {path}, which leads out of the project\n"
            f"  hint: name the files with --input {self.spec.name}=PATH, or say --allow-outside"
        )


def root_of(spec: InputSpec) -> StoragePath:
    """The folder below which all files of an input are."""
    if spec.pattern is not None:
        return spec.path
    return spec.path.parent if glob.has_magic(spec.path.name) or _is_one_file(spec) else spec.path


def _is_one_file(spec: InputSpec) -> bool:
    path = spec.path
    if not path.is_local:
        try:
            return not glob.has_magic(path.name) and _is_one_object(path)
        except FileNotFoundError:
            return False
    return path.is_file() or (spec.rotation != "none" and not path.exists() and not glob.has_magic(path.name))


@lru_cache(maxsize=1024)
def _is_one_object(path: StoragePath) -> bool:
    """Asked of the store until there is something: a task would ask for each piece it reads."""
    status = path.status()
    if status is None:
        raise FileNotFoundError(str(path))
    return not status.is_folder
