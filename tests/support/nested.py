"""Queries of every shape in which parts can be nested, as deep as one likes."""

from __future__ import annotations

from collections.abc import Callable

ROWS = [{"v": 1, "s": "1", "f": 1.5}, {"v": 2, "s": "2", "f": 0.5}]
FUNCTIONS = {"f": "function main(x) { return x; }"}


def _around(before: str, after: str, depth: int, innermost: str = "v") -> str:
    return before * depth + innermost + after * depth


def _case(depth: int) -> str:
    whole = "v"
    for number in range(depth):
        whole = f"CASE WHEN v > {number} THEN {whole} ELSE {number} END"
    return whole


def _value(expression: Callable[[int], str]) -> Callable[[int], str]:
    return lambda depth: f"SELECT {expression(depth)} AS x FROM i"


def _condition(expression: Callable[[int], str]) -> Callable[[int], str]:
    return lambda depth: f"SELECT v FROM i WHERE {expression(depth)}"


#: Shapes whose number of levels is held down. Beside the depth: levels of the query around the expression.
LIMITED: dict[str, tuple[Callable[[int], str], int]] = {
    "case": (_value(_case), 2),
    "case_of_a_value": (_value(lambda n: _around("CASE ", " WHEN 1 THEN 1 ELSE 2 END", n // 2)), 1),
    "parentheses": (_value(lambda n: _around("(", "+1)", n)), 1),
    "calls": (_value(lambda n: _around("ABS(", ")", n)), 1),
    "concat": (_value(lambda n: _around("CONCAT(s, ", ")", n, "'v'")), 1),
    "coalesce": (_value(lambda n: _around("COALESCE(v, ", ")", n)), 1),
    "udf": (_value(lambda n: _around("UDF.f(", ")", n)), 1),
    "casts": (_value(lambda n: _around("CAST(", " AS float)", n)), 1),
    "sum": (_value(lambda n: "+".join(["v"] * (n + 1))), 1),
    "text": (_value(lambda n: "+".join(["s"] * (n + 1))), 1),
    "floats": (_value(lambda n: "f" + "/2" * n), 1),
    "numbers_in_text": (_value(lambda n: "s" + "*2" * n), 1),
    "rounded": (_value(lambda n: _around("ROUND(", ", 2)", n)), 1),
    "replaced": (_value(lambda n: _around("REPLACE(", ", 'a', 'b')", n, "s")), 1),
    "signs": (_value(lambda n: "- " * n + "v"), 1),
    "not": (_condition(lambda n: "NOT " * n + "v = 1"), 2),
    "not_in": (
        _condition(lambda n: _around("CASE WHEN ", " NOT IN (5) THEN 1 ELSE 2 END", n // 2) + " = 1"),
        2,
    ),
    "between": (_condition(lambda n: "v BETWEEN 0 AND " + _around("ABS(", ")", n, "1")), 2),
    "derived": (lambda n: "SELECT v FROM " + _around("(SELECT v FROM ", ")", n, "i"), 1),
    "unions": (lambda n: _around("(", " UNION SELECT v FROM i)", n, "SELECT v FROM i"), 1),
    "apply": (
        lambda n: "SELECT v FROM i" + "".join(f" OUTER APPLY GetArrayElements(a) AS e{k}" for k in range(n)),
        1,
    ),
    "aggregates": (
        lambda n: (
            "SELECT "
            + "+".join(f"SUM(v+{k})" for k in range(n - 1))
            + " AS x FROM i GROUP BY TumblingWindow(second, 1)"
        ),
        1,
    ),
}


def _steps(first: str, next_one: str) -> Callable[[int], str]:
    def query(count: int) -> str:
        steps = [f"s0 AS ({first})", *(f"s{k} AS ({next_one} s{k - 1})" for k in range(1, count))]
        return f"WITH {', '.join(steps)} SELECT v FROM s{count - 1}"

    return query


#: Shapes that may be as long as one likes.
UNLIMITED: dict[str, Callable[[int], str]] = {
    "bare_parentheses": _value(lambda n: _around("(", ")", n)),
    "and": _condition(lambda n: " AND ".join(f"v <> {k + 10}" for k in range(n))),
    "or": _condition(lambda n: " OR ".join(f"v = {k}" for k in range(n))),
    "in": _condition(lambda n: f"v IN ({', '.join(str(k) for k in range(n))})"),
    "branches": _value(
        lambda n: "CASE " + " ".join(f"WHEN v={k} THEN {k}" for k in range(n)) + " ELSE 0 END"
    ),
    "union": lambda n: " UNION ".join(["SELECT v FROM i"] * n),
    "steps": _steps("SELECT v FROM i", "SELECT v FROM"),
    "steps_that_add": _steps("SELECT v FROM i", "SELECT v+1 AS v FROM"),
    "steps_that_double": _steps("SELECT v - v AS v FROM i", "SELECT v+v AS v FROM"),
    "steps_that_filter": lambda n: (
        "WITH s0 AS (SELECT v FROM i)"
        + "".join(f", s{k} AS (SELECT v FROM s{k - 1} WHERE v > -{k})" for k in range(1, n))
        + f" SELECT v FROM s{n - 1}"
    ),
}
