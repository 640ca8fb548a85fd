"""What a program gives that is of the wrong kind is refused in one sentence, with the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pandas as pd
import pyarrow as pa
import pytest

from tideglass import query
from tideglass.core.errors import InputError, TideglassError
from tideglass.testing import run

FRAME = pd.DataFrame({"a": [1]})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            [{"a": 1}],
            "a list; it must be a DataFrame of Spark, of pandas or of Arrow, or the name of a table",
        ),
        (([{"a": 1}], {"arrival": "a"}), "hint: spark.createDataFrame(rows)"),
        (FRAME.a, "a Series of pandas;"),
        (Path("a.json"), "hint: spark.read.json(path)"),
        ("a.json", "a str; it must be a DataFrame of Spark, of pandas or of Arrow"),
        ("data/a", "hint: spark.read.json(path)"),
        (None, "a NoneType;"),
    ],
)
def test_an_input_that_is_no_frame_of_spark_says_how_it_becomes_one(given: Any, told: str):
    with pytest.raises(InputError) as caught:
        query(cast("Any", None), "SELECT a FROM i", {"i": given})
    assert f"the input 'i' is {told}" in str(caught.value) or told in str(caught.value)


def test_inputs_without_names_are_refused():
    with pytest.raises(InputError, match="they must be DataFrames by name"):
        query(cast("Any", None), "SELECT a FROM i", cast("Any", FRAME.a))


@pytest.mark.parametrize(
    ("functions", "told"),
    [
        ({"f": lambda x: x}, "Write the function 'f' in JavaScript .* it is a function of Python"),
        ({"f": len}, "it is a function of Python"),
        ({"f": 7}, "it is of type int"),
        ({"f": None}, "it is of type NoneType"),
        ({"f": b"function main() {}"}, "it is of type bytes"),
        ({"f": Path("f.js")}, "it is of type PosixPath"),
        ({1: "function main() {}"}, "Write the function 1 in"),
        (["function f() {}"], "Give functions as a dict"),
        (lambda x: x, "Give functions as a dict"),
    ],
)
def test_a_function_that_is_no_javascript_is_refused_in_one_sentence(functions: Any, told: str):
    with pytest.raises(TideglassError, match=told) as caught:
        run("SELECT UDF.f(a) AS x INTO o FROM i", {"i": [{"a": 1}]}, functions=functions)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rows", [FRAME, pa.table({"a": [1]}), {"a": 1}, 7])
def test_rows_of_a_test_that_are_no_list_say_how_they_become_one(rows: Any):
    with pytest.raises(InputError, match="must be a list of dicts"):
        run("SELECT a INTO o FROM i", {"i": rows})
