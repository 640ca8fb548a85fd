"""Functions of Python called from a query: their values, their types, and how they fail."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tideglass.compile import compile_query, user_functions
from tideglass.core.errors import EvaluationError, QueryError, Source, TideglassError
from tideglass.core.types import Type
from tideglass.plan.types import output_types
from tideglass.project.settings import JobSettings
from tideglass.testing import run

ROW = {
    "n": 7,
    "x": 0.1,
    "s": 'ä "q"',
    "b": True,
    "r": {"k": [1, None]},
    "a": [1, "z"],
    "t": "2026-01-01T00:00:01Z",
}


def of_row(call: Callable[..., Any] | tuple[Callable[..., Any], str], arguments: str = "n") -> Any:
    """What a call of the function gives on the row."""
    (row,) = run(
        f"SELECT UDF.f({arguments}) AS y INTO o FROM i TIMESTAMP BY t", {"i": [ROW]}, functions={"f": call}
    )["o"]
    return row["y"]


@pytest.mark.parametrize("column", ["n", "x", "s", "b", "r", "a"])
def test_a_value_is_the_same_in_python_and_comes_back_as_it_was(column: str):
    seen: list[object] = []

    def keep(value: object):
        seen.append(value)
        return value

    assert of_row(keep, column) == ROW[column]
    assert seen[0] == ROW[column]
    assert type(seen[0]) is type(ROW[column])


def test_a_datetime_has_a_time_zone_and_microseconds_and_null_is_none():
    def later(time: datetime, missing: object) -> datetime:
        assert missing is None
        assert time == datetime(2026, 1, 1, 0, 0, 1, 123456, tzinfo=UTC)
        return time.replace(tzinfo=None) + timedelta(seconds=1)

    arguments = "CAST('2026-01-01T00:00:01.1234567Z' AS datetime), NULL"
    assert of_row(later, arguments) == "2026-01-01T00:00:02.1234560Z"


def types_of(functions: Mapping[str, Any], select: str, level: str = "1.2") -> dict[str, Type]:
    settings = JobSettings(compatibility_level=level)  # pyright: ignore[reportArgumentType]
    source = Source(f"SELECT {select} INTO o FROM i")
    compiled = compile_query(source, settings, key_groups=1, functions=functions)
    return output_types(compiled.plan, {})["o"]


def test_the_type_of_the_result_is_annotated_or_declared_and_known_beforehand():
    def whole(x: int) -> int | None: ...
    def number(x: int) -> float: ...
    def text(x: int) -> str: ...
    def yes(x: int) -> bool: ...
    def moment(x: int) -> datetime: ...
    def record(x: int) -> dict[str, int]: ...
    def anything(x: int): ...

    functions = {f.__name__: f for f in (whole, number, text, yes, moment, record, anything)}
    functions["declared"] = (anything, "FLOAT")
    select = ", ".join(f"UDF.{name}(n) AS {name}" for name in functions)
    assert types_of(functions, select) == {
        "whole": Type.BIGINT,
        "number": Type.FLOAT,
        "text": Type.NVARCHAR,
        "yes": Type.BIT,
        "moment": Type.DATETIME,
        "record": Type.VARIANT,
        "anything": Type.VARIANT,
        "declared": Type.FLOAT,
    }
    assert types_of(functions, "UDF.yes(n) AS y", "1.1") == {"y": Type.BIGINT}


def test_an_int_is_a_float_where_that_is_declared_and_anything_else_is_refused():
    assert of_row((lambda n: n, "float")) == 7.0
    with pytest.raises(
        EvaluationError, match=r"returned a value of type nvarchar.+ declared to return bigint"
    ):
        of_row((str, "bigint"))


def test_a_row_on_which_it_fails_is_named_in_one_sentence_with_its_place():
    def inverse(n: int) -> float:
        return 1 / (n - 7)

    with pytest.raises(EvaluationError) as caught:
        of_row(inverse)
    lines = str(caught.value).split("\n")
    assert lines[0] == (
        "query:1:8: [FUNCTION_FAILED] The function UDF.f failed: ZeroDivisionError: division by zero."
    )
    assert '  the row has {"n":7}' in lines


@pytest.mark.parametrize(
    ("result", "reported"),
    [
        (2**63, "an integer outside the range of bigint"),
        (b"x", "returned a bytes, which is no value of a query"),
        ({"a": {1}}, "what JSON cannot hold"),
        ([float("nan")], "what JSON cannot hold"),
    ],
)
def test_a_result_that_is_no_value_is_refused(result: object, reported: str):
    with pytest.raises(EvaluationError, match=reported):
        of_row(lambda _: result)


def test_its_arguments_are_counted_before_anything_runs():
    def two(a: int, b: int = 0) -> int:
        return a + b

    assert of_row(two, "n") == 7
    assert of_row(two, "n, 1") == 8
    assert of_row(functools.partial(two, 1), "n") == 8
    assert of_row(lambda *rest: len(rest), "n, n, n") == 3
    with pytest.raises(QueryError, match="f takes 1 to 2 arguments, not 3"):
        of_row(two, "n, n, n")
    with pytest.raises(QueryError, match="did you mean 'f'"):
        run("SELECT UDF.ff(n) AS y INTO o FROM i", {"i": [ROW]}, functions={"f": two})


def test_a_whole_event_is_a_dict_and_functions_of_both_languages_go_together():
    functions = {
        "keys": sorted,
        "words": (str, "nvarchar(max)"),
        "twice": "function main(x) { return 2 * x; }",
    }
    rows = run(
        "SELECT UDF.keys(i) AS k, UDF.twice(n) AS w INTO o FROM i TIMESTAMP BY t WHERE LEN(UDF.words(n)) > 0",
        {"i": [ROW]},
        functions=functions,
    )["o"]
    assert rows == [{"k": sorted(ROW), "w": 14}]


def test_a_changed_function_is_another_query_and_an_annotation_that_is_no_type_is_refused():
    def same(x: object) -> object:
        return x

    def other(x: object) -> object:
        return [x]

    assert user_functions({"f": same}) == user_functions({"f": same})
    assert user_functions({"f": same}) != user_functions({"f": other})

    def bad(x: int) -> complex: ...

    with pytest.raises(TideglassError, match="which is no type of a query"):
        user_functions({"f": bad})
