"""The sketch of event times in flight: any cut, any order of merging, and the oracle's percentiles."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle import watermarks as oracle
from support.against_oracle import reproducible
from tideglass.core.errors import StateError
from tideglass.core.time import TICKS_PER_MINUTE, TICKS_PER_SECOND
from tideglass.ingress.in_flight import BUCKETS, PERCENTS, Arrivals, InFlight, TimeSketch
from tideglass.ingress.partition_time import Ingress
from tideglass.ingress.policies import apply_policies
from tideglass.plan.policy_settings import Policies

SECOND = TICKS_PER_SECOND
NOON = 17_672_256_000_000_000

times = st.one_of(
    st.integers(-60, 60).map(lambda s: NOON + s * SECOND),
    st.integers(-(10**9), 10**9).map(lambda t: NOON + t),
    st.sampled_from([NOON - 10**17, NOON + 10**15]),
)
many_times = st.builds(
    lambda seed, n, step: NOON + np.random.default_rng(seed).integers(-500, 500, n) * step,
    st.integers(0, 99),
    st.integers(1, 9000),
    st.sampled_from([1, 7, 1000, SECOND, 97 * SECOND]),
).map(lambda array: array.tolist())


def array(values) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def shown(sketch: TimeSketch):
    return sketch.shift, sketch.buckets.tolist(), sketch.counts.tolist()


def state_after(chunks) -> InFlight:
    state = InFlight()
    for chunk in chunks:
        usable = np.array([time is not None for time, _ in chunk], dtype=bool)
        state = state.after(Arrivals(array([a for _, a in chunk]), array([t or 0 for t, _ in chunk]), usable))
    return state


@given(st.one_of(st.lists(times, min_size=1, max_size=400), many_times))
@reproducible
def test_a_sketch_counts_times_in_the_least_width_for_which_its_buckets_are_enough(values):
    sketch = TimeSketch.of(array(values))
    rounded = sorted(oracle.rounded(values))
    assert np.repeat(sketch.buckets << sketch.shift, sketch.counts).tolist() == rounded
    assert len(sketch.buckets) <= BUCKETS
    assert sketch.count == len(values)


@given(st.lists(many_times, min_size=1, max_size=4), st.data())
@reproducible
def test_sketches_of_parts_in_any_order_are_the_sketch_of_the_whole(parts, data):
    whole = TimeSketch.of(array([time for part in parts for time in part]))
    sketches = [TimeSketch.of(array(part)) for part in parts]
    while len(sketches) > 1:
        one = sketches.pop(data.draw(st.integers(0, len(sketches) - 1)))
        other = sketches.pop(data.draw(st.integers(0, len(sketches) - 1)))
        sketches.append(TimeSketch.merged([one, other]))
    assert shown(sketches[0]) == shown(whole)


def test_a_dense_spread_is_off_by_at_most_a_sixty_fourth_of_it():
    spread = 3 * TICKS_PER_MINUTE
    values = NOON + np.arange(0, spread, spread // 50_000)
    found = InFlight((1,), (TimeSketch.of(values),)).at_percents()
    exact = InFlight((1,), (TimeSketch(0, *np.unique(values, return_counts=True)),)).at_percents()
    assert all(0 <= exact[p] - found[p] <= spread // 64 for p in PERCENTS)


@st.composite
def arrivals(draw):
    """Events in arrival order, some without a time."""
    arrival, found = NOON, []
    for _ in range(draw(st.integers(0, 40))):
        arrival += draw(st.sampled_from([0, 0, 1, SECOND // 3, SECOND, 4 * SECOND, 12 * SECOND]))
        behind = draw(st.sampled_from([None, 0, -SECOND, 1, SECOND // 2, 7 * SECOND, 3 * TICKS_PER_MINUTE]))
        found.append((None if behind is None else arrival - behind, arrival))
    return found


@given(arrivals(), st.lists(st.integers(0, 40), max_size=4))
@reproducible
def test_however_events_are_cut_percentiles_are_those_of_the_newest_ten_seconds(events, cuts):
    edges = [0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]
    chunks = [events[start:end] for start, end in pairwise(edges)]
    state, at_once = state_after(chunks), state_after([events])
    expected = oracle.in_flight(events)
    assert state.at_percents() == ({p: oracle.at_percent(expected, p) for p in PERCENTS} if expected else {})
    assert state.to_bytes() == at_once.to_bytes()
    assert InFlight.from_bytes(state.to_bytes()).to_bytes() == state.to_bytes()


def test_the_policies_count_every_event_with_a_time_but_early_ones():
    arrival = array([NOON, NOON, NOON + SECOND, NOON + 2 * SECOND])
    event = array([NOON - 60 * SECOND, NOON, NOON + 600 * SECOND, 0])
    valid = np.array([True, True, True, False])
    policies = Policies(late_ticks=5 * SECOND, drop=True)
    after = apply_policies(policies, Ingress(), arrival, event, valid=valid).ingress
    assert after.in_flight.at_percents([50, 100]) == {50: NOON, 100: NOON - 60 * SECOND}
    assert Ingress.from_bytes(after.to_bytes()).in_flight.to_bytes() == after.in_flight.to_bytes()


def test_events_stamped_with_their_arrival_have_no_spread():
    policies = Policies(application_time=False)
    after = apply_policies(policies, Ingress(), array([NOON])).ingress
    assert after.in_flight.at_percents() == {}


def test_a_damaged_sketch_is_refused():
    state = InFlight((1, 2), (TimeSketch.of(array([1, 2])), TimeSketch.of(array([-(10**17), 10**17]))))
    body = state.to_bytes()
    assert InFlight.from_bytes(body).to_bytes() == body
    for damaged in (body[:-8], b"\x05" + body[1:], body[:1] + b"\xff" * 8 + body[9:], body[:17] + body[9:]):
        with pytest.raises(ValueError, match=r"damaged|buffer"):
            InFlight.from_bytes(damaged)
    whole = Ingress(in_flight=state).to_bytes()
    with pytest.raises(StateError):
        Ingress.from_bytes(whole.replace(body, b"\x05" + body[1:]))
