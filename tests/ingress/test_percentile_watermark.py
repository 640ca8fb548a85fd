"""The watermark at a percentile that each event meets, against the oracle's, at every cut."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from oracle import watermarks as oracle
from support.against_oracle import reproducible
from support.depth import depth
from tideglass.core.time import BEFORE_ALL_TICKS, TICKS_PER_SECOND
from tideglass.ingress.in_flight import Arrivals
from tideglass.ingress.partition_time import Ingress
from tideglass.ingress.percentile_watermark import watermark_at_percentile, watermarks_at_percents
from tideglass.ingress.policies import apply_policies
from tideglass.plan.policy_settings import Policies, SourceKind

SECOND = TICKS_PER_SECOND
NOON = 17_672_256_000_000_000


@st.composite
def dense(draw):
    """Events in arrival order, mostly about ten in ten seconds; some without a time that counts."""
    seed, n, mean = (
        draw(st.integers(0, 10**6)),
        draw(st.integers(1, 60)),
        draw(st.sampled_from([0.4, 0.9, 2])),
    )
    random = np.random.default_rng(seed)
    arrival = NOON + np.cumsum(random.choice([0, 0.5, 1, 1, 2.5], n) * mean * SECOND).astype(np.int64)
    time = arrival - (random.choice([0, 0, 1, 2, 5, 9, 60], n) * SECOND).astype(np.int64)
    return [(None if random.random() < 0.05 else int(t), int(a)) for t, a in zip(time, arrival, strict=True)]


def arrivals_of(events) -> Arrivals:
    return Arrivals(
        np.array([at for _, at in events], dtype=np.int64),
        np.array([at if time is None else time for time, at in events], dtype=np.int64),
        np.array([time is not None for time, _ in events], dtype=bool),
    )


@given(dense(), st.sampled_from([1, 33, 66, 95, 100]), st.lists(st.integers(0, 60), max_size=5))
@examples(reproducible, max_examples=depth(600))
def test_every_event_meets_the_oracles_watermark_at_any_cut(events, percent, cuts):
    policies = Policies(source=SourceKind.TRACKING, percentile=percent, early_ticks=None)
    edges = [0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]
    ingress, met = Ingress(), []
    for start, end in pairwise(edges):
        chunk = arrivals_of(events[start:end])
        if start < end:
            met += watermark_at_percentile(percent, ingress, chunk).tolist()
        after = apply_policies(
            policies, ingress, chunk.arrival_time_ticks, chunk.event_time_ticks, valid=chunk.usable
        ).ingress
        ingress = Ingress.from_bytes(after.to_bytes())
        assert after.percentile_watermark_ticks == (met[-1] if met else BEFORE_ALL_TICKS)
    expected = [oracle.at_percentile(events[: n + 1], percent) for n in range(len(events))]
    assert met == [max(ticks, BEFORE_ALL_TICKS) for ticks in expected]


@pytest.mark.parametrize("percents", [(33, 66, 100), (1, 50)])
def test_several_percentages_at_once_are_each_alone(percents):
    rng = np.random.default_rng(7)
    arrival = NOON + np.sort(rng.integers(0, 120, 2000)) * SECOND
    chunk = Arrivals(arrival, arrival - rng.integers(0, 90, 2000) * SECOND, np.ones(2000, dtype=bool))
    none = Ingress()
    together = watermarks_at_percents(
        percents, [BEFORE_ALL_TICKS] * len(percents), none.in_flight, none.last_arrival_ticks, chunk
    )
    alone = [watermark_at_percentile(percent, none, chunk) for percent in percents]
    assert together.tolist() == [each.tolist() for each in alone]
    assert (np.diff(together, axis=1) >= 0).all()


@pytest.mark.parametrize("cut", [0, 700, 1500])
@pytest.mark.parametrize("step", [SECOND, 1])
def test_seconds_of_many_events_among_those_of_few_meet_the_oracles_watermark(cut, step):
    rng = np.random.default_rng(cut)
    seconds = np.sort(np.append(rng.integers(0, 8, 1800), rng.integers(8, 30, 200)))
    times = NOON - rng.integers(0, 90_000_000 // step, 2000) * step
    events = list(zip(times.tolist(), (NOON + seconds * SECOND).tolist(), strict=True))
    policies = Policies(source=SourceKind.TRACKING, percentile=60)
    first = arrivals_of(events[:cut])
    before = apply_policies(policies, Ingress(), first.arrival_time_ticks, first.event_time_ticks).ingress
    met = watermark_at_percentile(60, before, arrivals_of(events[cut:]))
    starts = [n for n in range(cut, 2000) if n == cut or seconds[n] != seconds[n - 1]]
    expected = [max(oracle.at_percentile(events[: n + 1], 60), BEFORE_ALL_TICKS) for n in starts]
    assert met[np.array(starts) - cut].tolist() == expected
