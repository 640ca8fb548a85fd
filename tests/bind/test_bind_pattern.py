"""What is wrong with a MATCH_RECOGNIZE is said at its place (`asa.md` 2.14)."""

from __future__ import annotations

import pytest
from bind_support import found


def match(
    measures: str = "Last(A.x) AS x",
    pattern: str = "A+ B",
    define: str = "A AS A.x > 1, B AS B.x < A.x",
    items: str = "*",
    limit: str = "minute, 1",
) -> str:
    return (
        f"SELECT {items} FROM s MATCH_RECOGNIZE (LIMIT DURATION({limit}) PARTITION BY k MEASURES {measures} "
        f"AFTER MATCH SKIP TO NEXT ROW PATTERN ({pattern}) DEFINE {define}) AS m"
    )


@pytest.mark.parametrize(
    "text",
    [
        match(),
        match(measures="First(a.x) AS f, Min(A.x) AS lo, MAX(B.r.x) AS hi, Classifier() AS c, B.x AS x"),
        match(define="A AS A.x > 1, B AS B.x < Last(A.x) AND B.x > Min(B.x)"),
        match(pattern="(A | B)* . C{2,}", define="A AS A.x > ABS(A.y), B AS A.x = B.x, C AS Last(B.x) = C.x"),
    ],
)
def test_a_pattern_that_keeps_the_rules_is_understood_and_not_yet_supported(text: str):
    ((code, _),) = found(text)
    assert code == "NOT_YET_SUPPORTED"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (match(items="x"), "MATCH_NEEDS_STAR", "x"),
        (match(items="s.*"), "MATCH_NEEDS_STAR", "s.*"),
        (match(measures="Last(A.x)"), "MEASURE_WITHOUT_NAME", "Last(A.x)"),
        (match(measures="Sum(A.x) AS s"), "FUNCTION_IN_MATCH", "Sum(A.x)"),
        (match(define="A AS LAG(A.x) > 1, B AS B.x = 1"), "FUNCTION_IN_MATCH", "LAG(A.x)"),
        (match(define="A AS Classifier() = 'A', B AS B.x = 1"), "FUNCTION_IN_MATCH", "Classifier()"),
        (match(measures="Max(A.x + 1) AS m"), "NOT_A_FIELD_OF_A_VARIABLE", "Max(A.x + 1)"),
        (match(measures="Max(ABS(A.x)) AS m"), "NOT_A_FIELD_OF_A_VARIABLE", "Max(ABS(A.x))"),
        (match(measures="First(x) AS m"), "NOT_A_FIELD_OF_A_VARIABLE", "First(x)"),
        (match(measures="First(Z.x) AS m"), "NOT_A_FIELD_OF_A_VARIABLE", "First(Z.x)"),
        (match(measures="First(A.x, 2) AS m"), "NOT_A_FIELD_OF_A_VARIABLE", "First(A.x, 2)"),
        (match(define="A AS A.x > b.x, B AS B.x < 1"), "VARIABLE_DEFINED_LATER", "b.x"),
        (match(define="A AS A.x > Last(B.x), B AS B.x < 1"), "VARIABLE_DEFINED_LATER", "B.x"),
        (match(define="A AS A.x > 1, a AS A.x < 1"), "DUPLICATE_VARIABLE", "a"),
        (match(limit="minute, 0"), "WINDOW_SIZE", "0"),
    ],
)
def test_what_breaks_a_rule_of_a_pattern_is_reported_alone_at_its_place(text: str, code: str, words: str):
    assert found(text) == [(code, words)]
