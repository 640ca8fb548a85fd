"""Broken gzip gives all that comes before the break, whatever the break is and however it is read."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.depth import depth
from tideglass.connect.files import reading
from tideglass.connect.files.input import FileInput
from tideglass.connect.files.unpacking import Unpacked
from tideglass.connect.formats.decoded import INVALID_COMPRESSION, merge_rejected
from tideglass.connect.reference.snapshot import FileSnapshot
from tideglass.connect.spec import InputSpec
from tideglass.core.errors import InputError
from tideglass.core.events import Fields

LINES = [b'{"n":%d,"s":"%s"}\n' % (n, b"xyzzy"[: n * 7 % 5] * (n % 9)) for n in range(3000)]
TEXT = b"".join(LINES)
ONE = gzip.compress(TEXT)
SEVERAL = gzip.compress(TEXT[:9000]) + b"\0\0" + gzip.compress(TEXT[9000:], 1) + gzip.compress(b"")
STORED = gzip.compress(TEXT[:20_000], 0)  # not packed: a flipped byte shows at the end only


def content(packed: bytes, step: int) -> tuple[bytes, str | None]:
    """What is read in steps of a size, and what was wrong."""
    file, parts, room = Unpacked(io.BytesIO(packed), len(packed)), list[bytes](), bytearray(step)
    while got := file.readinto(room):
        parts.append(bytes(room[:got]))
    return b"".join(parts), file.broken


def content_slowly(packed: bytes) -> tuple[bytes, bool]:
    """The same, packed bytes one by one, and whether something was wrong."""
    given, place = b"", 0
    while True:
        while packed[place : place + 1] == b"\0":
            place += 1
        if place >= len(packed):
            return given, False
        member = zlib.decompressobj(31)
        while not member.eof:
            if place >= len(packed):
                return given, True
            try:
                given += member.decompress(packed[place : place + 1])
            except zlib.error:
                return given, True
            place += 1


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    packed = draw(st.sampled_from([ONE, SEVERAL, STORED]))
    place = draw(st.integers(0, len(packed) - 1))
    match draw(st.sampled_from(["cut", "flip", "more"])):
        case "cut":
            return packed[:place]
        case "flip":
            return packed[:place] + bytes([packed[place] ^ draw(st.integers(1, 255))]) + packed[place + 1 :]
        case _:
            return packed + draw(st.binary(min_size=1, max_size=40))


@given(packed=broken(), step=st.integers(1, 70_000))
@example(packed=ONE[:-4], step=1 << 20)
@example(packed=ONE + b"garbage", step=1 << 20)
@settings(max_examples=depth(150), deadline=None)
def test_all_that_comes_before_the_break_is_unpacked(packed: bytes, step: int):
    given_bytes, reason = content(packed, step)
    slowly, wrong = content_slowly(packed)
    assert given_bytes.startswith(slowly)
    assert len(given_bytes) - len(slowly) <= 258  # zlib's longest copy, of which the wrong byte is a part
    assert (reason is not None) == wrong
    assert content(packed, 1 << 20) == (given_bytes, reason)


def test_members_one_behind_the_other_are_one_content():
    for packed in (ONE, SEVERAL):
        for step in (1, 1000, 1 << 20):
            assert content(packed, step) == (TEXT, None)


def test_a_place_is_found_again_before_and_behind_the_one_reading_is_at():
    file = Unpacked(io.BytesIO(SEVERAL), len(SEVERAL))
    for place in (0, 20_000, 100, len(TEXT), 8_999):
        assert file.seek(place) == place
        assert file.read(50) == TEXT[place : place + 50]
    assert file.seek(len(TEXT) + 9) == len(TEXT)


def numbers(path: Path, limit: int | None = None) -> tuple[list[int], list[tuple[str, int]]]:
    """The field n of the events, read in batches of a size, and what was refused."""
    source = FileInput(InputSpec(name="in", path=path))
    position, chunks = source.latest({}, limit), []
    chunks += source.read("0", [], position["0"], Fields((("n",),)))
    while not source.ended(position) >= set(source.partitions()):
        end = source.latest(position, limit)
        chunks += source.read("0", position["0"], end["0"], Fields((("n",),)))
        position = end
    refused = merge_rejected([each for chunk in chunks for each in chunk.rejected])
    read = [int(n) for chunk in chunks for n in chunk.table["$payload.n"].to_pylist() if n is not None]
    return read, [(each.error_type, each.count) for each in refused]


FORMS = {
    "json": TEXT,
    "csv": b"n,s\n" + b"".join(b"%d,x\n" % n for n in range(3000)),
    "array.json": b"[" + b",".join(line.strip() for line in LINES) + b"]",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", ["the last 4 bytes", "half", "garbage behind", "the second member cut"])
def test_the_whole_events_before_the_break_are_read_and_the_break_is_counted_once(
    tmp_path: Path, form: str, how: str, monkeypatch: pytest.MonkeyPatch
):
    plain = FORMS[form]
    packed = gzip.compress(plain)
    match how:
        case "the last 4 bytes":
            packed = packed[:-4]
        case "half":
            packed = packed[: len(packed) // 2]
        case "garbage behind":
            packed += b"garbage"
        case _:
            packed = gzip.compress(plain[: len(plain) // 2]) + gzip.compress(plain[len(plain) // 2 :])[:-2000]
    path = tmp_path / f"in.{form}.gz"
    path.write_bytes(packed)
    before = content_slowly(packed)[0]
    ends = {"json": b"\n", "csv": b"\n", "array.json": b"}"}[form]
    whole = before.count(ends) - (form == "csv")
    assert whole >= 1000
    found = numbers(path)
    assert found == (list(range(whole)), [(INVALID_COMPRESSION, 1)])
    assert numbers(path, limit=1) == found
    monkeypatch.setattr(reading, "BLOCK_BYTES", 1 << 10)
    assert numbers(path) == found


def test_a_last_line_without_its_end_is_whole_where_nothing_is_missing(tmp_path: Path):
    for form, text, last in (
        ("json", b'{"n":1}\n{"n":2}', 2),
        ("csv", b"n\n1\n2", 2),
        ("csv", b"n\n1\n23", 23),
    ):
        path = tmp_path / f"in.{form}.gz"
        path.write_bytes(gzip.compress(text) + b"?")
        assert numbers(path) == ([1, last], [(INVALID_COMPRESSION, 1)])
    # In the middle of a member nobody can tell whether 2 is all of a number.
    member = zlib.compressobj(0, wbits=31)
    cut = member.compress(b"n\n1\n2") + member.flush(zlib.Z_FULL_FLUSH)
    (tmp_path / "in.csv.gz").write_bytes(cut)
    assert numbers(tmp_path / "in.csv.gz") == ([1], [(INVALID_COMPRESSION, 1)])


def test_what_is_appended_behind_the_end_is_not_unpacked():
    more = ONE + gzip.compress(b"more")
    file = Unpacked(io.BytesIO(more), len(ONE))
    assert (file.read(), file.broken) == (TEXT, None)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_reference_data_that_is_broken_stops_the_job(tmp_path: Path, form: str):
    path = tmp_path / f"rows.{form}.gz"
    path.write_bytes(gzip.compress(FORMS[form])[:-4])
    snapshot = FileSnapshot.found("rows", path, form)
    with pytest.raises(InputError, match="not valid gzip"):
        snapshot.read("rows", Fields((("n",),)), "1.2")
    rows = [{"n": 1}, {"n": "x"}]
    path.write_bytes(gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in rows) + b"?\n")[:-4])
    if form == "json":  # the row that is wrong is named though the file is broken behind it
        with pytest.raises(InputError, match=r"rows\.json\.gz:3"):
            FileSnapshot.found("rows", path, form).read("rows", Fields((("n",),)), "1.2")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("zeros", [1, 9, 200_000])
def test_a_file_of_zeros_is_a_break(tmp_path: Path, form: str, zeros: int):
    path = tmp_path / f"in.{form}.gz"
    path.write_bytes(bytes(zeros))
    assert INVALID_COMPRESSION in dict(numbers(path)[1])
    path.write_bytes(bytes(zeros) + gzip.compress(FORMS[form]))
    assert INVALID_COMPRESSION in dict(numbers(path)[1])
    path.write_bytes(gzip.compress(FORMS[form]) + bytes(zeros))
    assert numbers(path)[1] == []


def test_a_file_cut_within_its_header_is_a_break(tmp_path: Path):
    path = tmp_path / "in.json.gz"
    for length in range(1, 12):
        path.write_bytes(ONE[:length])
        assert numbers(path) == ([], [(INVALID_COMPRESSION, 1)])
