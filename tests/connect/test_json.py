"""JSON events: types per value, strictness, documents; and the decoder against a plain one."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from tideglass.connect.formats.decoded import LINE, Refusals, column_name, merge_rejected
from tideglass.connect.formats.json.decode import decode_json, json_path
from tideglass.connect.formats.json.document import parts_of
from tideglass.connect.formats.json.framing import is_document, newlines, texts_between
from tideglass.connect.formats.json.mixed import explode_payloads
from tideglass.core.events import Fields
from tideglass.core.types import Type, types_of


def decode(lines: list[bytes | str], *paths: str, whole: bool = False, level: str = "1.2"):
    texts = pa.array([line.encode() if isinstance(line, str) else line for line in lines], pa.binary())
    return decode_json(texts, Fields(tuple(tuple(p.split(".")) for p in paths), whole), level)


def column(decoded: Any, path: str) -> list[Any]:
    return decoded.table[column_name(path.split("."))].to_pylist()


def kind(decoded: Any, path: str) -> Type:
    return types_of(decoded.table)[column_name(path.split("."))]


def test_a_column_whose_values_agree_has_their_type():
    decoded = decode(
        ['{"i": 1, "f": 1.0, "s": "x", "b": true, "r": {"a": 1}, "l": [1, 2], "n": null}'] * 2, *"ifsbrln"
    )
    types = {name: kind(decoded, name) for name in "ifsbrln"}
    assert types == {
        "i": Type.BIGINT,
        "f": Type.FLOAT,
        "s": Type.NVARCHAR,
        "b": Type.BIT,
        "r": Type.RECORD,
        "l": Type.ARRAY,
        "n": Type.NULL,
    }
    assert column(decoded, "r") == ['{"a":1}', '{"a":1}']


def test_a_column_whose_values_differ_keeps_the_type_of_each():
    decoded = decode(['{"a": 7}', '{"a": "7"}', '{"a": 7.5}', '{"a": false}', '{"a": null}', "{}"], "a")
    assert kind(decoded, "a") is Type.VARIANT
    assert column(decoded, "a") == ["i7", "s7", "f7.5", "b0", None, None]


def test_booleans_are_bigint_below_level_1_2():
    decoded = decode(['{"a": true}'], "a", level="1.1")
    assert (kind(decoded, "a"), column(decoded, "a")) == (Type.BIGINT, [1])


def test_nested_fields_and_names_with_any_character_are_found():
    event = json.dumps(
        {"a": {"b.c": {"": 1}}, 'q"x': 2, "it's": 3, "back\\slash": 4, "0": 5, "ü": 6, "a*": 7}
    )
    paths = (("a", "b.c", ""), ('q"x',), ("it's",), ("back\\slash",), ("0",), ("ü",), ("a*",))
    table = decode_json(pa.array([event]), Fields(paths)).table
    assert [table.column(place)[0].as_py() for place in range(7)] == [1, 2, 3, 4, 5, 6, 7]


def test_a_path_through_something_that_is_no_record_is_null():
    assert column(decode(['{"a": 1}', '{"a": [1]}', '{"a": null}'], "a.b"), "a.b") == [None] * 3


def test_a_name_in_other_case_is_found_if_it_is_the_only_one():
    lines = [
        '{"TollId": 1}',
        '{"tollid": 2, "TOLLID": 3}',
        '{"TollID": 4, "tollid": 5}',
        '{"X": {"TOLLid": 6}}',
    ]
    decoded = decode(lines, "TollID", "x.tollid")
    assert column(decoded, "TollID") == [1, None, 4, None]
    assert column(decoded, "x.tollid") == [None, None, None, 6]


def test_escapes_are_undone_and_any_unicode_is_kept():
    decoded = decode([r'{"a": "\u00e9\n\"\\ \ud83d\ude00 \u0000"}', '{"a": "é😀"}'], "a")
    assert column(decoded, "a") == ['é\n"\\ 😀 \x00', "é😀"]


def test_the_whole_event_is_compact_text():
    assert decode(['{ "a" : [1, 2.50] , "b": "x  y" }'], whole=True).table["$payload"].to_pylist() == [
        '{"a":[1,2.5],"b":"x  y"}'
    ]


def test_nothing_asked_for_still_counts_the_events():
    decoded = decode(['{"a": 1}', "{", '{"a": 2}'])
    assert decoded.table[LINE].to_pylist() == [0, 2]
    assert [r.count for r in decoded.rejected] == [1]


def test_no_events_give_an_empty_table_with_all_columns():
    table = decode([], "a", whole=True).table
    assert (table.num_rows, set(table.column_names)) == (0, {"$payload.a", "$payload", LINE})


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "infinity", "nan", "-inf", "INF"])
@pytest.mark.parametrize(
    "around", ['{"a": %s}', '{"x":[1,%s],"a":1}', '{"a":1,"x":{"y":\t%s }}', '{"x":%s,"a":1}']
)
def test_numbers_json_has_no_word_for_are_refused_wherever_they_are(number: str, around: str):
    decoded = decode(['{"a": 5}', around % number, '{"a": 6}'], "a")
    assert column(decoded, "a") == [5, 6]
    assert sum(r.count for r in decoded.rejected) == 1


@pytest.mark.parametrize(
    "event",
    [
        '{"a":1,}',
        '{"a":[1,]}',
        '{"a":1 , }',
        '{"a":[1,\t]}',
        '{"b":{"c":2,},"a":1}',
        '{"a":1,\n}',
        '{"a":[1,\r\n]}',
    ],
)
def test_trailing_commas_are_refused(event: str):
    decoded = decode(['{"a": 5}', event], "a")
    assert (column(decoded, "a"), sum(r.count for r in decoded.rejected)) == ([5], 1)


@pytest.mark.parametrize(
    "text",
    ["NaN", ": NaN,", ",]", ", }", "[-inf]", ": 99999999999999999999,", 'a \\" : nan, \\"', "banana, inn"],
)
def test_what_looks_forbidden_inside_a_text_is_fine(text: str):
    decoded = decode(['{"a": "' + text + '"}'], "a")
    assert column(decoded, "a") == [json.loads(f'"{text}"')]
    assert decoded.rejected == ()


@pytest.mark.parametrize(
    ("number", "accepted"),
    [
        ("9223372036854775807", True),
        ("9223372036854775808", False),
        ("-9223372036854775808", True),
        ("-9223372036854775809", False),
        ("18446744073709551616", False),
        ("9999999999999999999", False),
        ("1000000000000000000", True),
        ("12345678901234567890.5", True),
        ("12345678901234567890e2", True),
        ("0.12345678901234567890123", True),
        ("1e400", True),  # not asked for: only a field that is read must fit a float
    ],
)
def test_integers_outside_int64_refuse_the_event_even_in_fields_not_asked_for(number: str, accepted: bool):
    decoded = decode(['{"a": 1, "other": ' + number + "}"], "a")
    assert decoded.table.num_rows == accepted


def test_a_float_out_of_range_refuses_the_event_if_it_is_asked_for():
    decoded = decode(['{"a": 1e400}', '{"a": 1.5}'], "a")
    assert (column(decoded, "a"), decoded.rejected[0].message) == (
        [1.5],
        "the field a holds a number outside the range of float",
    )


# ---------------------------------------------------------------- against a plain decoder

_NAMES = st.sampled_from(["a", "b", "A", "nan", "in", 'q"', "é"])
_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**65), 2**65),
        st.floats(allow_nan=True, allow_infinity=True),
        st.text(st.sampled_from(list('ab"\\,]}{[:nNaAiIfF1 \t\né😀')), max_size=8),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)
_EVENTS = st.dictionaries(_NAMES, _VALUES, max_size=4)


def _forbidden(_: str) -> Any:
    raise ValueError("no JSON")


def _int64(text: str) -> int:
    if not -(2**63) <= int(text) < 2**63:
        raise ValueError("outside int64")
    return int(text)


def _plainly(line: str) -> Any:
    """The event as strict JSON with int64 integers, None if it is none."""
    try:
        event = json.loads(line, parse_constant=_forbidden, parse_int=_int64)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


@settings(max_examples=depth(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            _EVENTS,
            st.sampled_from([(",", ":"), (", ", ": "), (" , ", " :\t")]),
            st.integers(-30, 60),
            st.sampled_from(list(',]}{["nN1\\ ')),
        ),
        max_size=12,
    )
)
def test_any_events_are_accepted_exactly_if_they_are_strict_json(drawn: list[Any]):
    lines: list[str] = []
    for event, separators, cut, put in drawn:
        line = json.dumps(event, separators=separators, ensure_ascii=False)
        lines.append(line[:cut] + put + line[cut:] if 0 < cut < len(line) else line)
    lines = [line for line in lines if line.strip() and "\\ud" not in line]
    expected = [_plainly(line) for line in lines]
    decoded = decode(list(lines), whole=True)
    assert decoded.table[LINE].to_pylist() == [n for n, event in enumerate(expected) if event is not None]
    got = [json.loads(text) for text in decoded.table["$payload"].to_pylist()]
    for one, other in zip(got, [event for event in expected if event is not None], strict=True):
        assert _same(one, {name: other[name] for name in other})
    assert sum(r.count for r in decoded.rejected) == expected.count(None)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or math.isclose(one, other, rel_tol=1e-15)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other


# ---------------------------------------------------------------- where events are


def events_of(document: bytes) -> pa.Array:
    """The texts of the events of a document, as they are."""
    data = np.frombuffer(document, np.uint8)
    return parts_of(data).texts(data)[0]


def _document(text: str) -> list[str]:
    return events_of(text.encode()).to_pylist()


@pytest.mark.parametrize(
    "text",
    [
        '[{"a":1},{"a":[2,{"b":"],}{"}]},\n {"a":"\\\\\\""}]',
        '{"a":1},\n{"a":[2,{"b":"],}{"}]},{"a":"\\\\\\""}',
        '{"a":1}\n,{"a":[2,{"b":"],}{"}]} {"a":"\\\\\\""},',
        '{\n "a":1\n}\n{"a":[2,{"b":"],}{"}]}\n{"a":"\\\\\\""}\n',
        '\ufeff [ {"a":1}, {"a":[2,{"b":"],}{"}]}, {"a":"\\\\\\""}\n ] \n',
        '[{"a":1},{"a":[2,{"b":"],}{"}]},{"a":"\\\\\\""},\n',
    ],
)
def test_documents_of_every_form_hold_the_same_events(text: str):
    assert is_document(text.encode())
    events = [json.loads(event) for event in _document(text)]
    assert events == [{"a": 1}, {"a": [2, {"b": "],}{"}]}, {"a": '\\"'}]


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1}\n{"a":2}\n',
        '{"a":1}',
        '{"a": \n{"a":2}\n',
        "\n\n{}\n",
        "nonsense\n[1]",
        "",
        '{"a":"}\n{"b":1}\n',
        '[{"a":1},{"a":2}]\n[{"a":3}]\n',
    ],
)
def test_lines_are_no_document(text: str):
    assert not is_document(text.encode())


def test_a_broken_element_of_an_array_does_not_take_others_along():
    decoded = decode_json(events_of(b'[{"a":1},{"a":01},7,{"a":2}]'), Fields((("a",),)))
    assert column(decoded, "a") == [1, 2]
    assert sum(r.count for r in decoded.rejected) == 2


def test_a_message_that_holds_an_array_is_several_events():
    payloads = pa.array([b'{"a":1}', b' [{"a":2},{"a":3}]', b'{"a":4}', None, b"[]"])
    events, sources = explode_payloads(payloads)
    decoded = decode_json(events, Fields((("a",),)), lines=sources)
    assert column(decoded, "a") == [1, 2, 3, 4]
    assert decoded.table[LINE].to_pylist() == [0, 1, 1, 2]


def test_lines_are_found_across_blocks():
    text = b"".join(b"x" * (n % 7) + b"\n" for n in range(100_000))
    data = np.frombuffer(text, np.uint8)
    bounds = np.concatenate(([0], newlines(data) + 1))
    assert texts_between(data, bounds).to_pylist() == [
        line.decode() + "\n" for line in text.split(b"\n")[:-1]
    ]


def test_refusals_of_several_chunks_add_up():
    first, second = Refusals(), Refusals()
    first.add("E", "m", [5, 7], ["x" * 500])
    second.add("E", "m", [2], [b"\xff"])
    merged = merge_rejected([*first.all(), *second.all()])
    assert [(r.count, r.first_line, len(r.examples[0]), r.examples[1]) for r in merged] == [(3, 2, 200, "�")]


def test_the_path_of_a_field_takes_names_literally():
    assert json_path(('a"b', "c.d")) == '$."a\\"b"."c.d"'
