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
        ({"f": 7}, "The function 'f' is of type int; it must be a function of Python"),
        ({"f": None}, "is of type NoneType"),
        ({"f": b"function main() {}"}, "is of type bytes"),
        ({"f": Path("f.js")}, "is of type PosixPath"),
        ({"f": (len, "number")}, "returns 'number', which is no type; it is bigint, float"),
        ({"f": (len, 7)}, "is of type tuple"),
        ({1: "function main() {}"}, "The name of a function is a text: 1 is"),
        (["function f() {}"], "Pass functions as a dict"),
        (len, "Pass functions as a dict"),
    ],
)
def test_what_is_no_function_is_refused_in_one_sentence(functions: Any, told: str):
    with pytest.raises(TideglassError, match=told) as caught:
        run("SELECT UDF.f(a) AS x INTO o FROM i", {"i": [{"a": 1}]}, functions=functions)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rows", [FRAME, pa.table({"a": [1]}), {"a": 1}, 7])
def test_rows_of_a_test_that_are_no_list_say_how_they_become_one(rows: Any):
    with pytest.raises(InputError, match="must be a list of dicts"):
        run("SELECT a INTO o FROM i", {"i": rows})
