"""Record, array, JSON and type functions (asa.md 4.4), the engine's record functions, and UDFs (4.11)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from support.evaluating import by_column, call, column, value, values
from tideglass.core.errors import EvaluationError
from tideglass.core.types import Type
from tideglass.functions import javascript
from tideglass.plan.expressions import Call, Path, Ref

ARRAY = [1, "two", 3.5, None, {"a": 1}, [2], True]


@pytest.mark.parametrize(("place", "expected"), [*enumerate(ARRAY), (7, None), (-1, None), (2**40, None)])
def test_getarrayelement(place: int, expected: Any) -> None:
    assert by_column("getarrayelement", ARRAY, place) == expected
    assert value(call("getarrayelement", Ref("a"), place), a=ARRAY) == expected


def test_getarraylength() -> None:
    assert by_column("getarraylength", ARRAY) == 7
    assert by_column("getarraylength", []) == 0
    assert by_column("getarraylength", None) is None


@pytest.mark.parametrize("name", ["a", 'q"uote', "back\\slash", "dot.ted", "*", "0", "", "é", "a'b"])
def test_getrecordpropertyvalue_finds_any_name(name: str) -> None:
    record = {name: 5, "other": 6}
    assert by_column("getrecordpropertyvalue", record, name) == 5
    assert value(call("getrecordpropertyvalue", Ref("r"), name), r=record) == 5
    assert by_column("getrecordpropertyvalue", {"other": 6}, name) is None
    assert value(Path(Ref("r"), (name,)), r=record) == 5
    assert value(Path(Ref("r"), ("in", name)), r={"in": record}) == 5
    assert value(Path(Ref("r"), (name,)), r={"other": 6}) is None


def test_a_wrong_container_stops_the_job() -> None:
    with pytest.raises(EvaluationError, match="getarrayelement has invalid type 'record'"):
        by_column("getarrayelement", {"a": 1}, 0)
    with pytest.raises(EvaluationError, match="getarraylength has invalid type 'nvarchar"):
        by_column("getarraylength", "x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{ "a": [1, 2.50], "b": "x, }" }', {"a": [1, 2.5], "b": "x, }"}),
        ("{}", {}),
        ("[1]", None),
        ("5", None),
        ("", None),
        ("{", None),
        ('{"a":1} x', None),
        ('{"a":1,}', None),
        ('{"a":NaN}', None),
        ('{"a":Infinity}', None),
        ('{"a":"NaN // \\" /*"}', {"a": 'NaN // " /*'}),
        ('{"a":1 /* no */}', None),
        (None, None),
    ],
)
def test_json_parse_never_fails(text: str | None, expected: Any) -> None:
    assert by_column("json_parse", text) == expected


def test_gettype_names_the_type_of_each_value() -> None:
    table = column([1, 1.5, "x", True, {"a": 1}, [1], None])
    expected = ["bigint", "float", "nvarchar(max)", "bit", "record", "array", None]
    assert values(call("gettype", Ref("x")), table) == expected
    assert values(call("gettype", Ref("x")), column(["2020-01-01"], Type.DATETIME)) == ["datetime"]


def test_record_of_holds_values_of_any_type() -> None:
    table = column([1, 1.5, 'q"\n', True, {"a": 1}, [1], None])
    expected = [{"v": v, "n": 7, "d": None} for v in (1, 1.5, 'q"\n', True, {"a": 1}, [1], None)]
    assert values(call("record.of", "v", Ref("x"), "n", 7, "d", None), table) == expected
    day = column(["2020-01-01"], Type.DATETIME)
    assert values(call("record.of", "d", Ref("x")), day) == [{"d": "2020-01-01T00:00:00.0000000Z"}]
    assert value(call("record.of")) == {}


field_values = st.one_of(st.none(), st.integers(0, 5), st.text('x"\\', max_size=3), st.just({"n": [1]}))
fields = st.dictionaries(
    st.sampled_from(["a", "b", 'c"', "d\\", "é"]),
    field_values,
    max_size=4,
)


@given(fields, fields, fields)
@settings(max_examples=depth(60), deadline=None)
def test_record_merge_keeps_the_first_of_equal_names(
    a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]
) -> None:
    assert by_column("record.merge", a, b, c) == {**c, **b, **a}


def test_record_merge_passes_over_null() -> None:
    assert by_column("record.merge", None, {"a": 1}, None) == {"a": 1}
    assert by_column("record.merge", None) == {}


def test_record_has_tells_null_from_absent() -> None:
    assert by_column("record.has", {"a": None}, "a") is True
    assert by_column("record.has", {"b": 1}, "a") is False
    assert by_column("record.has", None, "a") is False


# ---------------------------------------------------------------- UDFs


@pytest.fixture(autouse=True)
def scripts() -> None:
    javascript.define(
        {
            "same": "function main(x) { return x; }",
            "sum": "function add(a, b) { return a + b; }",
            "ms": "function f(d) { return d.getTime(); }",
            "isdate": "function f(d) { return d instanceof Date; }",
            "length": "function f(s) { return s.length; }",
            "boom": "function f() { throw new Error('no'); }",
            "odd": "function f(k) { return k === 'nan' ? NaN : k === 'undefined' ? undefined : () => 1; }",
            "when": "function f(t) { return new Date(t); }",
            "third": "function f(x) { return x / 3; }",
        }
    )


@pytest.mark.parametrize("x", [1, -(2**53), 1.5, 1e300, 'é"', True, {"a": [1, {"b": None}]}, [1, "x"], None])
def test_a_value_passes_through_javascript_unchanged(x: Any) -> None:
    found = by_column("udf.same", x)
    assert (type(found), found) == (type(x), x)


def test_integral_results_are_bigint_and_others_float() -> None:
    assert [type(v) for v in values(Call("udf.third", (Ref("x"),)), column([3, 4]))] == [int, float]
    assert by_column("udf.sum", 1.5, 1.5) == 3


def test_datetimes_are_dates() -> None:
    day = column(["2020-01-01T00:00:00.1234567Z"], Type.DATETIME)
    assert values(Call("udf.ms", (Ref("x"),)), day) == [1577836800123]
    assert values(Call("udf.isdate", (Ref("x"),)), day) == [True]
    assert values(Call("udf.same", (Ref("x"),)), day) == ["2020-01-01T00:00:00.1230000Z"]


def test_a_date_is_a_datetime() -> None:
    assert value(call("gettype", call("udf.when", -1))) == "datetime"
    assert value(call("udf.when", -1)) == "1969-12-31T23:59:59.9990000Z"


def test_results_are_used_like_any_value() -> None:
    assert value(call("+", Call("udf.sum", (Ref("a"), Ref("b"))), 1), a=1, b=2) == 4


def test_a_failing_script_stops_the_job() -> None:
    with pytest.raises(EvaluationError, match=r"UDF\.boom failed: Error: no"):
        value(call("udf.boom"))
    with pytest.raises(EvaluationError, match=r"UDF\.length failed: TypeError"):
        by_column("udf.length", None)
    with pytest.raises(EvaluationError, match="no finite number"):
        value(call("udf.odd", "nan"))
    with pytest.raises(EvaluationError, match="a function is no value"):
        value(call("udf.odd", "function"))
    assert value(call("udf.odd", "undefined")) is None
    with pytest.raises(EvaluationError, match="no valid date"):
        value(call("udf.when", "noon"))


def test_a_script_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(EvaluationError, match="has no function"):
        javascript.define({"none": "var x = 1;"})
    with pytest.raises(EvaluationError, match="cannot be used"):
        javascript.define({"bad": "function f( {"})
    with pytest.raises(EvaluationError, match="has no script"):
        value(call("udf.unknown", 1))


def test_a_udf_sees_rows_of_every_type() -> None:
    mixed = [1, "a", None, 2.5, {"k": 1}]
    assert values(Call("udf.same", (Ref("x"),)), column(mixed)) == mixed
    assert json.dumps(values(Call("udf.same", (Ref("x"),)), column([]))) == "[]"
