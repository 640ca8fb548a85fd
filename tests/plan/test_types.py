"""The types of a query's columns as they are known before any row, and that the rows then have them."""

from __future__ import annotations

import pytest

from tideglass.bind.catalog import InputInfo
from tideglass.compile import compile_query
from tideglass.core.errors import Source
from tideglass.core.types import Type
from tideglass.plan.types import output_types
from tideglass.project.settings import JobSettings

KNOWN = {
    ("t",): Type.DATETIME,
    ("v",): Type.BIGINT,
    ("f",): Type.FLOAT,
    ("d",): Type.NVARCHAR,
    ("b",): Type.BIT,
    ("a",): Type.ARRAY,
    ("s",): Type.RECORD,
    ("s", "x"): Type.BIGINT,
}

REFERENCE = {
    ("d",): Type.NVARCHAR,
    ("price",): Type.FLOAT,
    ("more",): Type.RECORD,
    ("more", "since"): Type.BIGINT,
}


def types_of(query: str) -> dict[str, Type]:
    compiled = compile_query(
        Source(query),
        JobSettings(),
        key_groups=1,
        inputs={
            "i": InputInfo("i", columns=tuple(path[0] for path in KNOWN if len(path) == 1)),
            "messages": InputInfo("messages"),
            "r": InputInfo("r", "reference", ("d", "price", "more")),
            "open": InputInfo("open", "reference"),
        },
        functions={"f": "function f(x) { return x }"},
    )
    return output_types(compiled.plan, {"i": KNOWN, "r": REFERENCE, "messages": {("k",): Type.NVARCHAR}})["o"]


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("v + 1", Type.BIGINT),
        ("v / f", Type.FLOAT),
        ("s.x * 2", Type.BIGINT),
        ("s.y", Type.VARIANT),
        ("s.y + 1", Type.VARIANT),
        ("CAST(s.y AS float)", Type.FLOAT),
        ("UPPER(s.y)", Type.NVARCHAR),
        ("udf.f(v)", Type.VARIANT),
        ("CAST(udf.f(v) AS bigint)", Type.BIGINT),
        ("CASE WHEN v > 1 THEN 'a' ELSE d END", Type.NVARCHAR),
        ("CASE WHEN s.y > 3 THEN 1 ELSE 0 END", Type.BIGINT),
        ("DATEADD(second, v, t)", Type.DATETIME),
        ("System.Timestamp()", Type.DATETIME),
        ("PartitionId", Type.BIGINT),
        ("GetArrayElement(a, 0)", Type.VARIANT),
        ("COALESCE(s.y, s.z)", Type.VARIANT),
        ("b", Type.BIT),
        ("NULL", Type.NULL),
    ],
)
def test_an_expression_has_the_type_its_columns_give_it(expression: str, type_: Type) -> None:
    assert types_of(f"SELECT {expression} AS x INTO o FROM i") == {"x": type_}


def test_a_star_lists_the_columns_of_the_input() -> None:
    assert types_of("SELECT * INTO o FROM i TIMESTAMP BY T") == {
        path[0]: type_ for path, type_ in KNOWN.items() if len(path) == 1
    }


def test_aggregates_have_the_types_of_their_results() -> None:
    assert types_of(
        "SELECT d, COUNT(*) AS n, SUM(v) AS whole, SUM(f) AS sum, AVG(v) AS mean, STDEV(v) AS s, "
        "MIN(t) AS first, MAX(s.x) AS most, COLLECT() AS every, "
        "TopOne() OVER (ORDER BY v) AS top, System.Window().Id AS w "
        "INTO o FROM i TIMESTAMP BY t GROUP BY d, TumblingWindow(second, 10)"
    ) == {
        "d": Type.NVARCHAR,
        "n": Type.BIGINT,
        "whole": Type.BIGINT,
        "sum": Type.FLOAT,
        "mean": Type.FLOAT,
        "s": Type.FLOAT,
        "first": Type.DATETIME,
        "most": Type.BIGINT,
        "every": Type.ARRAY,
        "top": Type.RECORD,
        "w": Type.NULL,
    }


def test_types_go_through_steps_and_meet_in_unions() -> None:
    steps = "WITH w AS (SELECT v AS same, v AS other, s FROM i UNION SELECT v AS same, f AS other, s FROM i) "
    found = types_of(steps + "SELECT same + 1 AS same, other, s INTO o FROM w")
    assert found == {"same": Type.BIGINT, "other": Type.VARIANT, "s": Type.RECORD}
    nested = types_of("WITH w AS (SELECT s AS r FROM i) SELECT r.x, r.y INTO o FROM w")
    assert nested == {"x": Type.BIGINT, "y": Type.VARIANT}


def test_types_go_through_joins_with_streams_and_with_reference_data() -> None:
    streams = (
        "SELECT a.v, b.f, b.s.x, a.v + b.f AS sum, System.Timestamp() AS at INTO o FROM i a TIMESTAMP BY t "
    )
    streams += "JOIN i b TIMESTAMP BY t ON a.d = b.d AND DATEDIFF(second, a, b) BETWEEN 0 AND 5"
    assert types_of(streams) == {
        "v": Type.BIGINT,
        "f": Type.FLOAT,
        "x": Type.BIGINT,
        "sum": Type.FLOAT,
        "at": Type.DATETIME,
    }
    looked_up = "SELECT i.v, r.price, r.more.since, i.v * r.price AS p INTO o FROM i TIMESTAMP BY t "
    assert types_of(looked_up + "LEFT JOIN r ON i.d = r.d") == {
        "v": Type.BIGINT,
        "price": Type.FLOAT,
        "since": Type.BIGINT,
        "p": Type.FLOAT,
    }
    assert types_of(
        "SELECT m.k, m.other, x.price, CAST(x.price AS bigint) AS p INTO o "
        "FROM messages m JOIN open x ON m.k = x.k"
    ) == {"k": Type.NVARCHAR, "other": Type.VARIANT, "price": Type.VARIANT, "p": Type.BIGINT}


def test_measures_of_a_pattern_have_the_types_of_what_they_look_at() -> None:
    assert types_of(
        "SELECT * INTO o FROM i TIMESTAMP BY t MATCH_RECOGNIZE (LIMIT DURATION(minute, 1) MEASURES "
        "First(A.v) AS first, A.s.x + 1 AS more, Max(A.d) AS most, Min(A.t) AS since, Classifier() AS c, "
        "System.Timestamp() AS at AFTER MATCH SKIP TO NEXT ROW PATTERN (A+) DEFINE A AS A.v > 1)"
    ) == {
        "first": Type.BIGINT,
        "more": Type.BIGINT,
        "most": Type.FLOAT,
        "since": Type.DATETIME,
        "c": Type.ARRAY,
        "at": Type.DATETIME,
    }
