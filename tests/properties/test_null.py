"""The table of `docs/null.md` holds wherever a condition may stand, for the oracle and the engine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from oracle import run as oracle_run
from support.depth import some
from support.harness import play

PAGE = Path(__file__).parents[2] / "docs" / "null.md"
Event = dict[str, str | None]


def table() -> tuple[list[Event], dict[str, list[bool]]]:
    """The events of the page's columns, and what each condition is for them."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    events = [
        {
            name: None if value == "NULL" else value.strip("'")
            for name, value in map(str.split, cell.split(","))
        }
        for cell in head[1:]
    ]
    outcomes = {row[0].strip("`"): [{"true": True, "false": False}[cell] for cell in row[1:]] for row in rows}
    return events, outcomes


EVENTS, OUTCOMES = table()
CONDITIONS = list(OUTCOMES)
#: Each gives 1 for the events of which the condition holds; {c} is the condition, {n} its number.
PLACES = {
    "WHERE": "SELECT id, 1 AS hit INTO o{n} FROM events WHERE {c}",
    "WHERE of a step": "SELECT id, 1 AS hit INTO o{n} FROM held WHERE {c}",
    "CASE": "SELECT id, CASE WHEN {c} THEN 1 ELSE 0 END AS hit INTO o{n} FROM events",
    "HAVING": "SELECT id, 1 AS hit INTO o{n} FROM events GROUP BY id, x, y, z, TumblingWindow(second, 1) "
    "HAVING {c}",
    "HAVING of aggregates": "SELECT id, 1 AS hit INTO o{n} FROM events "
    "GROUP BY id, TumblingWindow(second, 1) HAVING {maxima}",
    "ON of streams": "SELECT l.id, 1 AS hit INTO o{n} FROM events l JOIN events r "
    "ON DATEDIFF(second, l, r) BETWEEN 0 AND 0 AND l.id = r.id AND ({sides})",
    "ON of reference data": "SELECT l.id, 1 AS hit INTO o{n} FROM events l JOIN ref r "
    "ON l.id = r.id AND ({sides})",
    "OVER WHEN": "SELECT id, LAST(1) OVER (PARTITION BY id LIMIT DURATION(second, 5) WHEN {c}) AS hit "
    "INTO o{n} FROM events",
    "DEFINE": "SELECT * INTO o{n} FROM events MATCH_RECOGNIZE (LIMIT DURATION(minute, 1) PARTITION BY id "
    "MEASURES Last(A.id) AS id, 1 AS hit AFTER MATCH SKIP TO NEXT ROW PATTERN (A) DEFINE A AS {variables})",
}


def qualified(condition: str, sources: dict[str, str]) -> str:
    """The condition with what stands for each of x, y and z put in its place."""
    return re.sub(r"\b[xyz]\b", lambda found: sources[found[0]], condition)


def script(place: str) -> str:
    """All conditions in one place, an output each."""
    queries = [
        PLACES[place].format(
            c=condition,
            n=n,
            sides=qualified(condition, {"x": "l.x", "y": "r.y", "z": "r.z"}),
            maxima=qualified(condition, {name: f"MAX(CAST({name} AS nvarchar(max)))" for name in "xyz"}),
            variables=qualified(condition, {name: f"A.{name}" for name in "xyz"}),
        )
        for n, condition in enumerate(CONDITIONS)
    ]
    return "WITH held AS (SELECT id, x, y, z FROM events) " * ("held" in PLACES[place]) + " ".join(queries)


def rows(events: list[Event], missing: bool, first: int = 1) -> list[dict[str, Any]]:
    """The events, a second apart; what is NULL is `null` or missing."""
    return [
        {"_arrival": f"2026-01-01T00:00:{n:02d}Z", "id": n}
        | {name: value for name, value in event.items() if value is not None or not missing}
        for n, event in enumerate(events, first)
    ]


def hits(outputs: dict[str, list[dict[str, Any]]], count: int) -> dict[str, list[bool]]:
    """Of each condition, for which of the events it held."""
    return {
        condition: [
            any(row["id"] == n and row["hit"] == 1 for row in outputs.get(f"o{number}", []))
            for n in range(1, count + 1)
        ]
        for number, condition in enumerate(CONDITIONS)
    }


@pytest.mark.parametrize("place", PLACES)
def test_every_condition_is_what_the_page_says_in_every_place(place: str) -> None:
    """Of the events in which NULL is written, and of the same in which it is missing."""
    given = rows(EVENTS, missing=False) + rows(EVENTS, missing=True, first=len(EVENTS) + 1)
    expected = {condition: outcomes * 2 for condition, outcomes in OUTCOMES.items()}
    inputs, reference = {"events": given}, {"ref": given} if "ref" in script(place) else {}
    assert hits(oracle_run(script(place), inputs, reference=reference), len(given)) == expected
    assert hits(play(script(place), inputs, reference=reference).rows, len(given)) == expected


@pytest.mark.parametrize("number", some(range(len(EVENTS)), 2))
def test_a_condition_is_the_same_where_all_events_lack_the_field(number: int) -> None:
    """All of a column is NULL then, and its type is known before any row is seen."""
    for place in ("WHERE", "CASE"):
        given = rows([EVENTS[number]], missing=True)
        came = hits(play(script(place), {"events": given}).rows, 1)
        assert came == {condition: [outcomes[number]] for condition, outcomes in OUTCOMES.items()}


def test_the_page_has_an_event_with_null_in_each_place_and_every_operator_with_its_negation() -> None:
    assert all(any(event[name] is None for event in EVENTS) for name in "xyz")
    for operator in ("=", "<>", "<", "<=", ">", ">=", "LIKE", "NOT LIKE"):
        assert {f"x {operator} y", f"NOT (x {operator} y)"} <= set(CONDITIONS)
    for operator in ("BETWEEN y AND z", "NOT BETWEEN y AND z", "IN (y, z)", "NOT IN (y, z)", "IS NULL"):
        assert {f"x {operator}", f"NOT (x {operator})"} <= set(CONDITIONS)
