"""Files as a stream: which files there are, in which order they are read, and how far (`asa.md` 6.1).

A position is plain JSON: per partition the ordered list of pieces assigned so far. A piece is
`[file, begin, end, arrival, mark]`: bytes [begin, end) of a file (row groups of a Parquet file) that arrived
at one time in ticks, and by what the file is known again (`marks`; pieces of earlier versions have none).
The list only grows, at its end, so what a position names never changes: a file that appears later but sorts
earlier is read after those already assigned, and what is appended to a file is a new piece. An event's
`$offset` is its piece and its place in the file, so it does not depend on batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tideglass.connect.files.file_format import FileFormat, packing_of
from tideglass.connect.files.file_marks import FileMark, changed, check_unchanged, inode_of
from tideglass.connect.files.found_files import FoundFiles, root_of
from tideglass.connect.files.piece_ends import is_taken_whole, next_stop, unread_bytes_of
from tideglass.connect.files.reading import FilePiece, read_piece
from tideglass.connect.files.rotation import (
    Generation,
    generations,
    is_rotated_name,
    located,
    mark_of,
)
from tideglass.connect.files.seek import place_of, seek
from tideglass.connect.formats.payloads import Payload
from tideglass.connect.formats.table import format_of, known_ends
from tideglass.connect.source import SeekResult, StreamInput
from tideglass.connect.spec import InputSpec
from tideglass.core.errors import InputError
from tideglass.core.events import Chunk, Fields
from tideglass.core.positions import Piece, Position, Positions
from tideglass.storage import FileStatus, StoragePath


@dataclass(frozen=True, slots=True)
class FileInput(StreamInput):
    """A stream input of files, by its `InputSpec`.

    recorded: per partition, the pieces an earlier run has read. They are read first, in that order and cut
    as they were, so that an event has the same place and arrival time whenever it is read again.
    """

    spec: InputSpec
    recorded: Positions = field(default_factory=dict[str, Position])
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.spec.name)

    @property
    def arrives_with_piece(self) -> bool:
        return not self.spec.has_arrivals

    def until_its_end(self) -> FileInput:
        return replace(self, spec=self.spec.model_copy(update={"finished": True}))

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        return self.spec.identity(directory)

    def partitions(self) -> list[str]:
        """Names of the partitions that exist now, numbers first in their order, then texts.

        Raises InputError if the path does not exist.
        """
        return FoundFiles.of(self.spec).partitions()

    def paths(self, partition: str) -> list[StoragePath]:
        """The files of a partition that are there now, in the order they are read."""
        found = FoundFiles.of(self.spec)
        return [found.folder(partition) / name for name in found.names(partition)]

    def latest(self, position: Positions, limit_bytes: int | None = None) -> dict[str, list[Piece]]:
        """`position` and all that is there beyond it, at most about `limit_bytes` of it.

        The limit is shared equally by the partitions that have something; at least one event is taken
        wherever there is one. Called on the driver: reads directories and a few bytes of files.
        """
        files = FoundFiles.of(self.spec)
        if files.watch is not None and not self.recorded and files.watch.is_quiet(_ends_of(position)):
            return {name: list(pieces) for name, pieces in position.items()}
        names = files.partitions()
        names += [name for name in (*self.recorded, *position) if name not in names]
        names = list(dict.fromkeys(names))
        known = {name: list(position.get(name, [])) for name in names}
        waiting = {name: self._recorded_waiting(files, name, known[name]) for name in names}
        if not any(waiting.values()):  # new events follow when all partitions have been read as before
            waiting = {name: self._waiting(files, name, known[name]) for name in names}
        remaining_bytes = limit_bytes
        # Those with least to read first: what they leave of their share goes to the others.
        by_size = sorted(
            names, key=lambda name: (sum(each.unread_bytes for each in waiting[name]), names.index(name))
        )
        for place, name in enumerate(by_size):
            share = None if remaining_bytes is None else max(1, remaining_bytes // (len(by_size) - place))
            taken = self._take(name, known[name], waiting[name], share)
            remaining_bytes = None if remaining_bytes is None else remaining_bytes - taken
        if files.watch is not None:
            before, ends = _ends_of(position), _ends_of(known)
            files.watch.has_gained(ends if before == ends else None)
        return known

    def is_replayed(self, position: Positions) -> bool:
        """Whether `position` covers all that is recorded."""
        return not any(self._recorded_beyond(name, position.get(name, [])) for name in self.recorded)

    def reading_again(self, recorded: Positions) -> FileInput:
        return replace(self, recorded=recorded)

    def gone(self, partition: str, pieces: Position) -> list[int]:
        """The pieces whose file is gone."""
        files = FoundFiles.of(self.spec)
        paths = (self.file_of(partition, piece) for piece in pieces)
        return [n for n, path in enumerate(paths) if files.status(path) is None]

    def seek(self, partition: str, pieces: Position, from_ticks: int | None) -> SeekResult:
        return seek(self, partition, pieces, from_ticks)

    def place_of(self, partition: str, pieces: Position, offset: int) -> SeekResult:
        return place_of(self, partition, pieces, offset)

    def read(
        self,
        partition: str,
        start: Position,
        end: Position,
        fields: Fields,
        level: str = "1.2",
    ) -> Iterator[Chunk]:
        """The events of a partition between two of its positions, in order; the same at every call.

        Raises InputError if a file is gone or shorter than the position.
        """
        for piece in self.pieces(partition, start, end):
            yield from read_piece(piece, fields, level)

    def pieces(self, partition: str, start: Position, end: Position) -> Iterator[FilePiece]:
        """What there is to read between two positions of a partition, as small values for a task."""
        _, turns = generations(end)
        for ordinal, piece in enumerate(end):
            begin = start[ordinal].end if ordinal < len(start) else piece.begin
            if begin < piece.end:
                file_format = self.format_of(self.path_of(partition, piece.where))
                yield FilePiece(
                    str(self.file_of(partition, piece)),
                    file_format.name,
                    begin,
                    piece.end,
                    ordinal,
                    piece.arrival_ticks,
                    self.spec.delimiter,
                    self.spec.arrival,
                    turns[ordinal].title,
                    self.spec.name,
                    mark_of(piece),
                    self.spec.finished or self.spec.rotation != "none",
                    file_format.packing,
                    None if self.spec.capture is None else self._captured(),
                    partition,
                )

    def _captured(self) -> Payload:
        spec = self.spec
        return Payload(spec.capture or "json", spec.delimiter, compression=spec.compression or "none")

    def ended(self, position: Positions) -> frozenset[str]:
        """The partitions whose files are read to their end; none while the input may still grow."""
        if not self.spec.finished:
            return frozenset()
        latest = self.latest(position)
        return frozenset(name for name, pieces in latest.items() if pieces == list(position.get(name, [])))

    # ------------------------------------------------------------ files

    def path_of(self, partition: str, name: str) -> StoragePath:
        """Where a file of that name is."""
        root = root_of(self.spec)
        return (root if self.spec.partitions == "none" else root / partition) / name

    def file_of(self, partition: str, piece: Piece) -> StoragePath:
        """Where the file of a piece is now; where it was if it is nowhere."""
        path = self.path_of(partition, piece.where)
        if self.spec.rotation == "none":
            return path
        return located(path, mark_of(piece), self.spec.rotation) or path

    def format_of(self, path: StoragePath) -> FileFormat:
        if self.spec.capture is not None:
            return FileFormat("avro")
        found = self.spec.format or format_of(path)
        if found is None:
            raise InputError(
                f"the input {self.spec.name!r} does not say its format, and {path.name} does not end in "
                f"{known_ends()}; give the input a format"
            )
        return FileFormat(found, packing_of(path, self.spec.compression))

    # ------------------------------------------------------------ growing

    def _recorded_beyond(self, partition: str, known: Position) -> list[tuple[Piece, int]]:
        """What is recorded beyond a position: pieces, and from where on each is to be read."""
        recorded = self.recorded.get(partition, [])
        found: list[tuple[Piece, int]] = []
        for ordinal in range(max(0, len(known) - 1), len(recorded)):
            piece = recorded[ordinal]
            again = ordinal < len(known)
            begin = known[ordinal].end if again else piece.begin
            if begin < piece.end or not again:
                found.append((piece, begin))
        return found

    def _recorded_waiting(self, files: FoundFiles, partition: str, known: Position) -> list[_Waiting]:
        """What is recorded beyond a position. Raises InputError for a file that is not what it was."""
        found: list[_Waiting] = []
        for piece, begin in self._recorded_beyond(partition, known):
            path, mark = self.file_of(partition, piece), mark_of(piece)
            status = files.status(path)
            if mark is not None and begin < piece.end and status is not None:
                check_unchanged(self.name, path, status, mark, finished=True)
            found.append(
                _Waiting(
                    piece.where,
                    path,
                    status,
                    self.format_of(self.path_of(partition, piece.where)),
                    begin,
                    piece.arrival_ticks,
                    piece.end - begin,
                    piece.end,
                )
            )
        return found

    def _waiting(self, files: FoundFiles, partition: str, known: Position) -> list[_Waiting]:
        """Files with something to read. Raises InputError for one that is not what it was."""
        turns, _ = generations(known)
        if self.spec.rotation != "none":
            read = self._in_turn(files, partition, turns)
        else:
            read = self._by_name(files, partition, known, turns)
        found: list[_Waiting] = []
        for name, path, status, read_to, begins in read:
            at_name = files.folder(partition) / name
            file_format = self.format_of(at_name)
            unread_bytes = unread_bytes_of(path, file_format, read_to, status)
            if unread_bytes > 0 or begins:
                static = path != at_name and self.spec.rotation == "copytruncate"
                arrival_ticks = status.modified_ns // 100
                found.append(
                    _Waiting(
                        name,
                        path,
                        status,
                        file_format,
                        read_to or 0,
                        arrival_ticks,
                        unread_bytes,
                        begins=begins,
                        finished=static,
                    )
                )
        return found

    def _by_name(
        self, files: FoundFiles, partition: str, known: Position, turns: Sequence[Generation]
    ) -> Iterator[_FileProgress]:
        """The files that are there, and how far they are read, where a name is always that of one file."""
        of_name = {turn.name: turn for turn in turns}
        names, folder = files.names(partition), files.folder(partition)
        if known and known[-1].where in names:  # a file that was cut is finished before another begins
            names.remove(known[-1].where)
            names.insert(0, known[-1].where)
        for name in names:
            turn = of_name.get(name)
            if turn is not None and name != known[-1].where and files.is_settled(name, turn.mark):
                continue
            path = folder / name
            status = _status_now(files, path)
            if turn is not None:
                self._check_unchanged(path, status, turn)
            yield _FileProgress(name, path, status, None if turn is None else turn.read_to)

    def _check_unchanged(self, path: StoragePath, status: FileStatus, turn: Generation) -> None:
        """Raises InputError for a file that has not only grown since it was read."""
        if turn.mark is not None:
            check_unchanged(self.name, path, status, turn.mark, finished=self.spec.finished)
        file_format, size = self.format_of(path), status.size
        if file_format.has_groups:
            return
        if size < turn.read_to:
            raise changed(self.name, path, f"has become shorter: {size} bytes of {turn.read_to} are left")
        if size > turn.read_to > 0 and is_taken_whole(path, file_format, size):
            raise changed(self.name, path, "was read as a whole, and has grown since")

    def _in_turn(
        self, files: FoundFiles, partition: str, turns: Sequence[Generation]
    ) -> Iterator[_FileProgress]:
        """The same where files take turns under a name: the rest of earlier ones is first."""
        latest = {turn.name: turn for turn in turns}
        seen: set[int] = set()
        following: list[str] = []
        for turn in turns:
            path = self.path_of(partition, turn.name)
            file = located(path, turn.mark, self.spec.rotation)
            is_last = turn is latest[turn.name]
            if file is None:
                status = files.status(path)
                if is_last and status is not None:
                    change = None if turn.mark is None else turn.mark.change(path, status)
                    what = change or "has been replaced since it was read"
                    raise changed(self.name, path, f"{what}, and what it was is in no file beside it")
                continue
            status = _status_now(files, file)
            seen.add(inode_of(file, status))
            if is_last and file != path and path.exists():
                following.append(turn.name)
            if is_last or self.spec.rotation == "rename":
                yield _FileProgress(turn.name, file, status, turn.read_to)
        listed = files.names(partition)
        for name in listed:
            path = files.folder(partition) / name
            status = _status_now(files, path)
            if name in following:
                yield _FileProgress(name, path, status, None, begins=True)
            elif (
                name not in latest
                and inode_of(path, status) not in seen
                and not is_rotated_name(name, [*listed, *latest])
            ):
                yield _FileProgress(name, path, status, None)

    def _take(
        self,
        partition: str,
        known: list[Piece],
        waiting: Sequence[_Waiting],
        limit_bytes: int | None,
    ) -> int:
        """Append pieces up to the limit; the bytes taken."""
        taken = 0
        for each in waiting:
            if limit_bytes is not None and taken >= limit_bytes:
                break
            room = None if limit_bytes is None else limit_bytes - taken
            end, used = each.begin, 0
            if each.unread_bytes > 0:
                end, used = self._next_stop(each, room)
            if each.stop is not None:
                end = min(end, each.stop)
            elif end <= each.begin and not each.begins:
                continue
            mark = None if each.status is None else _mark(each, each.status, end)
            last = known[-1] if known else None
            # Arrival time never decreases within a partition (`asa.md` 1.1), whatever the names' order.
            arrival_ticks = (
                each.arrival_ticks if last is None else max(last.arrival_ticks, each.arrival_ticks)
            )
            same_time = last is not None and (last.arrival_ticks == arrival_ticks or self.spec.has_arrivals)
            continues = last is not None and last.where == each.name and last.end == each.begin
            if last is not None and continues and same_time and not each.begins:
                known[-1] = Piece(each.name, last.begin, end, last.arrival_ticks, mark)
            else:
                known.append(Piece(each.name, each.begin, end, arrival_ticks, mark))
            taken += used
            if room is not None and room < each.unread_bytes:
                break  # the rest of this file is read before anything of the next
        return taken

    def _next_stop(self, each: _Waiting, room: int | None) -> tuple[int, int]:
        finished = self.spec.finished or each.finished
        status, delimiter = each.status, self.spec.delimiter
        try:
            if status is None:
                raise FileNotFoundError(str(each.path))
            return next_stop(each.path, status, each.format, each.begin, room, delimiter, finished)
        except FileNotFoundError as error:
            raise InputError(
                f"{each.path} was read by an earlier run and must be read again, but is gone"
            ) from error


class _FileProgress(NamedTuple):
    """How far a file is read.

    name: the one the file was first seen under.
    path: where the file is.
    status: of the file now.
    read_to: the end of what is read of it; None: it was never read.
    begins: its turn under the name begins, even if nothing is in it yet.
    """

    name: str
    path: StoragePath
    status: FileStatus
    read_to: int | None
    begins: bool = False


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A file with something to read.

    name: the one the file was first seen under.
    path: where the file is.
    status: of the file now; None if it is not there.
    format: of the file.
    begin: where reading goes on, in bytes or groups of rows.
    arrival_ticks: when what is new arrived, if no event has a time of its own.
    unread_bytes: how much there is to read.
    stop: where an earlier run has stopped; None: what is new is read as far as a batch may.
    begins: its turn under the name begins.
    finished: the file will not grow, though others may.
    """

    name: str
    path: StoragePath
    status: FileStatus | None
    format: FileFormat
    begin: int
    arrival_ticks: int
    unread_bytes: int
    stop: int | None = None
    begins: bool = False
    finished: bool = False


def _mark(each: _Waiting, status: FileStatus, end: int) -> str:
    """By what a file that is taken up to `end` is known again."""
    whole = each.format.is_whole or each.format.has_groups
    return FileMark.of(each.path, status, status.size if whole else end, whole=whole).text()


def _ends_of(position: Positions) -> dict[str, tuple[int, Piece]]:
    """Of each partition that is read, how many pieces there are, and the last one."""
    return {name: (len(pieces), pieces[-1]) for name, pieces in position.items() if pieces}


def _status_now(files: FoundFiles, path: StoragePath) -> FileStatus:
    """A file that was listed as it is. Raises FileNotFoundError if it is gone since."""
    status = files.status(path)
    if status is None:
        raise FileNotFoundError(str(path))
    return status
