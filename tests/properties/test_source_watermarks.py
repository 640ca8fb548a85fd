"""Watermark policies of sources: the oracle's rows in any manner, and what each kind promises (11.2)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from oracle import metrics as oracle_metrics
from oracle import watermarks as oracle
from oracle.strategies import HEURISTIC, Trial, watermarked
from support.against_oracle import check_rows, played, reproducible, the_oracle
from support.depth import depth
from support.harness import AT_ONCE, Manner, Played, manners, play
from tideglass.core.errors import EvaluationError, ProjectError
from tideglass.core.time import TICKS_PER_SECOND, parse_ticks
from tideglass.ingress.decisions import Counters
from tideglass.ingress.in_flight import PERCENTS
from tideglass.ingress.late_partitions import PartitionShare, late_partition_states
from tideglass.ingress.reports import HeldBy, ReaderReport
from tideglass.ingress.scan import Scan, ScanState
from tideglass.plan.explain import operator_text
from tideglass.plan.fingerprint import fingerprints
from tideglass.project.settings import from_job_config, from_options
from tideglass.testing import compile_rows, run

STATIC = "static set of time-ordered logs"
INGRESS = "ingress time"
SECOND = TICKS_PER_SECOND


def last_reports(came: Played) -> Mapping[str, ReaderReport]:
    """The last report of each partition."""
    return {p.partition: p.readers[0] for batch in came.reports for p in batch.partitions}


def total(came: Played) -> Counters:
    return sum((each.counters for each in last_reports(came).values()), Counters())


def went(trial: Trial, manner: Manner = AT_ONCE, idle: tuple[float, ...] = ()) -> Played:
    found = played(trial, manner, idle)
    assert found is not None
    return found


@given(watermarked(), manners())
@examples(reproducible, max_examples=depth(80))
def test_under_every_policy_rows_are_the_oracles_in_any_batches_and_restarts(trial: Trial, manner: Manner):
    check_rows(trial, manner)


@given(watermarked([STATIC, INGRESS], ascending=True), manners(), st.sampled_from([(), (0.5, 1.0)]))
@examples(reproducible, max_examples=depth(40))
def test_a_perfect_source_has_no_late_event(trial: Trial, manner: Manner, idle: tuple[float, ...]):
    counters = total(went(trial, manner, idle))
    bad_times = sum(row["t"] in (None, "noon") for row in trial.inputs["events"])
    ingress_time = INGRESS in trial.settings["watermarks"].values()
    assert counters.input_events == len(trial.inputs["events"])
    assert counters.dropped_bad_timestamp == (0 if ingress_time else bad_times)
    assert counters.accepted == counters.input_events - counters.dropped_bad_timestamp
    check_rows(trial, manner)


@given(watermarked([STATIC]), manners())
@examples(reproducible, max_examples=depth(40))
def test_a_log_that_does_not_ascend_stops_the_job_in_any_batches(trial: Trial, manner: Manner):
    check_rows(trial, manner)


@given(watermarked(HEURISTIC), manners(), st.sampled_from([(), (0.5, 1.0)]))
@examples(reproducible, max_examples=depth(40))
def test_a_heuristic_source_accounts_for_every_event(trial: Trial, manner: Manner, idle: tuple[float, ...]):
    at_once, otherwise = went(trial), went(trial, manner, idle)
    counters = total(at_once)
    assert counters == total(otherwise)
    assert counters.input_events == counters.kept + counters.dropped == len(trial.inputs["events"])
    rows = the_oracle(trial)
    assert rows is not None
    if trial.query.startswith("SELECT v"):
        assert counters.kept == len(rows["output"])
    metrics, expected = counters.metrics(), oracle_metrics(trial.query, trial.inputs, trial.settings)
    assert {name: metrics[name] for name in expected} == expected
    assert 0 <= counters.beyond_percentile <= expected["LateInputEvents"]
    if "dynamic" in str(trial.settings["watermarks"]):
        assert counters.beyond_percentile == 0


@given(watermarked(HEURISTIC), manners())
@examples(reproducible, max_examples=depth(20))
def test_reported_percentiles_are_the_oracles_however_events_are_cut(trial: Trial, manner: Manner):
    reports = last_reports(went(trial, manner))
    for partition, report in reports.items():
        events = [
            (parse_ticks(row["t"]) if row["t"] else None, parse_ticks(row["_arrival"]) or 0)
            for row in trial.inputs["events"]
            if row["_partition"] == int(partition)
        ]
        timed = [(None if t is None or t - at > 300 * SECOND else t, at) for t, at in events]
        expected = oracle.in_flight(timed)
        percentiles = {p: oracle.at_percent(expected, p) for p in PERCENTS} if expected else {}
        assert report.percentiles_ticks == percentiles


def test_a_watermark_at_a_percentile_says_so():
    rows = [
        {"_arrival": f"2026-01-01T00:00:0{n // 20}Z", "t": f"2026-01-01T00:00:0{n // 20}Z"} for n in range(60)
    ]
    settings = {"out_of_order": "30s", "watermarks": "at percentile 95"}
    came = play(
        "SELECT COUNT(*) AS n FROM events TIMESTAMP BY t GROUP BY TumblingWindow(second, 1)",
        {"events": rows},
        settings,
        Manner(takes=(59,), end_apart=True),
        partitions=1,
    )
    report = came.reports[0].partitions[0].readers[0]
    assert report.held_by is HeldBy.PERCENTILE
    assert report.watermark_ticks == parse_ticks("2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("query", "settings", "message"),
    [
        ("SELECT t FROM a TIMESTAMP BY t", {"watermarks": "at percentile 0"}, "must be 1 to 100"),
        ("SELECT t FROM a TIMESTAMP BY t", {"watermarks": "at percentile 95"}, "tolerance is 0"),
        ("SELECT t FROM a TIMESTAMP BY t", {"watermarks": "ingres time"}, "did you mean 'ingress time'"),
        ("SELECT t FROM a TIMESTAMP BY t", {"watermarks": {"b": INGRESS}}, "reads no input of this name"),
        ("SELECT t FROM a TIMESTAMP BY t", {"watermarks": 95}, "it must be an object with texts"),
        ("SELECT t FROM a TIMESTAMP BY t", {"watermarks": f"{STATIC} at percentile 95"}, "no stragglers"),
        ("SELECT t FROM a", {"watermarks": {"a": STATIC}}, "reads it without TIMESTAMP BY"),
        ("SELECT t FROM a TIMESTAMP BY t OVER k", {"watermarks": STATIC}, "OVER.*not yet supported"),
    ],
)
def test_a_policy_that_does_not_fit_is_refused(query, settings, message):
    with pytest.raises(ProjectError, match=message):
        run(query, {"a": []}, settings=settings)


def test_a_log_out_of_order_is_named():
    rows = [{"t": "2026-01-01T00:00:02Z"}, {"t": "2026-01-01T00:00:01Z"}]
    with pytest.raises(EvaluationError, match=r"\[UNORDERED_LOG\] 'a' .*partition 0 .*offset 1 .*00:00:01"):
        run("SELECT t FROM a TIMESTAMP BY t", {"a": rows}, settings={"watermarks": STATIC})


def test_a_partition_that_appears_in_a_static_set_stops_the_job():
    settings = from_options({"watermarks": STATIC})
    topology = compile_rows("SELECT t FROM a TIMESTAMP BY t", {"a": []}, settings).topology
    there = PartitionShare(0, (), ScanState())
    with pytest.raises(EvaluationError, match=r"\[NEW_LOG\] 'a' .* the partition 'b' has appeared"):
        late_partition_states(Scan(topology, "a"), [there], {"b": (1, ())})


def test_files_without_arrival_times_can_be_a_static_set_of_logs_only():
    chosen = from_job_config({"Watermarks": {"a": STATIC}})
    assert chosen.without_policies().watermarks == (("a", STATIC),)
    with pytest.raises(ProjectError, match="ArrivalTimeField"):
        from_job_config({"watermarks": "at percentile 95"}).without_policies()


def test_a_chosen_policy_changes_the_fingerprint_of_what_it_feeds_and_of_nothing_else():
    query = "SELECT COUNT(*) AS n FROM a TIMESTAMP BY t GROUP BY TumblingWindow(second, 1)"
    plain, same, other = (
        fingerprints(compile_rows(query, {"a": []}, from_options(options)).topology)
        for options in (
            {"out_of_order": "5s"},
            {"out_of_order": "5s", "watermarks": {}},
            {"out_of_order": "5s", "watermarks": "at percentile 95"},
        )
    )
    assert plain == same
    assert not set(plain) & set(other)


def test_explain_shows_the_policy():
    settings = from_options({"watermarks": "tracking subscription at percentile 95"})
    topology = compile_rows("SELECT t FROM a TIMESTAMP BY t", {"a": []}, settings).topology
    assert operator_text(topology, topology.ops[0]) == (
        "read a (application time, tracking subscription, watermark at percentile 95)"
    )
