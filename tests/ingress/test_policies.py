"""The ingress kernel against the row-at-a-time rule of `asa.md` 1.5, and at its edges."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from tideglass.core.errors import StateError
from tideglass.core.time import BEFORE_ALL_TICKS, LAST_TICKS, ORIGIN_TICKS, TICKS_PER_MINUTE, TICKS_PER_SECOND
from tideglass.ingress.decisions import (
    Counters,
    Decision,
)
from tideglass.ingress.partition_time import Ingress
from tideglass.ingress.policies import Decided, apply_policies, estimated_arrival_ticks, idle_until
from tideglass.plan.policy_settings import Policies

MINUTE = TICKS_PER_MINUTE
SECOND = TICKS_PER_SECOND


@dataclass(frozen=True)
class Event:
    arrival: int
    event: int | None
    key: str | None = "k"


@dataclass(frozen=True)
class IdleTime:
    elapsed: int


def chunk_of(policies, ingress, events, *, over=False, trace=False) -> Decided:
    keys = pa.array([e.key for e in events], type=pa.string()).dictionary_encode()
    return apply_policies(
        policies,
        ingress,
        np.array([e.arrival for e in events], dtype=np.int64),
        np.array([0 if e.event is None else e.event for e in events], dtype=np.int64),
        valid=np.array([e.event is not None for e in events], dtype=bool),
        substreams=keys if over else None,
        trace=trace,
    )


def idle(policies, ingress, elapsed_ticks, started_ticks=None) -> Ingress:
    """The state after so much idle time."""
    until_ticks = estimated_arrival_ticks(ingress, elapsed_ticks, started_ticks)
    return ingress if until_ticks is None else idle_until(policies, ingress, until_ticks)


def decided(policies, *events, over=False):
    """(decision, System.Timestamp or None) of each event of one chunk."""
    placed = chunk_of(policies, Ingress(), events, over=over)
    return [
        (Decision(d), int(t) if Decision(d).kept else None)
        for d, t in zip(placed.decision, placed.system_timestamp_ticks, strict=True)
    ]


# ------------------------------------------------------------------------------- the rule, row at a time


@dataclass
class Rule:
    """`asa.md` 1.5 as written there, with the idle term as a floor at every event (A-02, A-06)."""

    policies: Policies
    over: bool
    last_arrival: float = -math.inf
    floor: float = -math.inf
    newest: dict[str, float] = field(default_factory=dict)
    watermark: dict[str, float] = field(default_factory=dict)

    def at(self, key):
        return max(self.watermark.get(key, -math.inf), self.floor)

    def raise_floor(self, estimated_arrival):
        p = self.policies
        lag = p.late_ticks if p.application_time else p.idle_allowance_ticks
        if lag is not None:
            self.floor = max(self.floor, estimated_arrival - lag)

    def on_event(self, e: Event):
        """(decision, timestamp, watermark before, watermark after)."""
        p = self.policies
        at = self.last_arrival = max(self.last_arrival, e.arrival)
        key = e.key if self.over else "all"
        before = self.at(key)
        decision, ts = self.decide(p, e, at, key)
        if ts is not None:
            tolerance = p.out_of_order_ticks if p.application_time else 0
            self.newest[key] = max(self.newest.get(key, -math.inf), ts)
            self.watermark[key] = max(self.at(key), self.newest[key] - tolerance)
        self.raise_floor(at)
        return decision, ts, before, self.at(key)

    def decide(self, p, e, at, key):
        if not p.application_time:
            if at < self.at(key):
                return Decision.ADJUSTED_OUT_OF_ORDER, self.at(key)
            return Decision.ACCEPTED, at
        if e.event is None:
            return Decision.DROPPED_BAD_TIMESTAMP, None
        if key is None:
            return Decision.DROPPED_NULL_KEY, None
        if p.early_ticks is not None and e.event - at > p.early_ticks:
            return Decision.DROPPED_EARLY, None
        ts, decision = e.event, Decision.ACCEPTED
        if p.late_ticks is not None and at - ts > p.late_ticks:
            if p.drop:
                return Decision.DROPPED_LATE, None
            ts, decision = at - p.late_ticks, Decision.ADJUSTED_LATE
        if ts < self.at(key):
            if p.drop:
                return Decision.DROPPED_OUT_OF_ORDER, None
            late = decision == Decision.ADJUSTED_LATE
            ts, decision = self.at(key), Decision.ADJUSTED_BOTH if late else Decision.ADJUSTED_OUT_OF_ORDER
        return decision, ts

    def on_silence(self, elapsed):
        if self.last_arrival > -math.inf:
            self.raise_floor(self.last_arrival + elapsed)


def ticks(value: float) -> int:
    return BEFORE_ALL_TICKS if value == -math.inf else int(value)


policy_sets = st.builds(
    Policies,
    early_ticks=st.none() | st.integers(0, 12),
    late_ticks=st.none() | st.integers(0, 15),
    out_of_order_ticks=st.integers(0, 10),
    drop=st.booleans(),
    application_time=st.booleans(),
    idle_allowance_ticks=st.integers(0, 8),
)
events_ = st.builds(
    Event,
    arrival=st.integers(0, 60),
    event=st.none() | st.integers(-30, 80),
    key=st.none() | st.sampled_from("abcd"),
)
histories = st.lists(st.lists(events_, max_size=12) | st.builds(IdleTime, st.integers(0, 40)), max_size=8)


@st.composite
def runs(draw):
    """Policies, with OVER or not, and chunks with silences between; arrivals mostly ascend."""
    policies, history = draw(policy_sets), draw(histories)
    step = draw(st.integers(0, 30))
    history = [
        part if isinstance(part, IdleTime) else [replace(e, arrival=e.arrival + i * step) for e in part]
        for i, part in enumerate(history)
    ]
    return policies, policies.application_time and draw(st.booleans()), history


def content(ingress):
    """All a state says, in a form that compares."""
    keys = dict(zip(ingress.substreams.to_pylist(), ingress.substream_watermark_ticks.tolist(), strict=True))
    return (
        ingress.last_arrival_ticks,
        ingress.floor_ticks,
        ingress.event_watermark_ticks,
        keys,
        ingress.counters,
    )


def play(policies, over, history):
    """All that the kernel says about each event of a history, and the last state."""
    ingress, told = Ingress(), []
    for part in history:
        if isinstance(part, IdleTime):
            ingress = idle(policies, ingress, part.elapsed)
            continue
        placed = chunk_of(policies, ingress, part, over=over, trace=True)
        trace = placed.trace
        told += zip(
            placed.decision.tolist(),
            placed.system_timestamp_ticks.tolist(),
            trace.watermark_before_ticks.tolist(),
            trace.watermark_after_ticks.tolist(),
            strict=True,
        )
        ingress = placed.ingress
    return told, ingress


@settings(max_examples=depth(400), deadline=None)
@given(runs())
def test_the_kernel_decides_every_event_as_the_row_at_a_time_rule_does(run):
    policies, over, history = run
    rule, expected = Rule(policies, over), []
    for part in history:
        if isinstance(part, IdleTime):
            rule.on_silence(part.elapsed)
            continue
        for event in part:
            decision, ts, before, after = rule.on_event(event)
            shown = BEFORE_ALL_TICKS if ts is None else ts
            expected.append((int(decision), shown, ticks(before), ticks(after)))
    told, ingress = play(policies, over, history)
    assert told == expected
    progress = ingress.progress
    for key in "abcd":
        assert int(progress.of(pa.array([key]))[0]) == ticks(rule.at(key if over else "all"))


@settings(max_examples=depth(200), deadline=None)
@given(runs(), st.data())
def test_how_events_are_cut_into_chunks_changes_nothing(run, data):
    policies, over, history = run
    recut = []
    for part in history:
        if isinstance(part, IdleTime) or not part:
            recut.append(part)
            continue
        cut = data.draw(st.integers(0, len(part)))
        recut += [part[:cut], part[cut:]]
    told, ingress = play(policies, over, history)
    told_recut, ingress_recut = play(policies, over, recut)
    assert told == told_recut
    assert content(ingress) == content(ingress_recut)


@settings(max_examples=depth(200), deadline=None)
@given(runs())
def test_counters_add_up_watermarks_never_fall_and_nothing_is_behind_them(run):
    policies, over, history = run
    events = [e for part in history if not isinstance(part, IdleTime) for e in part]
    told, ingress = play(policies, over, history)
    counters = ingress.counters
    assert counters.input_events == len(events) == counters.accepted + counters.adjusted + counters.dropped
    highest: dict[str | None, int] = {}
    for event, (decision, timestamp, before, after) in zip(events, told, strict=True):
        key = event.key if over else "all"
        assert highest.get(key, BEFORE_ALL_TICKS) <= before <= after
        highest[key] = after
        if Decision(decision).kept:
            assert timestamp >= before


@settings(max_examples=depth(200), deadline=None)
@given(runs())
def test_the_state_survives_being_written_and_read_after_every_chunk(run):
    policies, over, history = run
    ingress = Ingress()
    for part in history:
        if isinstance(part, IdleTime):
            ingress = idle(policies, ingress, part.elapsed)
        else:
            ingress = chunk_of(policies, ingress, part, over=over).ingress
        ingress = Ingress.from_bytes(ingress.to_bytes())
    assert content(ingress) == content(play(policies, over, history)[1])


@settings(max_examples=depth(200), deadline=None)
@given(runs())
def test_a_substream_not_ahead_of_the_floor_can_be_forgotten_and_is(run):
    """Play against a kernel state that holds every key ever seen: neither decisions nor progress differ."""
    policies, _, history = run
    policies = replace(policies, application_time=True)
    lean, full, seen = Ingress(), Ingress(), {}
    for part in history:
        if isinstance(part, IdleTime):
            lean, full = idle(policies, lean, part.elapsed), idle(policies, full, part.elapsed)
        else:
            of_lean = chunk_of(policies, lean, part, over=True, trace=True)
            of_full = chunk_of(policies, full, part, over=True, trace=True)
            assert of_lean.decision.tolist() == of_full.decision.tolist()
            assert of_lean.system_timestamp_ticks.tolist() == of_full.system_timestamp_ticks.tolist()
            assert (
                of_lean.trace.watermark_after_ticks.tolist() == of_full.trace.watermark_after_ticks.tolist()
            )
            lean, full = of_lean.ingress, of_full.ingress
        seen |= dict(
            zip(full.substreams.to_pylist(), full.substream_watermark_ticks.tolist(), strict=True)
        )  # put back what was forgotten, with the watermark it had
        full = replace(
            full,
            substreams=pa.array(seen, type=pa.string()),
            substream_watermark_ticks=np.array(list(seen.values()), dtype=np.int64),
        )
        assert all(w > lean.floor_ticks for w in lean.substream_watermark_ticks.tolist())
    keys = pa.array(list("abcd"))
    assert lean.progress.of(keys).tolist() == full.progress.of(keys).tolist()


@settings(max_examples=depth(200), deadline=None)
# ------------------------------------------------------------------------------- vectors and boundaries


def at(text: str) -> int:
    """Ticks of h:mm:ss."""
    h, m, s = map(int, text.split(":"))
    return (h * 3600 + m * 60 + s) * SECOND


@pytest.mark.parametrize(
    ("late", "out_of_order", "rows"),
    [
        (
            15 * SECOND,
            5 * SECOND,
            [
                ("0:10:00", "0:10:40", "0:10:25"),
                ("0:10:30", "0:10:41", "0:10:30"),
                ("0:10:42", "0:10:42", "0:10:42"),
                ("0:10:38", "0:10:43", "0:10:38"),
                ("0:10:35", "0:10:45", "0:10:37"),
            ],
        ),
        (
            10 * MINUTE,
            3 * MINUTE,
            [
                ("0:00:00", "0:10:01", "0:00:01"),
                ("0:00:01", "0:10:01", "0:00:01"),
                ("0:10:00", "0:10:02", "0:10:00"),
                ("0:09:00", "0:10:03", "0:09:00"),
                ("0:06:00", "0:10:04", "0:07:00"),
            ],
        ),
    ],
)
def test_the_official_vectors_of_1_10(late, out_of_order, rows):
    policies = Policies(late_ticks=late, out_of_order_ticks=out_of_order)
    placed = decided(policies, *(Event(at(arrival), at(event)) for event, arrival, _ in rows))
    assert [timestamp for _, timestamp in placed] == [at(expected) for *_, expected in rows]


def test_the_documented_substreams_sample_adjusts_nothing():
    sample = [(1, "1"), (5, "1"), (1, "2"), (4, "2"), (10, "1"), (3, "3"), (11, "2"), (7, "3")]
    events = [Event(i * SECOND, s * SECOND, key) for i, (s, key) in enumerate(sample, start=20)]
    assert decided(Policies(), *events, over=True) == [
        (Decision.ACCEPTED, second * SECOND) for second, _ in sample
    ]
    # Without OVER the same events disturb each other: four are behind the watermark of another key.
    assert sum(d == Decision.ADJUSTED_OUT_OF_ORDER for d, _ in decided(Policies(), *events)) == 4


def test_an_event_exactly_five_minutes_early_is_accepted_and_one_tick_more_is_dropped():
    assert decided(Policies(), Event(0, 5 * MINUTE), Event(0, 5 * MINUTE + 1)) == [
        (Decision.ACCEPTED, 5 * MINUTE),
        (Decision.DROPPED_EARLY, None),
    ]


def test_an_event_exactly_late_is_accepted_and_one_tick_more_is_late():
    policies = Policies(late_ticks=10)
    assert decided(policies, Event(100, 90)) == [(Decision.ACCEPTED, 90)]
    assert decided(policies, Event(100, 89)) == [(Decision.ADJUSTED_LATE, 90)]
    assert decided(replace(policies, drop=True), Event(100, 89)) == [(Decision.DROPPED_LATE, None)]


def test_an_event_exactly_on_the_watermark_is_accepted_and_one_tick_less_is_out_of_order():
    policies = Policies(out_of_order_ticks=10)
    assert decided(policies, Event(100, 100), Event(100, 90)) == [
        (Decision.ACCEPTED, 100),
        (Decision.ACCEPTED, 90),
    ]
    assert decided(policies, Event(100, 100), Event(100, 89))[1] == (Decision.ADJUSTED_OUT_OF_ORDER, 90)
    assert decided(replace(policies, drop=True), Event(100, 100), Event(100, 89))[1] == (
        Decision.DROPPED_OUT_OF_ORDER,
        None,
    )


def test_an_event_may_be_changed_by_both_policies_and_then_raises_both_metrics_once():
    policies = Policies(late_ticks=10, out_of_order_ticks=2)
    placed = chunk_of(policies, Ingress(), [Event(100, 100), Event(101, 50)])
    assert placed.decision.tolist() == [Decision.ACCEPTED, Decision.ADJUSTED_BOTH]
    assert placed.system_timestamp_ticks.tolist() == [100, 98]
    assert placed.counters.metrics() == {
        "InputEvents": 2,
        "EarlyInputEvents": 0,
        "LateInputEvents": 1,
        "DroppedOrAdjustedEvents": 1,
    }


def test_dropped_late_and_out_of_order_events_are_counted_by_the_metrics_too():
    policies = Policies(late_ticks=10, drop=True)
    placed = chunk_of(policies, Ingress(), [Event(100, 100), Event(101, 50), Event(101, 99), Event(0, None)])
    assert placed.counters == Counters(
        accepted=1, dropped_late=1, dropped_out_of_order=1, dropped_bad_timestamp=1, arrivals_raised=1
    )
    assert placed.counters.metrics() == {
        "InputEvents": 4,
        "EarlyInputEvents": 0,
        "LateInputEvents": 1,
        "DroppedOrAdjustedEvents": 1,
    }


def test_a_dropped_event_moves_the_watermark_only_by_its_arrival():
    policies = Policies(late_ticks=10 * MINUTE, drop=True)
    placed = chunk_of(policies, Ingress(), [Event(0, 0), Event(MINUTE, 60 * MINUTE)], trace=True)
    assert placed.decision[1] == Decision.DROPPED_EARLY
    assert placed.trace.watermark_after_ticks.tolist() == [0, 0]
    placed = chunk_of(policies, placed.ingress, [Event(20 * MINUTE, None)], trace=True)
    assert placed.trace.watermark_after_ticks.tolist() == [10 * MINUTE]


def test_without_a_late_limit_nothing_is_late_and_silence_moves_nothing():
    policies = Policies(late_ticks=None)
    assert decided(policies, Event(10**15, 0)) == [(Decision.ACCEPTED, 0)]
    ingress = chunk_of(policies, Ingress(), [Event(10**15, 0)]).ingress
    assert idle(policies, ingress, 10**15).watermark_ticks == ingress.watermark_ticks == 0


def test_silence_raises_the_watermark_to_the_estimated_arrival_less_late():
    policies = Policies(late_ticks=5 * MINUTE, out_of_order_ticks=2 * MINUTE)
    ingress = chunk_of(policies, Ingress(), [Event(60 * MINUTE, 60 * MINUTE)]).ingress
    assert ingress.watermark_ticks == 58 * MINUTE
    assert idle(policies, ingress, 2 * MINUTE).watermark_ticks == 58 * MINUTE
    later = idle(policies, ingress, 10 * MINUTE)
    assert later.watermark_ticks == 65 * MINUTE
    assert idle(policies, later, MINUTE).watermark_ticks == 65 * MINUTE


def test_a_partition_that_never_had_an_event_is_silent_since_the_start_it_is_told():
    policies = Policies(late_ticks=5 * MINUTE)
    assert idle(policies, Ingress(), MINUTE).watermark_ticks == BEFORE_ALL_TICKS
    assert idle(policies, Ingress(), 7 * MINUTE, started_ticks=0).watermark_ticks == 2 * MINUTE


def test_by_arrival_time_every_event_is_stamped_with_its_arrival_and_no_policy_applies():
    policies = Policies(early_ticks=0, late_ticks=0, out_of_order_ticks=7, drop=True, application_time=False)
    arrivals = np.array([10, 10, 30], dtype=np.int64)
    placed = apply_policies(policies, Ingress(), arrivals, trace=True)
    assert placed.system_timestamp_ticks.tolist() == [10, 10, 30]
    assert placed.decision.tolist() == [Decision.ACCEPTED] * 3
    assert placed.trace.watermark_after_ticks.tolist() == [10, 10, 30]


def test_by_arrival_time_silence_follows_the_estimated_arrival_at_the_allowance():
    policies = Policies(application_time=False)
    ingress = apply_policies(policies, Ingress(), np.array([MINUTE])).ingress
    assert idle(policies, ingress, 5 * SECOND).watermark_ticks == MINUTE
    silent = idle(policies, ingress, 8 * SECOND)
    assert silent.watermark_ticks == MINUTE + 3 * SECOND
    placed = apply_policies(policies, silent, np.array([MINUTE + SECOND, MINUTE + 4 * SECOND]))
    assert placed.decision.tolist() == [Decision.ADJUSTED_OUT_OF_ORDER, Decision.ACCEPTED]
    assert placed.system_timestamp_ticks.tolist() == [MINUTE + 3 * SECOND, MINUTE + 4 * SECOND]


def test_an_arrival_that_runs_backwards_is_raised_and_counted():
    placed = chunk_of(Policies(), Ingress(), [Event(50, 50), Event(40, 50), Event(60, 60)])
    assert placed.arrival_time_ticks.tolist() == [50, 50, 60]
    assert placed.counters.arrivals_raised == 1
    placed = chunk_of(Policies(), placed.ingress, [Event(10, 60)])
    assert placed.arrival_time_ticks.tolist() == [60]
    assert placed.ingress.counters.arrivals_raised == 2


def test_one_arrival_clock_floors_the_watermark_of_every_substream():
    policies = Policies(late_ticks=10)
    placed = chunk_of(policies, Ingress(), [Event(100, 95, "a"), Event(200, 200, "b")], over=True)
    progress = placed.ingress.progress
    assert progress.watermark_ticks == 190
    assert progress.of(pa.array(["a", "b", "never seen"])).tolist() == [190, 200, 190]


def test_a_null_key_and_a_bad_timestamp_are_told_apart_and_the_timestamp_comes_first():
    policies = Policies()
    assert decided(policies, Event(0, 0, None), Event(0, None, "a"), Event(0, None, None), over=True) == [
        (Decision.DROPPED_NULL_KEY, None),
        (Decision.DROPPED_BAD_TIMESTAMP, None),
        (Decision.DROPPED_BAD_TIMESTAMP, None),
    ]


def test_a_null_inside_the_dictionary_is_a_null_key():
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    placed = apply_policies(Policies(), Ingress(), np.array([0, 0]), np.array([0, 0]), substreams=keys)
    assert placed.decision.tolist() == [Decision.ACCEPTED, Decision.DROPPED_NULL_KEY]


def test_times_no_datetime_can_name_are_bad_timestamps_and_the_extremes_are_not():
    policies = Policies(early_ticks=None)
    extremes = [ORIGIN_TICKS, LAST_TICKS]
    beyond = [ORIGIN_TICKS - 1, LAST_TICKS + 1, -(2**63), 2**63 - 1]
    placed = decided(policies, *(Event(0, t) for t in extremes + beyond))
    assert [d for d, _ in placed] == [Decision.ACCEPTED] * 2 + [Decision.DROPPED_BAD_TIMESTAMP] * 4


def test_substreams_at_opposite_ends_of_time_do_not_overflow():
    keys = [f"key {i}" for i in range(50)]
    first = [Event(0, ORIGIN_TICKS if i % 2 else LAST_TICKS, key) for i, key in enumerate(keys)]
    again = [Event(0, 0, key) for key in keys]
    placed = decided(Policies(early_ticks=None), *first, *again, over=True)
    assert placed[50:] == [
        (Decision.ACCEPTED, 0) if i % 2 else (Decision.ADJUSTED_OUT_OF_ORDER, LAST_TICKS) for i in range(50)
    ]


def test_an_arrival_outside_time_and_arrays_that_do_not_fit_are_refused():
    one = np.zeros(1, dtype=np.int64)
    with pytest.raises(ValueError, match="years 1 to 9999"):
        apply_policies(Policies(), Ingress(), np.array([LAST_TICKS + 1]), one)
    with pytest.raises(ValueError, match="2 event times for 1 arrival times"):
        apply_policies(Policies(), Ingress(), one, np.zeros(2, dtype=np.int64))
    with pytest.raises(ValueError, match="needs an event time"):
        apply_policies(Policies(), Ingress(), one)
    keys = pa.array(["a"]).dictionary_encode()
    with pytest.raises(ValueError, match="substreams need TIMESTAMP BY"):
        apply_policies(Policies(application_time=False), Ingress(), one, one, substreams=keys)
    with pytest.raises(ValueError, match="late_ticks is -1"):
        Policies(late_ticks=-1)


def test_an_empty_chunk_changes_nothing():
    ingress = chunk_of(Policies(), Ingress(), [Event(5, 5, "a")], over=True).ingress
    for over in (False, True):
        assert chunk_of(Policies(), ingress, [], over=over).ingress.to_bytes() == ingress.to_bytes()


def test_twenty_thousand_substreams_go_through_state_and_back():
    n = 20_000
    keys = pa.array([f"device {i}" for i in range(n)]).dictionary_encode()
    times = np.arange(n, dtype=np.int64)
    ingress = apply_policies(Policies(), Ingress(), times, times, substreams=keys).ingress
    again = Ingress.from_bytes(ingress.to_bytes())
    assert again.substreams.equals(ingress.substreams)
    assert again.substream_watermark_ticks.tolist() == times.tolist()
    # 70 000 keys no longer fit 16-bit codes; the scan must not care.
    many = pa.array([f"device {i % 70_000}" for i in range(140_000)]).dictionary_encode()
    times = np.repeat(np.array([1000, 5], dtype=np.int64), 70_000)
    placed = apply_policies(Policies(), again, np.full(140_000, 10**6), times, substreams=many)
    assert (placed.decision[70_000:] == Decision.ADJUSTED_OUT_OF_ORDER).all()
    assert placed.system_timestamp_ticks[-1] == 1000


def test_a_state_that_is_none_is_refused():
    for data in (b"", b"nonsense", b"{}"):
        with pytest.raises(StateError):
            Ingress.from_bytes(data)
