"""Files that survive a crash, cut at every byte."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tideglass.connect.reference.journal import JournaledReferences
from tideglass.connect.reference.snapshot import FileSnapshot
from tideglass.connect.spec import ReferenceSpec
from tideglass.core.durable import append_lines, replace_file, sealed, unsealed, whole_lines
from tideglass.core.errors import TideglassError
from tideglass.ingress.reports import PartitionReport
from tideglass.job.progress.idle_journal import IdleJournal
from tideglass.job.report.run_journal import Ended, RunEnd, RunStart, add, read_runs

LINES = ["one", "zwölf", "", "the last"]


def cuts(path: Path) -> range:
    return range(len(path.read_bytes()) + 1)


def test_a_file_cut_anywhere_keeps_its_whole_lines_and_takes_the_next(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    append_lines(whole, LINES)
    for cut in cuts(whole):
        path = tmp_path / f"cut {cut}"
        path.write_bytes(whole.read_bytes()[:cut])
        kept = LINES[: path.read_bytes().count(b"\n")]
        assert whole_lines(path.read_bytes()) == kept
        append_lines(path, ["next"])
        assert whole_lines(path.read_bytes()) == [*kept, "next"]


def test_a_torn_line_longer_than_what_is_read_at_once_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "long"
    append_lines(path, ["first"])
    with path.open("ab") as file:
        file.write(b"x" * 200_000)
    append_lines(path, ["second"])
    assert path.read_bytes() == b"first\nsecond\n"


def idle_periods(path: Path, count: int) -> None:
    journal = IdleJournal(path)
    for offset in range(count):
        journal.take(PartitionReport("i", "0", next_offset=offset, quiet_until_ticks=1000 + offset))


def known_silences(path: Path) -> list[int]:
    return [each.offset for each in IdleJournal(path).of(("i", "0"))]


def runs(path: Path, count: int) -> None:
    known = len(read_runs(path))
    for run in range(known + 1, count + 1):
        add(path, RunStart(run, "2026-01-01T00:00:00Z", 1, False, "beginning", "first", "there", 1, "host"))


def known_runs(path: Path) -> list[int]:
    return [each.start.run - 1 for each in read_runs(path)]


def references(path: Path, count: int) -> None:
    journal = journal_at(path)
    known = len(list(journal.snapshots("r", 0))) + len(known_references(path))
    fresh = [FileSnapshot(each, f"/{each}.json", "json", ",", 1, 1) for each in range(known, count)]
    journal._add("r", fresh)
    (tmp,) = Path(journal.directory).glob("*.jsonl")
    os.replace(tmp, path)


def known_references(path: Path) -> list[int]:
    journal = journal_at(path)
    return [each.effective_ticks for each in journal._load("r")]


def journal_at(path: Path) -> JournaledReferences:
    """A journal of reference data whose file has the content of `path`."""

    class Input:
        name = "r"
        spec = ReferenceSpec.model_validate({"name": "r", "path": "/r.json"})

        def look(self, known: object, now_ticks: int | None) -> list[FileSnapshot]:
            raise AssertionError("nobody looks")

    journal = JournaledReferences(str(path.parent / "reference"), (Input(),))
    replace_file(journal._path("r").local, path.read_bytes() if path.exists() else b"")
    return journal


@pytest.mark.parametrize(
    "wrong",
    [
        {"offset": ""},
        {"offset": None},
        {"offset": 1.5},
        {"until_ticks": "1"},
        {"until_ticks": True},
        {"input": 1},
        {"partition": []},
    ],
)
def test_an_idle_period_of_another_shape_is_damage_of_its_file(
    tmp_path: Path, wrong: dict[str, object]
) -> None:
    path = tmp_path / "silences"
    idle_periods(path, 2)
    append_lines(path, [json.dumps({"input": "i", "partition": "0", "offset": 3, "until_ticks": 1, **wrong})])
    with pytest.raises(TideglassError, match="silences"):
        known_silences(path)


@pytest.mark.parametrize(
    ("grow", "known"),
    [(idle_periods, known_silences), (runs, known_runs), (references, known_references)],
    ids=["idle periods", "runs", "reference data"],
)
def test_a_journal_cut_anywhere_loses_the_torn_line_alone_and_no_later_one(
    grow: Callable[[Path, int], None], known: Callable[[Path], list[int]], tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    grow(whole, 2)
    assert known(whole) == [0, 1]
    for cut in cuts(whole):
        path = tmp_path / "cut"
        path.write_bytes(whole.read_bytes()[:cut])
        kept = list(range(path.read_bytes().count(b"\n")))
        assert known(path) == kept
        grow(path, 3)
        assert known(path) == [0, 1, 2]


def test_an_end_is_still_read_behind_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    runs(path, 1)
    path.write_bytes(path.read_bytes() + b'{"run": 1, "ended"')
    add(path, RunEnd(1, "2026-01-01T00:01:00Z", Ended.KILLED))
    assert [each.end is not None for each in read_runs(path)] == [True]


def test_a_reader_finds_the_old_content_or_the_new_one_when_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    replace_file(path, b"old")
    with pytest.raises(TypeError):
        replace_file(path, "no bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert [each.name for each in path.parent.iterdir()] == ["file"]


def test_what_is_replaced_is_on_the_disk_before_it_has_its_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        fsync(handle)

    def replaced(source: Path, target: Path) -> None:
        done.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    replace_file(tmp_path / "file", b"body")
    assert done == ["file", "rename", "folder"]
    done.clear()
    replace_file(tmp_path / "file", b"body", synced=False)
    assert done == ["rename"]


def test_every_flipped_bit_of_a_sealed_document_shows_or_changes_nothing() -> None:
    content = {"offsets": {"0": 5000, "10": 7}, "name": "a b", "share": 0.25, "of": [1, None, True]}
    body = json.dumps(sealed(content)).encode()
    for at in range(len(body)):
        for bit in range(8):
            flipped = bytearray(body)
            flipped[at] ^= 1 << bit
            try:
                found = unsealed(json.loads(bytes(flipped)))
            except ValueError:
                continue
            # Without its key the checksum is a key nobody knows, which every reader refuses.
            assert found == content or set(found) - set(content)
