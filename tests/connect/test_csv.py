"""CSV events: rows, quotes, headers, and fields as CREATE TABLE types them."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from tideglass.connect.formats.csv import decode_csv, read_header, row_bounds
from tideglass.connect.formats.decoded import LINE, Decoded
from tideglass.core.events import Fields
from tideglass.core.types import Type, types_of


def decode(text: bytes | str, fields: Fields, delimiter: str = ",", level: str = "1.2") -> Decoded:
    data = np.frombuffer(text.encode() if isinstance(text, str) else text, np.uint8)
    header = read_header(data, delimiter)
    assert header is not None
    bounds = row_bounds(data[header[1] :], delimiter) + header[1]
    return decode_csv(data, bounds, header[0], delimiter, fields, level)


A_AND_B = Fields((("a",), ("b",)))


def rows(decoded: Decoded) -> list[tuple[object, ...]]:
    table = decoded.table.drop_columns([LINE])
    return list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


@pytest.mark.parametrize("delimiter", [",", ";", " ", "\t", "|"])
def test_every_delimiter_of_the_service_separates_fields(delimiter: str):
    text = "a,b\n1,x\n2,y\n".replace(",", delimiter)
    assert rows(decode(text, A_AND_B, delimiter)) == [("1", "x"), ("2", "y")]


def test_fields_are_text_and_the_event_is_a_record_of_texts():
    decoded = decode("a,b\n1,\n", Fields((("a",), ("c",)), whole=True))
    assert types_of(decoded.table)["$payload.a"] is Type.NVARCHAR
    assert rows(decoded) == [("1", None, '{"a":"1","b":""}')]


def test_quotes_hold_delimiters_line_ends_and_quotes():
    assert rows(decode('a,b\r\n"1,2","x\n""y"""\r\n3,4\r\n', A_AND_B)) == [("1,2", 'x\n"y"'), ("3", "4")]


def test_a_quote_inside_a_field_is_an_ordinary_character():
    assert rows(decode('a,b\n5" pipe,x\n7,6"\n"8",9\n', A_AND_B)) == [
        ('5" pipe', "x"),
        ("7", '6"'),
        ("8", "9"),
    ]


def test_an_open_quote_leaves_the_row_incomplete():
    data = np.frombuffer(b'1,2\n3,"x\n4,5\n', np.uint8)
    assert row_bounds(data, ",").tolist() == [0, 4]


def test_a_doubled_quote_is_one_character_wherever_a_block_ends():
    whole = b'x,"{""b&s\r\ny,"{""b&s\r\nz,"{""'
    for end in range(len(whole)):
        found = row_bounds(np.frombuffer(whole[:end], np.uint8), ",").tolist()
        assert found == ([0, 22] if end >= 22 else [0]), end


def test_a_byte_order_mark_is_no_part_of_the_first_name():
    assert rows(decode("\ufeffa,b\n1,2\n", A_AND_B)) == [("1", "2")]


def test_blank_lines_are_no_events():
    assert rows(decode("a,b\n\n1,2\r\n\r\n", A_AND_B)) == [("1", "2")]
    assert rows(decode("a\n\n1\n", Fields((("a",),)))) == [("1",)]


def test_an_incomplete_header_is_waited_for():
    assert read_header(np.frombuffer(b"a,b", np.uint8), ",") is None


def test_declared_columns_have_their_types():
    types = (
        ("i", Type.BIGINT),
        ("f", Type.FLOAT),
        ("t", Type.DATETIME),
        ("b", Type.BIT),
        ("s", Type.NVARCHAR),
    )
    fields = Fields(tuple((name,) for name, _ in types), True, types)
    decoded = decode("i,f,t,b,s\n7, 1.5e3,1970-01-01T00:00:01Z,true,x\n,,,,\n", fields)
    assert rows(decoded)[0] == (
        7,
        1500.0,
        10_000_000,
        True,
        "x",
        '{"i":7,"f":1500.0,"t":"1970-01-01T00:00:01.0000000Z","b":true,"s":"x"}',
    )
    assert rows(decoded)[1][:5] == (None, None, None, None, "")


_TEXTS = st.text(st.sampled_from(list('ab",\n\r;é ')), max_size=6)


@settings(max_examples=depth(60), deadline=None)
@given(st.lists(st.tuples(_TEXTS, _TEXTS, _TEXTS), max_size=8))
def test_what_a_csv_writer_writes_is_read_back(drawn: list[tuple[str, str, str]]):
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow("abc")
    writer.writerows(drawn)
    assert rows(decode(out.getvalue(), Fields((("a",), ("b",), ("c",))))) == drawn
