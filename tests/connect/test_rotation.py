"""A live file that changes otherwise than by growing stops the job, or is a rotation one has asked for."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from support.depth import depth
from tideglass.connect.files.input import FileInput
from tideglass.connect.spec import InputSpec, Rotation
from tideglass.core.documents import of_plain, to_plain
from tideglass.core.errors import InputError
from tideglass.core.events import Fields
from tideglass.core.positions import Positions
from tideglass.core.types import OFFSET
from tideglass.storage import storage_path

N = Fields((("n",),))


def lines(*numbers: int) -> str:
    return "".join(json.dumps({"n": n}) + "\n" for n in numbers)


def append(path: Path, *numbers: int) -> None:
    with path.open("a") as file:
        file.write(lines(*numbers))


class Reader:
    """A run over a live input, batch by batch; its position is what a checkpoint would hold."""

    def __init__(self, path: Path, rotation: Rotation = "none", **more: Any) -> None:
        self.spec = InputSpec(name="clicks", path=path, rotation=rotation, finished=False, **more)
        self.position: Positions = {}
        self.ends: list[Positions] = []

    def read(self, limit: int | None = None, **more: Any) -> list[int]:
        """The events of the next batch; the input is made anew, as by a restart."""
        source = FileInput(self.spec.model_copy(update=more))
        latest = json.loads(json.dumps(to_plain(source.latest(self.position, limit))))
        end: Positions = of_plain(Positions, latest)
        found = self.between(self.position, end)
        self.position = end
        self.ends.append(end)
        return found

    def between(self, start: Positions, end: Positions, column: str = "$payload.n") -> list[int]:
        source = FileInput(self.spec)
        chunks = list(source.read("0", start.get("0", []), end["0"], N))
        return [value for chunk in chunks for value in chunk.table[column].to_pylist()]

    def again(self) -> list[int]:
        """All events so far, read again from the beginning; their offsets ascend."""
        offsets = self.between({}, self.position, OFFSET)
        assert offsets == sorted(set(offsets))
        return self.between({}, self.position)


# ---------------------------------------------------------------- none


def rewritten(file: Path) -> None:
    with file.open("r+") as same:
        same.write(lines(4, 5, 6))


def rewritten_longer(file: Path) -> None:
    file.write_text(lines(*range(10, 40)))


def rewritten_at_its_beginning(file: Path) -> None:
    file.write_text(lines(9, 2, 3, 4))


def cut(file: Path) -> None:
    file.write_text(lines(1))


def cut_and_grown(file: Path) -> None:
    file.write_text("")
    append(file, *range(50, 60))


def made_again(file: Path) -> None:
    file.rename(file.with_name("_old"))  # so that its inode is not given to the next file
    file.write_text(lines(7, 8, 9, 10))


def made_again_with_the_same_beginning(file: Path) -> None:
    file.rename(file.with_name("_old"))
    file.write_text(lines(1, 2, 3, 4, 5))


CHANGES = [
    rewritten,
    rewritten_longer,
    rewritten_at_its_beginning,
    cut,
    cut_and_grown,
    made_again,
    made_again_with_the_same_beginning,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("folder", [True, False])
def test_a_live_file_that_is_no_longer_the_one_that_was_read_stops_the_job(
    tmp_path: Path, change: Callable[[Path], None], folder: bool
):
    file = tmp_path / "in.json"
    file.write_text(lines(1, 2, 3))
    reader = Reader(tmp_path if folder else file)
    assert reader.read() == [1, 2, 3]
    start: Positions = {"0": []}
    end = reader.position
    change(file)
    for _ in "12":  # however often it is started again
        with pytest.raises(InputError, match=r"(?s)INPUT_CHANGED.*in\.json.*'clicks'.*--fresh"):
            reader.read()
    with pytest.raises(InputError, match=r"INPUT_CHANGED"):  # a batch that is under way, too
        reader.between(start, end)


@pytest.mark.parametrize("name", ["in.csv", "in.json.gz", "in.parquet"])
def test_a_file_of_every_form_is_known_again(tmp_path: Path, name: str):
    import gzip

    import pyarrow as pa
    import pyarrow.parquet as pq

    def write(first: int) -> None:
        numbers = range(first, first + 100)
        match name:
            case "in.csv":
                (tmp_path / name).write_text("n\n" + "".join(f"{n}\n" for n in numbers))
            case "in.json.gz":
                (tmp_path / name).write_bytes(gzip.compress(lines(*numbers).encode()))
            case _:
                pq.write_table(pa.table({"n": list(numbers)}), tmp_path / name, row_group_size=30)

    write(100)
    reader = Reader(tmp_path)
    read: list[int] = []
    while found := reader.read(1):
        read += [int(n) for n in found]
    assert read == list(range(100, 200))
    os.utime(tmp_path / name, (1, 1))
    assert reader.read() == []
    write(500)
    with pytest.raises(InputError, match="INPUT_CHANGED"):
        reader.read()


def test_a_file_that_is_touched_or_moved_with_its_folder_is_still_the_same(tmp_path: Path):
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "in.json"
    file.write_text(lines(1, 2))
    reader = Reader(tmp_path / "a")
    assert reader.read() == [1, 2]
    os.utime(file, (1, 1))
    assert reader.read() == []
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    append(tmp_path / "b" / "in.json", 3)
    reader.spec = reader.spec.model_copy(update={"path": storage_path(tmp_path / "b")})
    assert reader.read() == [3]
    assert reader.again() == [1, 2, 3]


def test_a_position_of_an_earlier_version_has_no_marks_and_is_read_on(tmp_path: Path):
    file = tmp_path / "in.json"
    file.write_text(lines(1, 2, 3))
    reader = Reader(tmp_path)
    reader.read()
    reader.position = {"0": [piece._replace(mark=None) for piece in reader.position["0"]]}
    assert reader.read() == []
    append(file, 4)
    assert reader.read() == [4]
    assert reader.again() == [1, 2, 3, 4]
    file.write_text(lines(1))
    reader.position = {"0": [piece._replace(mark=None) for piece in reader.position["0"]]}
    with pytest.raises(InputError, match="has become shorter"):
        reader.read()


def test_a_file_that_was_read_may_be_deleted(tmp_path: Path):
    (tmp_path / "a.json").write_text(lines(1))
    reader = Reader(tmp_path)
    assert reader.read() == [1]
    (tmp_path / "a.json").unlink()
    (tmp_path / "b.json").write_text(lines(2))
    assert reader.read() == [2]


# ---------------------------------------------------------------- rename


@pytest.mark.parametrize("folder", [True, False])
def test_a_renamed_file_is_read_to_its_end_and_not_again(tmp_path: Path, folder: bool):
    file = tmp_path / "in.json"
    file.write_text(lines(1, 2))
    reader = Reader(tmp_path if folder else file, "rename")
    assert reader.read() == [1, 2]
    append(file, 3)
    file.rename(tmp_path / "in.json.1")
    assert reader.read() == [3]  # nothing is under the name for a while
    append(tmp_path / "in.json.1", 4)  # whoever writes has not heard of it yet
    file.write_text(lines(5))
    assert reader.read() == [4, 5]
    append(file, 6)
    assert reader.read() == [6]
    (tmp_path / "in.json.1").rename(tmp_path / "in.json.2")
    append(file, 7)
    file.rename(tmp_path / "in.json.1")
    file.write_text("")
    assert reader.read() == [7]
    assert reader.read() == []
    assert reader.again() == [1, 2, 3, 4, 5, 6, 7]
    (tmp_path / "in.json.2").unlink()  # its time is over
    append(file, 8)
    assert reader.read() == [8]


def test_a_renamed_file_that_is_a_file_of_the_input_by_its_name_is_not_read_again(tmp_path: Path):
    file = tmp_path / "in.json"
    file.write_text(lines(1, 2))
    reader = Reader(tmp_path / "in*.json", "rename")
    assert reader.read() == [1, 2]
    append(file, 3)
    file.rename(tmp_path / "in-20260101.json")
    file.write_text(lines(4))
    assert reader.read() == [3, 4]
    (tmp_path / "in-x.json").write_text(lines(5))
    assert reader.read() == [5]
    assert reader.again() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("rotation", ["rename", "copytruncate"])
def test_a_file_whose_rest_is_nowhere_stops_the_job(tmp_path: Path, rotation: Rotation):
    file = tmp_path / "in.json"
    file.write_text(lines(1, 2))
    reader = Reader(file, rotation)
    assert reader.read() == [1, 2]
    file.rename(tmp_path / "other")
    file.write_text(lines(3, 4, 5))
    with pytest.raises(InputError, match="in no file beside it"):
        reader.read()


def test_under_rename_a_file_that_is_cut_stops_the_job(tmp_path: Path):
    file = tmp_path / "in.json"
    file.write_text(lines(1, 2))
    reader = Reader(file, "rename")
    assert reader.read() == [1, 2]
    file.write_text(lines(3))
    with pytest.raises(InputError, match="INPUT_CHANGED"):
        reader.read()


# ---------------------------------------------------------------- copytruncate


def test_a_file_that_is_copied_and_emptied_is_read_from_its_copy_and_anew(tmp_path: Path):
    file = tmp_path / "in.json"
    file.write_text(lines(1, 2))
    reader = Reader(file, "copytruncate")
    assert reader.read() == [1, 2]
    append(file, 3, 4)
    shutil.copy(file, tmp_path / "in.json.1")
    assert reader.read(1) == [3]  # the copy is there, the file not yet cut
    file.write_text("")
    assert reader.read() == [4]
    assert reader.read() == []
    (tmp_path / "in.json.1").rename(tmp_path / "in.json.2")
    append(file, 5)
    assert reader.read() == [5]
    append(file, 6)
    shutil.copy(file, tmp_path / "in.json.1")
    file.write_text(lines(7, 8, 9, 10))  # longer than it was
    assert reader.read() == [6, 7, 8, 9, 10]
    assert reader.again() == list(range(1, 11))


def test_a_copy_may_go_once_it_is_read(tmp_path: Path):
    file = tmp_path / "in.json"
    file.write_text(lines(1))
    reader = Reader(file, "copytruncate")
    assert reader.read() == [1]
    shutil.copy(file, tmp_path / "in.json.1")
    file.write_text("")
    assert reader.read() == []
    (tmp_path / "in.json.1").unlink()
    assert reader.read() == []
    append(file, 2)
    assert reader.read() == [2]


def test_copies_are_of_one_file(tmp_path: Path):
    with pytest.raises(ValidationError, match="name the file"):
        Reader(tmp_path, "copytruncate")


# ---------------------------------------------------------------- both


@given(steps=st.lists(st.sampled_from(["append", "rotate", "read", "read a little"]), max_size=25))
@settings(max_examples=depth(100), deadline=None)
@pytest.mark.parametrize("rotation", ["rename", "copytruncate"])
def test_however_appends_rotations_and_batches_follow_each_event_is_read_once(
    tmp_path_factory: pytest.TempPathFactory, rotation: Rotation, steps: list[str]
):
    folder = tmp_path_factory.mktemp("in")
    file = folder / "in.json"
    file.write_text(lines(0))
    reader, read, written = Reader(file, rotation), list[int](), 1
    read += reader.read()
    looked = True  # since something was in the file: a copy of what nobody has seen is not known for one
    for step in steps:
        if step == "append":
            append(file, *range(written, written + 3))
            written += 3
        elif step == "rotate" and looked:
            looked = False
            for number in reversed(range(1, 30)):
                if (folder / f"in.json.{number}").exists():
                    (folder / f"in.json.{number}").rename(folder / f"in.json.{number + 1}")
            if rotation == "rename":
                file.rename(folder / "in.json.1")
                file.touch()
            else:
                shutil.copy(file, folder / "in.json.1")
                file.write_text("")
        elif step == "read":
            read += reader.read()
            looked = rotation == "rename" or file.stat().st_size > 0
        elif step == "read a little":
            read += reader.read(9)
    read += reader.read()
    read += reader.read()
    assert read == list(range(written))
    assert reader.again() == read
