"""Snapshots of reference data in files: formats, patterns, the journal, and all that can go wrong."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from support.depth import depth
from support.places import put
from support.times import ticks_of
from tideglass.connect.reference import snapshot as snapshots_module
from tideglass.connect.reference.files import FileReference
from tideglass.connect.reference.journal import JournaledReferences
from tideglass.connect.reference.pattern import PathPattern
from tideglass.connect.reference.snapshot import FileSnapshot
from tideglass.connect.spec import ReferenceSpec
from tideglass.core.errors import InputError, StateError
from tideglass.core.events import Fields
from tideglass.core.json_rows import rows_of
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.core.types import Type, types_of
from tideglass.storage import StoragePath, storage_path

FIELDS = Fields((("k",), ("at",)), True)


def reference(path: Path | StoragePath, **more: object) -> FileReference:
    return FileReference(ReferenceSpec.model_validate({"name": "r", "path": path, **more}))


def write(path: Path | StoragePath, text: str) -> StoragePath:
    return put(storage_path(path), text)


def keys(snapshot: FileSnapshot, fields: Fields = FIELDS) -> list[object]:
    table = snapshot.read("r", fields, "1.2")
    return [row["k"] for row in rows_of(table.select(["$payload.k"]).rename_columns(["k"]))]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.json", '{"k": 1}\n{"k": "x"}\n', [1, "x"]),
        ("a.json", '[{"k": 1},\n {"k": 2.5}]', [1, 2.5]),
        ("a.csv", "k,v\n1,2\nx,3\n", ["1", "x"]),
        ("a.json", "", []),
    ],
)
def test_a_file_of_each_format_is_one_snapshot(
    tmp_path: Path, name: str, text: str, expected: list[object]
) -> None:
    (found,) = reference(write(tmp_path / name, text)).look((), None)
    assert found.effective_ticks == BEFORE_ALL_TICKS
    assert keys(found) == expected


def test_columns_of_parquet_keep_their_types(tmp_path: Path) -> None:
    moment = pa.array([0], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"k": pa.array([7], pa.int32()), "at": moment}), tmp_path / "a.parquet")
    (found,) = reference(tmp_path / "a.parquet").look((), None)
    types = types_of(found.read("r", FIELDS, "1.2"))
    assert (types["$payload.k"], types["$payload.at"]) == (Type.BIGINT, Type.DATETIME)


def test_a_broken_row_is_named_with_its_line(place: StoragePath) -> None:
    path = write(place / "a.json", '{"k": 1}\n{"k": 2}\n{"k": \n')
    (found,) = reference(path).look((), None)
    with pytest.raises(InputError, match=rf"BROKEN_REFERENCE_ROW.*{path}:3: .*'r'"):
        keys(found)


def test_a_row_that_does_not_fit_create_table_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "k\n1\nx\n")
    (found,) = reference(path).look((), None)
    with pytest.raises(InputError, match=r"a\.csv:3: .*column k is no bigint"):
        keys(found, Fields((("k",),), False, (("k", Type.BIGINT),)))


def test_a_file_that_is_not_there_is_named_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"REFERENCE_NOT_FOUND.*none\.json.*\n.*--input r="):
        reference(tmp_path / "none.json").look((), None)
    with pytest.raises(InputError, match=r"REFERENCE_NOT_FOUND.*\{date\} as YYYY"):
        reference(tmp_path / "{date}" / "a.json").look((), None)


def test_a_file_larger_than_a_worker_may_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.json", '{"k": 1}\n')
    monkeypatch.setattr(snapshots_module, "MOST_BYTES", 8)
    with pytest.raises(InputError, match=r"REFERENCE_TOO_LARGE.* 9 bytes.*at most 8"):
        reference(path).look((), None)


def test_a_file_that_changes_after_it_was_found_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", '{"k": 1}\n')
    (found,) = reference(path).look((), None)
    assert keys(found) == [1]
    write(path, '{"k": 2}\n')
    os.utime(path, ns=(0, found.modified_ns + 1))
    with pytest.raises(InputError, match=r"REFERENCE_CHANGED.*\n.*\{date\}"):
        keys(found)


# ---------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    ("date_format", "time_format", "name"),
    [
        ("YYYY/MM/DD", "HH", "2026/03/04/05/p.json"),
        ("YYYY-MM-DD", "HH-mm", "2026-03-04/05-06/p.json"),
        ("DD/MM/YYYY", "HH/mm", "04/03/2026/05/06/p.json"),
        ("YYYYMMDD", "HHmmss", "20260304/050600/p.json"),
    ],
)
def test_a_path_says_from_when_its_rows_hold(
    place: StoragePath, date_format: str, time_format: str, name: str
) -> None:
    write(place / name, "")
    write(place / "other.json", "")
    folder = place
    pattern = PathPattern(folder / "{date}" / "{time}" / "p.json", date_format, time_format)
    minute = "06" if "mm" in time_format else "00"
    assert list(pattern.snapshots()) == [(ticks_of(f"2026-03-04T05:{minute}:00Z"), folder / name)]


def test_a_name_that_is_no_date_and_a_format_that_is_none_are_refused(place: StoragePath) -> None:
    write(place / "2026" / "13" / "01" / "p.json", "")
    with pytest.raises(InputError, match=r"its name is no time: month must be"):
        list(PathPattern(place / "{date}" / "p.json").snapshots())
    with pytest.raises(InputError, match="'year' is no format"):
        list(PathPattern(place / "{date}" / "p.json", "year").snapshots())


def day(folder: Path | StoragePath, number: int) -> StoragePath:
    return write(folder / f"2026-01-{number:02d}.json", json.dumps({"k": number}) + "\n")


def test_snapshots_are_not_looked_for_before_their_time_and_older_ones_are_ignored(
    place: StoragePath,
) -> None:
    source = reference(place / "{date}.json", date_format="YYYY-MM-DD")
    for number in (2, 4):
        day(place, number)
    first = source.look((), ticks_of("2026-01-03T00:00:00Z"))
    assert [keys(each) for each in first] == [[2]]
    for number in (1, 3):
        day(place, number)
    later = source.look(first, ticks_of("2026-01-05T00:00:00Z"))
    assert [keys(each) for each in later] == [[3], [4]]
    assert source.look([*first, *later], None) == []


# ---------------------------------------------------------------- the journal


def journaled(folder: Path | StoragePath) -> JournaledReferences:
    source = reference(folder / "in" / "{date}.json", date_format="YYYY-MM-DD")
    return JournaledReferences(str(folder / "journal"), (source,), look_seconds=0.0)


@given(st.lists(st.integers(1, 28), min_size=1, max_size=8), st.data())
@examples(max_examples=depth(40), deadline=None)
def test_what_a_number_of_snapshots_means_never_changes(
    tmp_path_factory: pytest.TempPathFactory, days: list[int], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("reference")
    seen: list[FileSnapshot] = []
    references = journaled(folder)
    for number in days:
        day(folder / "in", number)
        if data.draw(st.booleans()):
            references = journaled(folder)  # a restart
        count = references.find(ticks_of("2026-02-01T00:00:00Z"))["r"]
        found = list(journaled(folder).snapshots("r", count))
        assert found[: len(seen)] == seen
        seen = found
    effective = [each.effective_ticks for each in seen]
    assert effective == sorted(set(effective))
    assert effective[-1] == ticks_of(f"2026-01-{max(days):02d}T00:00:00Z")


def test_finished_inputs_look_once_so_that_all_batches_agree(place: StoragePath) -> None:
    references = journaled(place)
    day(place / "in", 1)
    assert references.find(None) == {"r": 1}
    day(place / "in", 2)
    assert references.find(None) == {"r": 1}
    assert journaled(place).find(None) == {"r": 2}


def test_an_input_that_is_read_from_elsewhere_has_found_nothing_yet(tmp_path: Path) -> None:
    day(tmp_path / "in", 1)
    day(tmp_path / "other", 7)
    assert journaled(tmp_path).find(None) == {"r": 1}
    other = reference(tmp_path / "other" / "{date}.json", date_format="YYYY-MM-DD")
    references = JournaledReferences(str(tmp_path / "journal"), (other,))
    assert references.find(None) == {"r": 1}
    assert [keys(each) for each in references.snapshots("r", 1)] == [[7]]


def test_a_line_cut_by_a_crash_is_written_again(tmp_path: Path) -> None:
    day(tmp_path / "in", 1)
    journaled(tmp_path).find(None)
    (path,) = (tmp_path / "journal").iterdir()
    path.write_text(path.read_text() + '{"effective_ti')
    day(tmp_path / "in", 2)
    references = journaled(tmp_path)
    assert references.find(None) == {"r": 2}
    assert [keys(each) for each in references.snapshots("r", 2)] == [[1], [2]]


def test_a_batch_that_counts_on_more_than_the_journal_holds_is_refused(place: StoragePath) -> None:
    day(place / "in", 1)
    references = journaled(place)
    references.find(None)
    with pytest.raises(StateError, match="counts on 2"):
        references.snapshots("r", 2)
    references.forget()
    assert not (place / "journal").exists()


def test_a_snapshot_is_known_by_what_it_holds(tmp_path: Path) -> None:
    (found,) = reference(day(tmp_path, 1)).look((), None)
    assert found == FileSnapshot(**json.loads(json.dumps(dataclasses.asdict(found))))


def test_one_alone_looks_and_others_go_by_what_it_has_written_down(tmp_path: Path) -> None:
    day(tmp_path / "in", 1)
    looking = journaled(tmp_path)
    other = dataclasses.replace(journaled(tmp_path), looks=False)
    assert other.find(ticks_of("2026-02-01T00:00:00Z")) == {"r": 0}
    looking.find(ticks_of("2026-02-01T00:00:00Z"))
    assert other.find(ticks_of("2026-02-01T00:00:00Z")) == {"r": 1}
    day(tmp_path / "in", 2)
    assert other.find(ticks_of("2026-02-01T00:00:00Z")) == {"r": 1}
