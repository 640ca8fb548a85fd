"""The reader of plain events gives what the general decoder gives, or leaves the events to it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from tideglass.connect.formats.decoded import LINE, column_name
from tideglass.connect.formats.json import decode as general
from tideglass.connect.formats.json import fast_pass
from tideglass.connect.formats.json.decode import decode_json
from tideglass.connect.formats.json.fast import FEWEST_EVENTS, plain_columns
from tideglass.core.events import Fields
from tideglass.core.types import Type, types_of


def read(lines: list[str], *names: str) -> list[tuple[Type, list[Any]]] | None:
    found = plain_columns(pa.array(lines, pa.string()), names)
    return None if found is None else [(type_, column.to_pylist()) for column, type_ in found]


def generally(lines: list[str], *names: str) -> list[tuple[Type, list[Any]]]:
    """The same by the decoder for all events, which must refuse none."""
    assert len(lines) < FEWEST_EVENTS
    decoded = decode_json(pa.array(lines, pa.string()), Fields(tuple((name,) for name in names)))
    assert decoded.rejected == ()
    assert decoded.table[LINE].to_pylist() == list(range(len(lines)))
    types = types_of(decoded.table)
    columns = [column_name((name,)) for name in names]
    return [(types[column], decoded.table[column].to_pylist()) for column in columns]


def exact(columns: list[tuple[Type, list[Any]]] | None) -> Any:
    """With the bits of every float, of which some are equal and not the same."""
    return columns and [
        (type_, [value.hex() if isinstance(value, float) else value for value in values])
        for type_, values in columns
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ['{"a":1,"b":"x"}', '{"a":-20,"b":""}'],
        ['{"a":1.5,"b":true}', '{"a":-0.25,"b":false}'],
        [' { "a" : 123456789012345678 ,\t"b" : "x y" } \r\n', '{"b":"é😀","a":0}'],
        ['{"z":{"q":[1,{"r":[]},"}"],"s":{}},"a":1,"b":"x"}', '{"a":2,"z":[[[null]],-1.5e-7],"b":"y"}'],
        ['{"a":1,"b":"x"}', '{"a":null,"b":null}', '{"b":"y"}', '{"a":3,"other":null}'],
        ['{"a":1,"a":"second","b":"x","b":2}', '{"a":2,"b":"y"}'],
        ['{"a":1,"A":2,"b":"x"}', '{"A":1,"a":2,"b":"y"}'],
        ['{"a":17.96,"b":"x"}', '{"a":3.0,"b":"y"}', '{"a":-0.0,"b":"z"}', '{"a":1e3,"b":""}'],
        ['{"a":0.1234567890123456789,"b":"x"}', '{"a":123456789.123456789,"b":"y"}', '{"a":2.5e-320,"b":""}'],
    ],
)
def test_plain_events_are_read_as_by_the_general_decoder(lines: list[str]) -> None:
    found = read(lines, "a", "b")
    assert found is not None
    assert exact(found) == exact(generally(lines, "a", "b"))


@pytest.mark.parametrize(
    "event",
    [
        "",
        "[1]",
        '{"a":1',
        '{"a":1}}',
        '{"a":1} x',
        '{"a":1,}',
        '{"a" 1}',
        "{a:1}",
        '{"a":1 "b":2}',
        '{"a":01}',
        '{"a":1.}',
        '{"a":.5}',
        '{"a":+1}',
        '{"a":-}',
        '{"a":1e}',
        '{"a":NaN}',
        '{"a":tru}',
        '{"a":"x\ty"}',
        '{"a":1,"z":[1,]}',
        '{"a":1,"z":{"b":1,}}',
        '{"a":1,"z":[1}}',
        '{"a":1,"z":{"b"}}',
        '{"a":1,"z":9223372036854775808}',
        '{"a":1e999}',
        "{",
        '{"a":"',
    ],
)
def test_what_is_no_event_is_left_to_the_general_decoder(event: str) -> None:
    assert read([event], "a") is None
    assert read(['{"a":1}'] * 3 + [event], "a") is None
    assert decode_json(pa.array([event]), Fields((("a",),))).rejected or not event


@pytest.mark.parametrize(
    "lines",
    [
        [r'{"a":"x\n"}'],
        [r'{"a":1,"\u0061":2}'],
        ['{"a":{"b":1}}'],
        ['{"a":[1]}'],
        ['{"a":1}', '{"a":1.5}'],
        ['{"a":1}', '{"a":"1"}'],
        ['{"a":1}', '{"A":2}'],
        ['{"a":1}', '{"é":2}'],
        ['{"a":null}'],
        ['{"b":1}'],
        ['{"a":1234567890123456789}'],
        ['{"a":-0}'],
        ['{"z":' + "[" * 70 + "]" * 70 + ',"a":1}'],
    ],
)
def test_events_that_are_not_plain_are_left_to_the_general_decoder(lines: list[str]) -> None:
    assert read(lines, "a") is None
    generally(lines, "a")


def test_bytes_that_are_no_utf8_are_left_to_the_general_decoder() -> None:
    raw = pa.array([b'{"a":"\xff"}'], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 1, raw.buffers())
    assert plain_columns(texts, ["a"]) is None


def test_nothing_may_be_asked_for() -> None:
    assert read(['{"a":1}', "{}"]) == []
    assert read(['{"a":1}', "{"]) is None


def test_a_slice_of_texts_is_read_by_itself() -> None:
    texts = pa.array(['{"a":"x"', '{"a":1}', '{"a":2}', '{"a":'])
    found = plain_columns(texts.slice(1, 2), ["a"])
    assert found is not None
    assert found[0][0].to_pylist() == [1, 2]


_NUMBERS = st.one_of(
    st.integers(-(10**19), 10**19).map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
_FRACTIONS = st.one_of(
    st.floats(-1e15, 1e15).map(lambda number: f"{number:.3f}"),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
_TEXTS = st.text(st.sampled_from("ab ,:}{[]é😀0"), max_size=20)
_KINDS = (
    st.integers(-(10**18), 10**18).map(str),
    _FRACTIONS,
    _TEXTS.map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(["true", "false"]),
    _NUMBERS,
    st.sampled_from(["true", "null", '""', "{}", "[]", "[1, 2]", '{"a":[{"b":1}, 2.5]}']),
)


@st.composite
def _events(draw: st.DrawFn) -> list[str]:
    """Events with the field `a` and others, mostly of one kind each; some are not there, or null."""
    names = ["a", *draw(st.lists(st.sampled_from(["b", "A", "a", "nine-char", "é"]), max_size=3))]
    kinds = [_KINDS[draw(st.integers(0, 4 if name == "a" else 5))] for name in names]
    separator = draw(st.sampled_from([",", ", ", " ,\t"]))
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 5))):
        values = [draw(kind) for kind in kinds]
        there = [draw(st.integers(0, 15)) for _ in names]
        fields = [
            f'"{name}":{value if there[place] > 1 else "null"}'
            for place, (name, value) in enumerate(zip(names, values, strict=True))
            if there[place]
        ]
        lines.append("{" + separator.join(fields) + "}")
    return lines


@settings(max_examples=depth(400), deadline=None)
@given(_events())
def test_any_events_are_read_as_by_the_general_decoder_or_left_to_it(lines: list[str]) -> None:
    found = read(lines, "a")
    if found is not None:
        assert exact(found) == exact(generally(lines, "a"))


@settings(max_examples=depth(400), deadline=None)
@given(
    _events(),
    st.integers(0, 40),
    st.sampled_from(['"', ",", "}", "{", "]", "[", "\\", "0", "-", ".", " ", "\n", "e"]),
)
def test_events_with_a_fault_are_read_only_if_the_general_decoder_takes_them(
    lines: list[str], place: int, put: str
) -> None:
    lines = [*lines[:-1], lines[-1][:place] + put + lines[-1][place + len(put) // 2 :]]
    found = read(lines, "a")
    if found is not None:
        assert exact(found) == exact(generally(lines, "a"))


@settings(max_examples=depth(200), deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_floats_are_the_nearest_to_their_text(numbers: list[float]) -> None:
    lines = [f'{{"a":{number!r}}}' for number in numbers]
    found = read(lines, "a")
    assert exact(found) == exact([(Type.FLOAT, [float(repr(number)) for number in numbers])])


def test_a_large_chunk_of_plain_events_is_read_in_one_pass_and_another_by_the_general_decoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes: list[bool] = []

    def noted(texts: pa.Array, names: list[str]) -> Any:
        found = plain_columns(texts, names)
        passes.append(found is not None)
        return found

    monkeypatch.setattr(general, "plain_columns", noted)
    lines = [f'{{"n":{n},"device":"d{n % 7}","v":{n / 4}}}' for n in range(FEWEST_EVENTS)]
    fields = Fields((("n",), ("device",), ("v",)))
    plain = decode_json(pa.array(lines), fields, lines=np.arange(FEWEST_EVENTS) * 3)
    other = decode_json(pa.array([*lines[:-1], lines[-1].replace("d", r"\u0064")]), fields)
    assert passes == [True, False]
    assert plain.table.drop_columns([LINE]) == other.table.drop_columns([LINE])
    assert plain.table.schema == other.table.schema
    assert plain.table[LINE].to_pylist() == list(range(0, 3 * FEWEST_EVENTS, 3))
    assert decode_json(pa.array(lines), fields, "1.1").table.num_rows == FEWEST_EVENTS
    assert decode_json(pa.array(lines), Fields((("n",),), whole=True)).table.num_rows == FEWEST_EVENTS
    assert passes == [True, False]


def test_where_compiled_code_cannot_be_kept_it_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: Any, **__: Any) -> Any:
        raise RuntimeError("cannot cache function: no locator available for file")

    def next_of(number: int) -> int:
        return number + 1

    monkeypatch.setattr("numba.core.caching.CacheImpl.__init__", nowhere)
    made: Any = fast_pass.compiled(next_of)
    assert made(1) == 2
    assert made.signatures
