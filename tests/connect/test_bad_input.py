"""Each row of `docs/bad-input.md`: what bad input does, and that it does it to nothing else."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideglass.connect.files import reading
from tideglass.connect.files.input import FileInput
from tideglass.connect.formats.decoded import (
    INVALID_COMPRESSION,
    INVALID_DATA,
    INVALID_HEADER,
    MISSING_COLUMNS,
    TYPE_CONVERSION,
    merge_rejected,
)
from tideglass.connect.spec import InputSpec
from tideglass.core.errors import InputError
from tideglass.core.events import Fields, Rejected
from tideglass.core.types import Type

A = Fields((("a",),))


class Read:
    """What an input of one file gives: the column `a`, the whole events, and what was refused."""

    def __init__(self, path: Path, content: bytes | str, fields: Fields = A, level: str = "1.2", **spec: Any):
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        source = FileInput(InputSpec(name="in", path=path, **spec))
        self.chunks = list(source.read("0", [], source.latest({})["0"], fields, level))
        self.a = self.column("$payload.a")
        self.rejected: tuple[Rejected, ...] = merge_rejected([r for c in self.chunks for r in c.rejected])
        self.errors = [(r.error_type, r.count) for r in self.rejected]

    def column(self, name: str) -> list[Any]:
        return [v for c in self.chunks if name in c.table.column_names for v in c.table[name].to_pylist()]


def test_every_test_the_page_names_exists_and_every_row_names_one():
    root = Path(__file__).parents[2]
    page = (root / "docs/bad-input.md").read_text()
    named = re.findall(r"`(test_\w+)`", page)
    assert len(named) == len(set(named)) > 30
    elsewhere = "".join(file.read_text() for file in root.glob("tests/**/test_*.py"))
    assert {name for name in named if f"def {name}(" not in elsewhere} <= set(globals())
    cases = re.findall(r"`(\w+/\w+)`", page)
    assert len(cases) > 5
    assert all((root / "tests" / "cases" / f"{case}.case").is_file() for case in cases)
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| input")]
    assert [row for row in rows if not re.search(r"`(test_\w+|\w+/\w+)` \|$", row)] == []


def refused_alone(tmp_path: Path, line: str | bytes, shown: str | None = None) -> Rejected:
    """The one refusal of a file in which a bad line stands between two good ones.

    shown: what of the line is refused, by default all of it.
    """
    bad = line.encode() if isinstance(line, str) else line
    read = Read(tmp_path / "in.json", b'{"a":1}\n' + bad + b'\n{"a":2}\n')
    assert read.a == [1, 2]
    assert read.errors == [(INVALID_DATA, 1)]
    assert read.rejected[0].examples == (shown or bad.decode("utf-8", "replace"),)
    return read.rejected[0]


# ---------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    "line",
    ['{"a":', '{"a":1', "{'a':1}", '{"a":/**/1}', '{"a":01}', '{"a":+1}', '{"a":.5}',
     '{"a":True}', '{"a" 1}', '{"a":1}}'],
)  # fmt: skip
def test_a_line_that_is_no_json_is_refused(tmp_path: Path, line: str):
    assert refused_alone(tmp_path, line).message == "the event is not valid JSON"


@pytest.mark.parametrize("line", ['{"a":NaN}', '{"b":-Infinity,"a":1}', '{"a":1,"b":[inf]}'])
def test_a_number_json_has_no_word_for_is_refused(tmp_path: Path, line: str):
    assert "NaN" in refused_alone(tmp_path, line).message


@pytest.mark.parametrize("line", ['{"a":1,}', '{"a":1,"b":[1, ]}'])
def test_a_trailing_comma_is_refused(tmp_path: Path, line: str):
    assert "trailing comma" in refused_alone(tmp_path, line).message


@pytest.mark.parametrize("line", ["7", '"x"', "null", "[7]", "text"])
def test_a_line_that_is_no_object_is_refused(tmp_path: Path, line: str):
    bad = refused_alone(tmp_path, line, line.strip("[]"))
    assert bad.message == "the event is not a JSON object"


@pytest.mark.parametrize(("field", "number"), [("a", 2**63), ("b", 2**63), ("a", -(2**63) - 1), ("b", 2**64)])
def test_2_to_the_63_is_refused_and_one_less_is_not(tmp_path: Path, field: str, number: int):
    assert "64-bit" in refused_alone(tmp_path, f'{{"{field}":{number}}}').message
    assert Read(tmp_path / "in.json", f'{{"a":{2**63 - 1}}}\n{{"a":{-(2**63)}}}').a == [2**63 - 1, -(2**63)]


def test_a_number_outside_float_is_refused_where_it_is_read(tmp_path: Path):
    assert "range of float" in refused_alone(tmp_path, '{"a":1e400}').message
    assert Read(tmp_path / "in.json", '{"a":1,"b":1e400}').a == [1]


def test_digits_a_float_cannot_hold_are_no_error(tmp_path: Path):
    assert Read(tmp_path / "in.json", '{"a":0.1234567890123456789}').a == [0.1234567890123456789]


@pytest.mark.parametrize("line", [b'{"a":"\xff"}', b'{"a":1,"b":"\xc3("}', b'{"a":"\xed\xa0\x80"}'])
def test_invalid_utf8_is_refused_line_by_line(tmp_path: Path, line: bytes):
    assert "UTF-8" in refused_alone(tmp_path, line).message


@pytest.mark.parametrize("line", [r'{"a":"\ud800"}', r'{"a":"\udc00x"}', r'{"b":"\ud800\u0041"}'])
def test_half_a_surrogate_pair_is_refused(tmp_path: Path, line: str):
    assert "not valid JSON" in refused_alone(tmp_path, line).message


def test_a_control_character_in_a_text_is_refused(tmp_path: Path):
    refused_alone(tmp_path, '{"a":"x\ty"}')


def test_a_field_whose_name_is_a_star_is_a_field_like_any_other(tmp_path: Path):
    fields = Fields((("*",), ("a", "*"), ("b",)))
    read = Read(tmp_path / "in.json", b'{"*":1,"b":2}\n{"a":{"*":3},"b":4}\n', fields)
    assert (read.column("$payload.*"), read.column("$payload.a.*")) == ([1, None], [None, 3])
    assert (read.column("$payload.b"), read.errors) == ([2, 4], [])


def test_of_two_fields_with_one_name_the_first_counts(tmp_path: Path):
    read = Read(
        tmp_path / "in.json", '{"a":1,"b":{"c":1},"a":2,"b":"x"}\n{"a":3}', Fields((("a",),), whole=True)
    )
    assert read.a == [1, 3]
    assert read.column("$payload") == ['{"a":1,"b":{"c":1}}', '{"a":3}']


def test_fields_that_differ_in_case_are_two_fields(tmp_path: Path):
    read = Read(tmp_path / "in.json", '{"A":1,"a":2}\n{"A":3}', Fields((("a",),), whole=True))
    assert read.a == [2, 3]
    assert read.column("$payload") == ['{"A":1,"a":2}', '{"A":3}']


def test_a_missing_field_is_null(tmp_path: Path):
    assert Read(tmp_path / "in.json", '{"b":1}\n{}\n{"a":1}').a == [None, None, 1]


def test_a_field_may_change_its_type(tmp_path: Path):
    assert Read(tmp_path / "in.json", '{"a":1}\n{"a":"1"}\n{"a":1.0}').a == ["i1", "s1", "f1.0"]


def test_blank_lines_are_no_events(tmp_path: Path):
    read = Read(tmp_path / "in.json", '\n{"a":1}\n\n  \t\r\n{"a":2}\n\n')
    assert (read.a, read.errors) == ([1, 2], [])


def test_a_byte_order_mark_and_crlf_are_fine(tmp_path: Path):
    read = Read(tmp_path / "in.json", '\ufeff{"a":1}\r\n{"a":2}\r\n')
    assert (read.a, read.errors) == ([1, 2], [])


def test_the_last_line_may_lack_its_end_when_the_file_is_finished(tmp_path: Path):
    assert Read(tmp_path / "in.json", '{"a":1}\n{"a":2}').a == [1, 2]
    assert Read(tmp_path / "in.json", '{"a":1}\n{"a":2}', finished=False).a == [1]


def test_a_huge_event_is_read_and_a_larger_one_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 1 << 16)
    huge = '{"a":"' + "x" * 5_000_000 + '"}'
    assert [len(a) for a in Read(tmp_path / "in.json", f'{{"a":"1"}}\n{huge}\n{{"a":"2"}}').a] == [
        1,
        5_000_000,
        1,
    ]
    monkeypatch.setattr(reading, "LONGEST_ROW_BYTES", 1 << 20)
    read = Read(tmp_path / "in.json", f'{{"a":"1"}}\n{huge}\n{{"a":"2"}}\n{huge}')
    assert (read.a, read.errors) == (["1", "2"], [(INVALID_DATA, 2)])


def test_deep_nesting_is_fine(tmp_path: Path):
    deep = "[" * 10_000 + "]" * 10_000
    assert Read(tmp_path / "in.json", '{"a":' + deep + "}").a == [deep]


def test_a_broken_element_of_an_array_is_refused_alone(tmp_path: Path):
    read = Read(tmp_path / "in.json", '[{"a":1}, {"a":x}, {"a":NaN}, 5, {"a":2}]')
    assert read.a == [1, 2]
    assert sum(count for _, count in read.errors) == 3


@pytest.mark.parametrize(
    "text",
    [
        '[{"a":1},{"a":2}]\n[{"a":3}]\n[{"a":4}]\n',
        '[{"a":1}]\n{"a":2}\n[{"a":3}]\n{"a":4}',
        '{"a":1}\n[{"a":2},{"a":3}]\n{"a":4}\n',
        '{"a":1}\n[\n  {"a":2},\n  {"a":3}\n]\n{"a":4},\n',
        '[\n{"a":1}\n]\n{"a":2}{"a":3}\n[{"a":4}]',
        '{\n"a":1\n}\n[{"a":2},\n{"a":3}], {"a":4}',
        '{"a":1},{"a":2}\n[{"a":3}]\n{"a":4}',
    ],
)
def test_arrays_objects_and_lines_may_be_mixed(tmp_path: Path, text: str):
    read = Read(tmp_path / "in.json", text)
    assert (read.a, read.errors) == ([1, 2, 3, 4], [])


def test_an_object_that_is_never_closed_takes_no_other_along(tmp_path: Path):
    for text in ('[{"a":1},\n{"a":\n{"a":2}]\n{"a":3}\n', '{"a":1}\n{"a":\n{"a":2}\n[{"a":3}]\n'):
        read = Read(tmp_path / "in.json", text)
        assert (read.a, read.errors) == ([1, 2, 3], [(INVALID_DATA, 1)])


def test_an_array_without_its_end_is_read(tmp_path: Path):
    assert Read(tmp_path / "in.json", '[{"a":1},\n{"a":2},\n').a == [1, 2]


# ---------------------------------------------------------------- CSV


def test_a_header_with_one_name_twice_refuses_the_file(tmp_path: Path):
    read = Read(tmp_path / "in.csv", "a,b,a\n1,2,3\n4,5,6\n")
    assert (read.a, read.errors) == ([], [(INVALID_HEADER, 2)])
    assert "'a' twice" in read.rejected[0].message


def test_a_file_without_a_header_is_refused(tmp_path: Path):
    assert Read(tmp_path / "in.csv", b"a,\xff\n1,2\n").errors == [(INVALID_HEADER, 1)]
    assert Read(tmp_path / "in.csv", "\n1,2\n").errors == [(INVALID_HEADER, 1)]
    read = Read(tmp_path / "in.csv", "a,b")
    assert (read.a, read.errors) == ([], [])  # a header alone is a file without events


def test_rows_of_another_length_are_refused(tmp_path: Path):
    read = Read(tmp_path / "in.csv", "a,b\n1,2\n3\n4,5,6\n7,8\n")
    assert (read.a, read.errors) == (["1", "7"], [(INVALID_DATA, 2)])
    assert read.rejected[0].examples == ("3", "4,5,6")


def test_a_csv_row_that_is_no_utf8_is_refused(tmp_path: Path):
    read = Read(tmp_path / "in.csv", b"a,b\n1,2\n\xff,3\n4,5\n")
    assert (read.a, read.errors) == (["1", "4"], [(INVALID_DATA, 1)])


def test_a_row_of_another_length_that_is_no_utf8_is_refused_alone(tmp_path: Path):
    long = "x" * 200_000
    read = Read(tmp_path / "in.csv", b'a,b\n1,2\n\xff\n"3\n",4\n5,\xff,6\n%s,7\n' % long.encode())
    assert (read.a, read.errors) == (["1", "3\n", long], [(INVALID_DATA, 2)])


def test_a_line_end_that_is_cut_in_its_middle_is_no_event(tmp_path: Path):
    read = Read(tmp_path / "in.csv", b"a\r\n1\r\n\r\n2\r\n\r")
    assert (read.a, read.errors) == (["1", "2"], [])


def test_a_stray_quote_is_a_character(tmp_path: Path):
    read = Read(tmp_path / "in.csv", 'a,b\n5",2\n6,7\n')
    assert (read.a, read.errors) == (['5"', "6"], [])


def test_an_unclosed_quote_takes_the_rest_of_the_file(tmp_path: Path):
    read = Read(tmp_path / "in.csv", 'a,b\n1,2\n"3,4\n5,6\n')
    assert (read.a, read.errors) == (["1"], [(INVALID_DATA, 1)])


def test_a_lone_carriage_return_is_refused(tmp_path: Path):
    read = Read(tmp_path / "in.csv", "a,b\n1,2\nx\ry,3\n4,5\n")
    assert (read.a, read.errors) == (["1", "4"], [(INVALID_DATA, 1)])


def test_an_empty_field_is_empty_text_or_null(tmp_path: Path):
    assert Read(tmp_path / "in.csv", "a,b\n,1\n").a == [""]
    declared = Fields((("a",),), payload_types=(("a", Type.BIGINT),))
    assert Read(tmp_path / "in.csv", "a,b\n,1\n2,1\n", declared).a == [None, 2]


# ---------------------------------------------------------------- Parquet


def parquet_bytes(table: pa.Table, **how: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **how)
    return sink.getvalue().to_pybytes()


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path):
    for content in (b"no parquet", parquet_bytes(pa.table({"a": [1, 2, 3]}))[:-20]):
        read = Read(tmp_path / "in.parquet", content)
        assert (read.a, read.errors) == ([], [(INVALID_DATA, 1)])


def test_a_broken_row_group_of_parquet_is_refused_alone(tmp_path: Path):
    table = pa.table({"a": list(range(9)), "b": [f"text {n}" for n in range(9)]})
    content = bytearray(parquet_bytes(table, row_group_size=3))
    file = pq.ParquetFile(pa.py_buffer(bytes(content)))
    begin = file.metadata.row_group(1).column(0).data_page_offset
    content[begin : begin + 8] = b"\xff" * 8
    read = Read(tmp_path / "in.parquet", bytes(content))
    assert (read.a, read.errors) == ([0, 1, 2, 6, 7, 8], [(INVALID_DATA, 3)])
    assert "row group 1" in read.rejected[0].message
    assert len(Read(tmp_path / "in.parquet", bytes(content), Fields((("b",),))).column("$payload.b")) == 9


@pytest.mark.parametrize("rows", [-20, -1])
def test_a_row_group_of_parquet_of_less_than_no_rows_is_counted(tmp_path: Path, rows: int):
    content = bytearray(parquet_bytes(pa.table({"a": [1, 2], "b": ["x", "y"]})))
    length = int.from_bytes(content[-8:-4], "little")
    footer = bytes(content[-8 - length : -8])
    said = footer.rindex(bytes([0x16, 4, 0x26]))  # i64 2, the rows of the group; its place follows
    content[-8 - length + said + 1] = -2 * rows - 1  # a varint in zigzag
    assert pq.ParquetFile(pa.py_buffer(bytes(content))).metadata.row_group(0).num_rows == rows
    for fields in (Fields((("a",),)), Fields((("a",),), whole=True), Fields()):
        assert Read(tmp_path / "in.parquet", bytes(content), fields).errors == [(INVALID_DATA, 1)]


def test_an_unsigned_integer_too_large_is_refused(tmp_path: Path):
    read = Read(tmp_path / "in.parquet", parquet_bytes(pa.table({"a": pa.array([1, 2**63, 3], pa.uint64())})))
    assert (read.a, read.errors) == ([1, 3], [(INVALID_DATA, 1)])
    assert read.rejected[0].examples == (str(2**63),)


def test_a_timestamp_outside_the_calendar_is_refused(tmp_path: Path):
    times = pa.array([0, 10**18, -(10**17)], pa.timestamp("us"))
    read = Read(tmp_path / "in.parquet", parquet_bytes(pa.table({"a": times})))
    assert (read.a, read.errors) == ([0], [(INVALID_DATA, 2)])


def test_nan_in_parquet_is_a_float(tmp_path: Path):
    table = pa.table({"a": [float("nan"), 1.5]})
    read = Read(tmp_path / "in.parquet", parquet_bytes(table), Fields((("a",),), whole=True))
    assert str(read.a) == "[nan, 1.5]"
    assert read.column("$payload") == ['{"a":null}', '{"a":1.5}']


# ---------------------------------------------------------------- Avro


def avro_bytes(values: list[Any], kind: Any = "long", **how: Any) -> bytes:
    schema = {"type": "record", "name": "event", "fields": [{"name": "a", "type": kind}]}
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [{"a": value} for value in values], sync_marker=b"0123456789abcdef", **how)
    return sink.getvalue()


def test_a_file_that_is_no_avro_is_refused(tmp_path: Path):
    for content in (b"no avro", avro_bytes([1, 2, 3])[:-20], b"Obj\x01", b"Obj\x01" + b"\xff" * 40):
        read = Read(tmp_path / "in.avro", content)
        assert (read.a, read.errors) == ([], [(INVALID_DATA, 1)])


def test_the_blocks_before_a_break_in_avro_are_read(tmp_path: Path):
    for codec in ("null", "deflate"):
        whole = avro_bytes(list(range(100)), codec=codec, sync_interval=1)
        assert Read(tmp_path / "in.avro", whole).a == list(range(100))
        read = Read(tmp_path / "in.avro", whole[:-1])
        assert (read.a, read.errors) == (list(range(99)), [(INVALID_DATA, 1)])


def test_avro_behind_gzip_that_breaks_off_is_refused_once(tmp_path: Path):
    packed = gzip.compress(avro_bytes(list(range(5000)), sync_interval=1))
    assert Read(tmp_path / "in.avro.gz", packed).a == list(range(5000))
    read = Read(tmp_path / "in.avro.gz", packed[: len(packed) // 2])
    assert read.errors == [(INVALID_COMPRESSION, 1)]
    assert 1000 < len(read.a) < 5000
    assert read.a == list(range(len(read.a)))


def test_events_of_avro_must_be_records(tmp_path: Path):
    sink = io.BytesIO()
    fastavro.writer(sink, "long", [1, 2])
    read = Read(tmp_path / "in.avro", sink.getvalue())
    assert (read.a, read.errors) == ([], [(INVALID_DATA, 1)])
    assert "its events are no Avro records" in read.rejected[0].message


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("name", ["in.json", "in.csv", "in.parquet", "in.avro", "in.json.gz"])
def test_empty_files_hold_no_events(tmp_path: Path, name: str):
    read = Read(tmp_path / name, b"")
    assert (read.a, read.errors) == ([], [])
    if name == "in.json.gz":
        assert Read(tmp_path / name, gzip.compress(b"")).a == []


def test_a_huge_file_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 1 << 16)
    numbers = range(10**6, 10**6 + 100_000)
    read = Read(tmp_path / "in.json", b"".join(b'{"a":%d}\n' % n for n in numbers))
    assert read.a == list(numbers)
    sizes = [chunk.bytes_read for chunk in read.chunks]
    assert len(sizes) == 21  # as many blocks as fit in it about, and no small rest
    assert max(sizes) < 1.1 * reading.BLOCK_BYTES
    assert min(sizes) > 0.5 * reading.BLOCK_BYTES


def test_broken_compression_is_refused(tmp_path: Path):
    read = Read(tmp_path / "in.json.gz", b'{"a":1}\n')
    assert (read.a, read.errors) == ([], [(INVALID_COMPRESSION, 1)])
    lines = [b'{"a":%d}\n' % n for n in range(100_000)]
    good = gzip.compress(b"".join(lines))
    for packed in (good[:-4], good + b"garbage"):
        read = Read(tmp_path / "in.json.gz", packed)
        assert (read.a, read.errors) == (list(range(100_000)), [(INVALID_COMPRESSION, 1)])
    read = Read(tmp_path / "in.json.gz", good[: len(good) // 2])
    before = zlib.decompressobj(31).decompress(good[: len(good) // 2])
    assert before.count(b"\n") > 40_000
    assert (read.a, read.errors) == (list(range(before.count(b"\n"))), [(INVALID_COMPRESSION, 1)])


def test_a_file_that_shrinks_stops_the_job(tmp_path: Path):
    (tmp_path / "in.json").write_text('{"a":1}\n{"a":2}\n')
    source = FileInput(InputSpec(name="in", path=tmp_path))
    end = source.latest({})["0"]
    (tmp_path / "in.json").write_text('{"a":1}\n')
    with pytest.raises(InputError, match=r"in\.json has become shorter"):
        list(source.read("0", [], end, A))


def test_an_event_without_its_arrival_field_is_refused(tmp_path: Path):
    lines = (
        '{"a":1,"at":"2026-01-01T00:00:00Z"}\n{"a":2}\n{"a":3,"at":"noon"}\n{"a":4,"at":null}\n{"a":5,"at":7}'
    )
    read = Read(tmp_path / "in.json", lines, arrival="at")
    assert (read.a, read.errors) == ([1], [(INVALID_DATA, 4)])


# ---------------------------------------------------------------- CREATE TABLE


def declared(type_: Type) -> Fields:
    return Fields((("a",),), payload_types=(("a", type_),))


def test_a_declared_column_that_is_absent_is_refused(tmp_path: Path):
    read = Read(tmp_path / "in.json", '{"a":1}\n{"b":1}\n{"A":3}', declared(Type.BIGINT))
    assert (read.a, read.errors) == ([1, 3], [(MISSING_COLUMNS, 1)])
    assert Read(tmp_path / "in.csv", "b\n1\n2\n", declared(Type.BIGINT)).errors == [(MISSING_COLUMNS, 2)]


@pytest.mark.parametrize(
    ("type_", "good", "values", "bad"),
    [
        (Type.BIGINT, ["7", "7.0", '"7"', "true"], [7, 7, 7, 1], ["7.5", '"x"', "1e30", "{}", '"7.0x"']),
        (Type.FLOAT, ["7", "7.5", '"1e3"', "true"], [7.0, 7.5, 1000.0, 1.0], ['"x"', '"NaN"', '""', "[]"]),
        (Type.NVARCHAR, ['"x"', "7", "7.5", "true"], ["x", "7", "7.5", "1"], ["{}", "[1]"]),
        (Type.DATETIME, ['"1970-01-01"', '"1970-01-01T00:00:01Z"'], [0, 10_000_000], ['"noon"', "7", "true"]),
        (Type.BIT, ["true", "0", "1", '"false"'], [True, False, True, False], ["2", '"x"', "0.5", "[]"]),
        (Type.RECORD, ['{"x":1}'], ['{"x":1}'], ['"{}"', "[]", "1"]),
        (Type.ARRAY, ["[1]"], ["[1]"], ['"[]"', "{}", "1"]),
    ],
)  # fmt: skip
def test_a_value_that_does_not_convert_without_loss_is_refused(
    tmp_path: Path, type_: Type, good: list[str], values: list[Any], bad: list[str]
):
    lines = "\n".join(
        f'{{"a":{value}}}' for pair in zip(good + bad, good + bad, strict=True) for value in pair
    )
    read = Read(tmp_path / "in.json", lines, declared(type_))
    assert read.a == [value for value in values for _ in "12"]
    assert read.errors == [(TYPE_CONVERSION, 2 * len(bad))]
    for value in bad:  # alone, so that the column has one type
        assert Read(tmp_path / "in.json", f'{{"a":{value}}}', declared(type_)).errors == [
            (TYPE_CONVERSION, 1)
        ]


def test_a_declared_float_takes_no_nan(tmp_path: Path):
    text = "a\nNaN\nInfinity\n1.5\n"
    read = Read(tmp_path / "in.csv", text, declared(Type.FLOAT))
    assert (read.a, read.errors) == ([1.5], [(TYPE_CONVERSION, 2)])
    assert str(Read(tmp_path / "in.csv", text, declared(Type.FLOAT), level="1.0").a) == "[nan, inf, 1.5]"
    nan = parquet_bytes(pa.table({"a": [float("nan"), 1.5]}))
    assert Read(tmp_path / "in.parquet", nan, declared(Type.FLOAT)).errors == [(TYPE_CONVERSION, 1)]


def test_a_converted_value_is_converted_in_the_whole_event_too(tmp_path: Path):
    fields = Fields((), True, (("a", Type.BIGINT), ("t", Type.DATETIME)))
    read = Read(tmp_path / "in.json", '{"a":"7","b":1,"t":"1970-01-01"}\n{"b":2,"a":null,"t":null}', fields)
    assert [json.loads(text) for text in read.column("$payload")] == [
        {"a": 7, "b": 1, "t": "1970-01-01T00:00:00.0000000Z"},
        {"a": None, "b": 2, "t": None},
    ]


@pytest.mark.parametrize("type_", [t for t in Type if t not in (Type.NULL, Type.VARIANT)])
def test_null_fits_every_declared_type(tmp_path: Path, type_: Type):
    read = Read(tmp_path / "in.json", '{"a":null}', declared(type_))
    assert (read.a, read.errors) == ([None], [])
