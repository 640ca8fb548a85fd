"""The oracle matches patterns as `asa.md` 2.14 tells; expected rows are worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from oracle import run


def matched(
    values: str,
    pattern: str,
    define: str,
    measures: str = "Classifier() AS c",
    seconds: int = 60,
    by: str = "",
) -> list[dict[str, Any]]:
    """The matches among events with a letter each, one a second; their key is whether it is a capital."""
    events = [
        {"t": f"2024-01-01T00:00:{second:02}Z", "v": value, "n": second, "k": value.isupper()}
        for second, value in enumerate(values)
    ]
    query = (
        f"SELECT * FROM i TIMESTAMP BY t MATCH_RECOGNIZE (LIMIT DURATION(second, {seconds}) {by} "
        f"MEASURES {measures} AFTER MATCH SKIP TO NEXT ROW PATTERN ({pattern}) DEFINE {define}) AS m"
    )
    return run(query, {"i": events})["output"]


AB = "A AS A.v = 'a', B AS B.v = 'b'"


@pytest.mark.parametrize(
    ("values", "pattern", "expected"),
    [
        ("aab", "A B", ["AB"]),
        ("aab", "A+ B", ["AAB", "AB"]),
        ("aab", "A* B", ["AAB", "AB", "B"]),
        ("aaa", "A{2}", ["AA", "AA"]),
        ("aaa", "A{2,}", ["AAA", "AA"]),
        ("aaaa", "A{1,2}", ["AA", "AA", "AA", "A"]),
        ("abab", "(A B)+", ["ABAB", "AB"]),
        ("ab", "A | A B", ["A"]),
        ("ab", "A B | A", ["AB"]),
        ("ab", "A B?", ["AB"]),
        ("axb", "A . B", ["AB"]),
        ("axb", "A B", []),
        ("aab", "A+ A B", ["AAB"]),
        ("x", "A*", []),
        ("ab", "(A* | B)+", ["AB", "B"]),
    ],
)
def test_the_preferred_match_from_each_event_on(values: str, pattern: str, expected: list[str]) -> None:
    found = sorted("".join(row["c"]) for row in matched(values, pattern, AB))
    assert found == sorted(expected)


def test_a_variable_sees_itself_and_those_before_it():
    rising = "A AS A.v = 'a', B AS B.n > Last(A.n) + 1 OR B.n = First(A.n) + 1"
    assert matched("aabb", "A+ B", rising, "First(A.n) AS f, Last(B.n) AS l") == [
        {"f": 0, "l": 1},
        {"f": 1, "l": 2},
    ]


def test_measures_look_at_the_events_of_one_variable():
    measures = "First(A.n) AS f, Last(A.n) AS l, Min(A.n) AS lo, Max(A.n) AS hi, B.n AS n, Last(C.n) AS none"
    assert matched("aab", "A+ B C?", AB + ", C AS C.v = 'c'", measures) == [
        {"f": 0, "l": 1, "lo": 0, "hi": 1, "n": 2, "none": None},
        {"f": 1, "l": 1, "lo": 1, "hi": 1, "n": 2, "none": None},
    ]


def test_first_and_last_event_lie_within_the_limit():
    assert matched("axxb", "A .* B", AB, seconds=3) == [{"c": ["A", "B"]}]
    assert matched("axxb", "A .* B", AB, seconds=2) == []


def test_events_of_another_key_do_not_come_between():
    assert matched("aXb", "A B", AB) == []
    assert matched("aXb", "A B", AB, by="PARTITION BY k") == [{"c": ["A", "B"]}]


def test_a_row_with_null_does_not_match():
    assert matched("ab", "A", "A AS A.missing <> 'a'") == []
