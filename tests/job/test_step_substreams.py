"""The slowest and the fastest substreams of an operator are those of all its key groups together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tideglass.engine.substream_watermarks import SubstreamsAhead, SubstreamWatermark
from tideglass.job.report.step_substreams import slowest_and_fastest
from tideglass.operators.progress import Progress, partition_name


def progress(watermark: int, ticks: dict[str, int]) -> Progress:
    names = [*ticks, partition_name(0)]
    values = np.array([*ticks.values(), watermark + 7], dtype=np.int64)
    return Progress(watermark, pa.table({"substream": pa.array(names), "watermark_ticks": pa.array(values)}))


def test_what_stands_for_a_whole_partition_and_what_is_not_ahead_is_no_substream_ahead():
    found = SubstreamsAhead.of(progress(5, {"0/s1:/": 9, "0/i7,": 5, "0/i8,": 6}))
    ahead = (SubstreamWatermark("0/i8,", 6), SubstreamWatermark("0/s1:/", 9))
    assert found == SubstreamsAhead(2, ahead, ahead[::-1])
    assert SubstreamsAhead.of(Progress(5)) == SubstreamsAhead()


@given(st.integers(1, 60), st.integers(1, 4), st.randoms(use_true_random=False))
def test_the_slowest_are_exact_and_the_fastest_have_their_own_watermark(devices, key_groups, random):
    names = [f"0/i{n}," for n in range(devices)]
    input_ticks = {name: random.randrange(100, 200) for name in names}
    held = {
        name: (random.randrange(key_groups), random.randrange(50)) for name in names if random.random() < 0.5
    }
    groups = {
        number: {
            name: ticks - held[name][1] if held.get(name, (-1, 0))[0] == number else ticks
            for name, ticks in input_ticks.items()
        }
        for number in range(key_groups)
    }
    own = {name: min(group[name] for group in groups.values()) for name in names}
    ahead = {number: SubstreamsAhead.of(progress(0, group)) for number, group in groups.items()}
    found = list(slowest_and_fastest(3, ahead))
    shown = [(each.watermark_ticks, int(each.name)) for each in found]
    slowest = sorted(own[name] for name in names)[:20]
    assert [ticks for ticks, _ in shown[: len(slowest)]] == slowest
    assert all(
        ticks == own[f"0/i{n},"] == groups[each.key_group][f"0/i{n},"]
        for each, (ticks, n) in zip(found, shown, strict=True)
    )
    assert len(set(shown)) == len(shown) <= 25
    if not held:
        assert (
            sorted(ticks for ticks, _ in shown) == sorted(own.values())[:20] + sorted(own.values())[20:][-5:]
        )
