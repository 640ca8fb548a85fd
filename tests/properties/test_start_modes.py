"""A run that starts again equals the undisturbed one, whatever the query and wherever it was stopped.

The undisturbed run reads everything from the first event on. One that starts at an output time reads only
what arrived from `start - span - early limit` on; one that follows a stopped run gives exactly what that
one had not given yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from oracle.strategies import (
    Trial,
    aggregations,
    analytics,
    applies,
    detections,
    iso,
    joins,
    projections,
    substreams,
    users_aggregations,
    watermarked,
)
from support.against_oracle import reproducible
from support.depth import depth, some
from support.generated import chains_of_steps
from support.harness import AT_ONCE, Begin, Manner, Place, Played, compiled_for, manners, play
from support.joins import around_joins
from support.joins import chains as chains_of_joins
from support.lookups import joined
from support.matching import matchings, of_steps
from support.queries import chained
from support.stamped import stamped
from support.times import ticks_at
from tideglass.core.errors import EvaluationError, InputError
from tideglass.core.json_rows import rows_of
from tideglass.core.time import BEFORE_ALL_TICKS, TICKS_PER_SECOND
from tideglass.core.types import SYSTEM_TIMESTAMP
from tideglass.ingress.idle_periods import IdlePeriod
from tideglass.plan.read_back import read_backs


def with_panes(trial: Trial) -> Trial:
    return replace(trial, settings={**trial.settings, "early_panes": {"output": [33, 80]}})


#: What is built by operators of every kind, each with state of its own.
KINDS = {
    "projections": projections(),
    "windows": aggregations(),
    "substreams": substreams(),
    "windows over windows": chained(),
    "joins": joins(),
    "chains of joins": chains_of_joins(),
    "joins of windows": around_joins(),
    "analytic functions": analytics(),
    "users' aggregates": users_aggregations(),
    "anomaly detection": detections(),
    "reference data": joined(),
    "apply": applies(),
    "patterns": matchings(),
    "patterns among steps": of_steps(),
    "chains of steps": chains_of_steps(),
    "output timestamps": stamped(),
    "watermarks of sources": watermarked(),
    "early panes": watermarked().filter(lambda trial: "Hopping" in trial.query).map(with_panes),
}

Given = dict[str, Counter[str]]


def trial_of(kind: str) -> st.SearchStrategy[Trial]:
    """Trials with an early limit short beside the time their events span, or there is nothing to skip."""
    early = st.sampled_from(["0s", "1s", "1s", "4s", "none"])
    return st.builds(with_early_limit, KINDS[kind], early)


def with_early_limit(trial: Trial, limit: str) -> Trial:
    return replace(trial, settings={**trial.settings, "early_arrival": limit})


def played(trial: Trial, manner: Manner, **how: Any) -> Played:
    how |= {"partitions": trial.partitions, "functions": trial.functions, "reference": trial.reference}
    return play(trial.query, trial.inputs, trial.settings, manner, **how)


def undisturbed(trial: Trial, idle_periods: tuple[float, ...] = (), manner: Manner = AT_ONCE) -> Played:
    """The run that reads everything; a trial whose rows stop the job shows nothing here."""
    try:
        return played(trial, manner, idle_periods=idle_periods)
    except (EvaluationError, InputError):
        assume(False)
        raise


def inline_rows(came: Played, from_ticks: int = BEFORE_ALL_TICKS) -> Given:
    """The rows of every output stamped from a time on, in which every bit and every type shows."""
    return {
        name: Counter(text for table in tables for text in _texts(table, from_ticks))
        for name, tables in came.tables.items()
    }


def _texts(table: pa.Table, from_ticks: int) -> list[str]:
    stamps = table[SYSTEM_TIMESTAMP].to_pylist()
    return [
        f"{stamp} {sorted(row.items())!r}"
        for stamp, row in zip(stamps, rows_of(table), strict=True)
        if stamp >= from_ticks
    ]


def begin_at(trial: Trial, ticks: int, *, after_watermark: bool = False) -> Begin:
    compiled = compiled_for(
        trial.query, trial.inputs, trial.settings, reference=trial.reference, functions=trial.functions
    )
    backs = read_backs(compiled.plan, compiled.topology, after_watermark=after_watermark)
    return Begin(
        {name: back.read_from_ticks(ticks) for name, back in backs.items()},
        {} if after_watermark else dict.fromkeys(compiled.topology.outputs, ticks),
        raised_from_ticks={name: back.raised_from_ticks(ticks) for name, back in backs.items()},
    )


def behind(first: Played, trial: Trial, idle_periods: Mapping[Place, list[IdlePeriod]]) -> Begin:
    """How to go on where a run was stopped, from its inputs alone."""
    assert first.stop is not None
    least_ticks = min(first.stop.watermark_ticks.values())
    reached = least_ticks > BEFORE_ALL_TICKS
    begin = begin_at(trial, least_ticks, after_watermark=True) if reached else Begin()
    return replace(begin, idle_periods=idle_periods, behind=first.stop)


# ---------------------------------------------------------------- at a given output time


@pytest.mark.parametrize("kind", some(KINDS, 3))
@given(data=st.data(), seconds=st.integers(-2, 120).map(lambda n: n / 2), manner=manners())
@examples(reproducible, max_examples=depth(7))
def test_from_its_output_time_on_a_run_equals_the_undisturbed_one(
    kind: str, data: st.DataObject, seconds: float, manner: Manner
) -> None:
    trial = data.draw(trial_of(kind))
    start_ticks = ticks_at(seconds)
    whole = undisturbed(trial)
    again = played(trial, manner, begin=begin_at(trial, start_ticks))
    assert inline_rows(again) == inline_rows(whole, start_ticks)


@pytest.mark.parametrize("kind", ["windows", "projections", "joins", "windows over windows"])
@given(
    data=st.data(),
    seconds=st.integers(-2, 120).map(lambda n: n / 2),
    manner=manners(),
    late=st.sampled_from(["0s", "2s", "5s"]),
    idle_periods=st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 4.0]), min_size=1, max_size=4).map(tuple),
)
@examples(reproducible, max_examples=depth(5))
def test_a_replay_sees_the_idle_periods_of_the_first_reading(
    kind: str, data: st.DataObject, seconds: float, manner: Manner, late: str, idle_periods: tuple[float, ...]
) -> None:
    trial = data.draw(trial_of(kind))
    trial = replace(trial, settings={**trial.settings, "late_arrival": late})
    start_ticks = ticks_at(seconds)
    whole = undisturbed(trial, idle_periods, Manner(takes=(2, 1)))
    begin = replace(begin_at(trial, start_ticks), idle_periods=dict(whole.idle_periods))
    again = played(trial, manner, begin=begin)
    assert inline_rows(again) == inline_rows(whole, start_ticks)


# ---------------------------------------------------------------- where the last run stopped


@pytest.mark.parametrize("kind", some(KINDS, 3))
@given(data=st.data(), batches=st.integers(1, 6), before=manners(), after=manners())
@examples(reproducible, max_examples=depth(7))
def test_behind_a_stopped_run_come_the_rows_it_had_not_given_and_no_other(
    kind: str, data: st.DataObject, batches: int, before: Manner, after: Manner
) -> None:
    trial = data.draw(trial_of(kind))
    whole = undisturbed(trial)
    first = played(trial, before, stop_after=batches)
    second = played(trial, after, begin=behind(first, trial, {}))
    both = {name: rows + inline_rows(second)[name] for name, rows in inline_rows(first).items()}
    assert both == inline_rows(whole)


@pytest.mark.parametrize("kind", ["windows", "projections", "joins", "analytic functions", "patterns"])
@given(
    data=st.data(),
    batches=st.integers(1, 6),
    before=manners(),
    after=manners(),
    late=st.sampled_from(["0s", "2s", "5s"]),
    idle_periods=st.lists(st.sampled_from([0.0, 0.5, 0.999, 1.0]), min_size=1, max_size=4).map(tuple),
)
@examples(reproducible, max_examples=depth(5))
def test_what_silence_let_a_stopped_run_give_is_not_given_again(
    kind: str,
    data: st.DataObject,
    batches: int,
    before: Manner,
    after: Manner,
    late: str,
    idle_periods: tuple[float, ...],
) -> None:
    trial = data.draw(trial_of(kind))
    trial = replace(trial, settings={**trial.settings, "late_arrival": late})
    whole = undisturbed(trial)
    first = played(trial, before, idle_periods=idle_periods, stop_after=batches)
    second = played(trial, after, begin=behind(first, trial, first.idle_periods))
    both = {name: rows + inline_rows(second)[name] for name, rows in inline_rows(first).items()}
    assert both == inline_rows(whole)


# ---------------------------------------------------------------- how far back


def test_less_than_the_read_back_is_not_enough() -> None:
    """The read-back is as long as it is because an event may be early, and a window open so long."""
    rows = [
        {"_arrival": iso(0), "t": iso(4), "v": 1},
        {"_arrival": iso(10), "t": iso(10), "v": 2},
        {"_arrival": iso(20), "t": iso(20), "v": 3},
    ]
    query = "SELECT SUM(v) AS s, System.Timestamp() AS at FROM events TIMESTAMP BY t GROUP BY "
    trial = Trial(query + "HoppingWindow(second, 10, 1)", {"events": rows}, {"early_arrival": "4s"})
    start_ticks = ticks_at(13)
    whole = inline_rows(undisturbed(trial), start_ticks)
    begin = begin_at(trial, start_ticks)
    assert begin.read_from_ticks == {"events": ticks_at(-1)}
    assert inline_rows(played(trial, AT_ONCE, begin=begin)) == whole
    less = replace(begin, read_from_ticks={"events": ticks_at(1)})
    assert inline_rows(played(trial, AT_ONCE, begin=less)) != whole


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("SELECT v FROM events", 0),
        ("SELECT v FROM events TIMESTAMP BY t", 300),
        ("SELECT COUNT(*) AS n FROM events GROUP BY TumblingWindow(minute, 1)", 60),
        ("SELECT COUNT(*) AS n FROM events TIMESTAMP BY t GROUP BY SlidingWindow(minute, 1)", 360),
        ("SELECT COUNT(*) AS n FROM events GROUP BY SessionWindow(second, 5, 60)", 125),
        ("SELECT COUNT(*) AS n FROM events GROUP BY System.Timestamp()", 0),
        ("SELECT LAG(v) OVER (LIMIT DURATION(hour, 1)) AS l FROM events", 3600),
        ("SELECT ISFIRST(minute, 5) AS f FROM events", 300),
        (
            "WITH a AS (SELECT * FROM events MATCH_RECOGNIZE (LIMIT DURATION(minute, 10) MEASURES A.v AS v "
            "AFTER MATCH SKIP TO NEXT ROW PATTERN (A+) DEFINE A AS A.v > 1)) "
            "SELECT COUNT(*) AS n FROM a GROUP BY TumblingWindow(minute, 1)",
            660,
        ),
        (
            "WITH a AS (SELECT COUNT(*) AS n FROM events GROUP BY TumblingWindow(minute, 1)), "
            "b AS (SELECT MAX(n) AS n FROM a GROUP BY HoppingWindow(minute, 10, 1)) "
            "SELECT LAG(n) OVER (LIMIT DURATION(hour, 1)) AS l FROM b",
            60 + 600 + 3600,
        ),
        (
            "WITH a AS (SELECT COUNT(*) AS n FROM events GROUP BY TumblingWindow(minute, 1)) "
            "SELECT n INTO short FROM a SELECT AVG(n) AS n INTO long FROM a GROUP BY TumblingWindow(hour, 2)",
            7260,
        ),
    ],
)
def test_the_read_back_is_the_longest_way_to_an_output(query: str, seconds: int) -> None:
    compiled = compiled_for(query, {"events": []}, {})
    (back,) = read_backs(compiled.plan, compiled.topology).values()
    assert back.read_from_ticks(0) == -seconds * TICKS_PER_SECOND


def test_each_input_is_read_back_as_far_as_it_is_looked_back_at() -> None:
    query = (
        "WITH w AS (SELECT k, COUNT(*) AS n FROM x GROUP BY k, TumblingWindow(minute, 10)) "
        "SELECT w.n INTO o FROM w JOIN y ON w.k = y.k AND DATEDIFF(second, w, y) BETWEEN 0 AND 59"
    )
    compiled = compiled_for(query, {"x": [], "y": []}, {})
    backs = read_backs(compiled.plan, compiled.topology)
    assert backs["x"].span_ticks - backs["y"].span_ticks == 600 * TICKS_PER_SECOND


def test_without_an_early_limit_everything_is_read() -> None:
    compiled = compiled_for("SELECT v FROM events TIMESTAMP BY t", {"events": []}, {"early_arrival": "none"})
    assert read_backs(compiled.plan, compiled.topology)["events"].read_from_ticks(0) is None
