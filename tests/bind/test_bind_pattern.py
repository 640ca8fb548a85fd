"""What is wrong with a MATCH_RECOGNIZE is said at its place (`asa.md` 2.14)."""

from __future__ import annotations

import pytest

from support.binding import found, project
from tideglass.plan.expressions import Ref
from tideglass.plan.nodes import Match


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
def test_a_pattern_that_keeps_the_rules_is_bound(text: str):
    assert isinstance(project(text).child, Match)


def test_a_measure_and_a_definition_share_what_they_look_at():
    node = project(
        match(measures="A.x AS x, Last(A.x) AS y, First(a.X) AS z", define="A AS A.x > 1, B AS B.x < A.x")
    )
    assert isinstance(node.child, Match)
    assert [value.name for value in node.child.values] == ["A.x", "First(A.X)", "B.x"]
    assert node.child.measured == ("A.x", "First(A.X)")
    assert [item.expr for item in node.items] == [Ref("A.x"), Ref("A.x"), Ref("First(A.X)")]


def moves(pattern: str) -> list[tuple[tuple[tuple[int, int], ...], bool]]:
    node = project(match(pattern=pattern)).child
    assert isinstance(node, Match)
    return [(state.moves, state.accepts) for state in node.states]


@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        ("A", [(((0, 1),), False), ((), True)]),
        ("A* B", [(((0, 1), (1, 2)), False), (((0, 1), (1, 2)), False), ((), True)]),
        ("A | A B", [(((0, 1), (0, 2)), False), ((), True), (((1, 1),), False)]),
        ("A{2}", [(((0, 1),), False), (((0, 2),), False), ((), True)]),
        ("(A?)*", [(((0, 1),), False), (((0, 1),), True)]),
        (".", [(((-1, 1),), False), ((), True)]),
        ("A{0}", [((), False)]),
    ],
)
def test_the_states_of_a_pattern(pattern: str, states: list[tuple[tuple[tuple[int, int], ...], bool]]):
    assert moves(pattern) == states


def test_a_long_pattern_is_refused():
    assert [code for code, _ in found(match(pattern="(A{100} B){100}"))] == ["PATTERN_TOO_LONG"]


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
        (match(define="A AS A.x > 1, a AS A.x < 1, B AS B.x = 1"), "DUPLICATE_VARIABLE", "a"),
        (match(pattern="A C"), "UNDEFINED_VARIABLE", "C"),
        (match(define="A AS A.x > 1, B AS x > 1"), "NOT_OF_A_VARIABLE", "x"),
        (match(define="A AS A.x > 1, B AS B > 1"), "NOT_OF_A_VARIABLE", "B"),
        (match(measures="s.x AS x"), "NOT_OF_A_VARIABLE", "s.x"),
        (match(measures="A.x AS x, B.x AS x"), "DUPLICATE_COLUMN", "x"),
        (match(measures="Classifier(A) AS c"), "ARGUMENT_COUNT", "Classifier(A)"),
        (match() + " WHERE x > 1", "CLAUSE_WITH_MATCH", "x > 1"),
        (match(limit="minute, 0"), "WINDOW_SIZE", "0"),
    ],
)
def test_what_breaks_a_rule_of_a_pattern_is_reported_alone_at_its_place(text: str, code: str, words: str):
    assert found(text) == [(code, words)]


def test_a_pattern_stays_within_a_substream():
    text = match().replace("FROM s", "FROM s TIMESTAMP BY t OVER j")
    assert [code for code, _ in found(text)] == ["SUBSTREAM_KEY_NOT_PARTITIONED"]
