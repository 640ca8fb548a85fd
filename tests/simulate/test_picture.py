"""The pictures: what is in them, for the smallest and the largest simulation; labels do not collide."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from tideglass.core.errors import OutputError
from tideglass.core.time import BEFORE_ALL_TICKS, LAST_TICKS, ORIGIN_TICKS, TICKS_PER_DAY, TICKS_PER_MINUTE
from tideglass.simulate.picture.labels import Obstacle, arrange, overlap
from tideglass.simulate.picture.skew import draw
from tideglass.simulate.picture.watermarks import WatermarkSeries, draw_watermarks, merge
from tideglass.simulate.simulation import EXAMPLE, EXAMPLE_POLICIES, SimulatedEvent, simulate

pytestmark = pytest.mark.long

MINUTE = TICKS_PER_MINUTE


def texts(path):
    """The words of an SVG; its text is kept as text."""
    return [
        ("".join(e.itertext())).strip() for e in ElementTree.parse(path).iter() if e.tag.endswith("}text")
    ]


def events(count, span_ticks, seed=1):
    random = np.random.default_rng(seed)
    arrival = np.sort(random.integers(0, span_ticks, count))
    event = arrival - random.exponential(3 * MINUTE, count).astype(np.int64) + 2 * MINUTE
    return [
        SimulatedEvent(str(i), int(e), int(a)) for i, (e, a) in enumerate(zip(event, arrival, strict=True))
    ]


def test_the_example_is_drawn_with_every_event_labelled_and_a_full_legend(tmp_path):
    draw(simulate(EXAMPLE, EXAMPLE_POLICIES), tmp_path / "a.svg", title="Twelve events")
    words = texts(tmp_path / "a.svg")
    assert [w for w in words if w.startswith("#")] == [f"#{e.label}" for e in EXAMPLE]
    assert {"Twelve events", "event time", "arrival time", "8 as is, 3 adjusted, 1 dropped"} <= set(words)
    legend = {"watermark W", "late", "too early", "out-of-order tolerance", "as is", "dropped, early"}
    assert legend | {"late, raised to the late limit", "out of order, raised to W"} <= set(words)
    assert any(re.fullmatch(r"12:\d\d", w) for w in words)


def test_substreams_have_a_watermark_line_each(tmp_path):
    draw(simulate(EXAMPLE, EXAMPLE_POLICIES, substreams=True), tmp_path / "a.svg")
    assert {"W of device1", "W of device2", "W of device3"} <= set(texts(tmp_path / "a.svg"))


def test_many_substreams_share_the_line_of_their_floor(tmp_path):
    many = [SimulatedEvent(str(i), i * MINUTE, i * MINUTE, f"key {i}") for i in range(30)]
    draw(simulate(many, EXAMPLE_POLICIES, substreams=True), tmp_path / "a.svg")
    assert "floor of W for all 30 keys" in texts(tmp_path / "a.svg")


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_same_simulation_gives_the_same_bytes(tmp_path, suffix):
    for name in ("a", "b"):
        draw(simulate(EXAMPLE, EXAMPLE_POLICIES), tmp_path / f"{name}.{suffix}")
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


@pytest.mark.parametrize(
    ("some", "policies"),
    [
        ([], EXAMPLE_POLICIES),
        (EXAMPLE[:1], EXAMPLE_POLICIES),
        (EXAMPLE, replace(EXAMPLE_POLICIES, application_time=False)),
        (EXAMPLE, replace(EXAMPLE_POLICIES, drop=True)),
        (EXAMPLE, replace(EXAMPLE_POLICIES, late_ticks=None, early_ticks=None)),
        ([SimulatedEvent("1", None, 0)], EXAMPLE_POLICIES),
        ([SimulatedEvent("1", 0, 0), SimulatedEvent("2", ORIGIN_TICKS, 1)], EXAMPLE_POLICIES),
        ([SimulatedEvent("1", 0, 0), SimulatedEvent("2", LAST_TICKS, 1)], EXAMPLE_POLICIES),
        ([SimulatedEvent("1", ORIGIN_TICKS, ORIGIN_TICKS)], EXAMPLE_POLICIES),
        ([SimulatedEvent("1", LAST_TICKS, LAST_TICKS)], EXAMPLE_POLICIES),
        (
            [SimulatedEvent("1", ORIGIN_TICKS, 0), SimulatedEvent("2", LAST_TICKS, 1)],
            replace(EXAMPLE_POLICIES, late_ticks=None, early_ticks=None),
        ),
    ],
)
@pytest.mark.filterwarnings("error")
def test_the_smallest_and_strangest_simulations_can_be_drawn(tmp_path, some, policies):
    for substreams in (False, True) if policies.application_time else (False,):
        draw(simulate(some, policies, substreams), tmp_path / "a.png")
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_large_simulation_is_thinned_out_and_says_so(tmp_path):
    simulation = simulate(events(60_000, TICKS_PER_DAY), EXAMPLE_POLICIES)
    draw(simulation, tmp_path / "a.svg")
    told = next(w for w in texts(tmp_path / "a.svg") if w.startswith("shown:"))
    counters = simulation.counters
    assert f"4,000 of {counters.accepted:,} as is" in told
    assert f"of {counters.adjusted:,} adjusted" in told
    assert (tmp_path / "a.svg").stat().st_size < 3_000_000


def test_a_span_much_longer_than_the_skew_is_sheared(tmp_path):
    draw(simulate(events(500, 20 * TICKS_PER_DAY), EXAMPLE_POLICIES), tmp_path / "a.svg")
    assert "event time − arrival time (minutes)" in texts(tmp_path / "a.svg")
    draw(simulate(events(500, TICKS_PER_DAY // 24), EXAMPLE_POLICIES), tmp_path / "b.svg")
    assert "event time" in texts(tmp_path / "b.svg")


def test_an_event_from_far_away_is_marked_at_the_edge(tmp_path):
    far = [
        *EXAMPLE,
        SimulatedEvent("13", EXAMPLE[0].event_time_ticks - TICKS_PER_DAY, EXAMPLE[-1].arrival_time_ticks),
    ]
    draw(simulate(far, EXAMPLE_POLICIES), tmp_path / "a.svg")
    assert any("1 far ones at the edge" in w for w in texts(tmp_path / "a.svg"))


def test_another_suffix_is_refused_before_anything_is_written(tmp_path):
    for write in (lambda p: draw(simulate(EXAMPLE, EXAMPLE_POLICIES), p), lambda p: draw_watermarks({}, p)):
        with pytest.raises(OutputError, match=r"a\.pdf: a picture is written as \.svg or \.png"):
            write(tmp_path / "a.pdf")
    assert list(tmp_path.iterdir()) == []


def test_labels_keep_clear_of_each_other_and_of_marks():
    marks = [(100.0 + 4 * i, 100.0 + 3 * i) for i in range(8)]
    obstacles = [Obstacle((x - 5, y - 5, x + 5, y + 5), 8.0) for x, y in marks]
    centres = arrange(marks, [18.0] * 8, 10.0, obstacles, (0, 0, 300, 300))
    boxes = [(x - 9, y - 5, x + 9, y + 5) for x, y in centres]
    for i, box in enumerate(boxes):
        assert not any(overlap(box, other) for other in boxes[:i])
    assert not any(overlap(boxes[0], o.box) for o in obstacles[:1])


def test_a_label_stays_inside_the_frame():
    ((x, y),) = arrange([(98.0, 98.0)], [18.0], 10.0, [], (0, 0, 100, 100))
    assert x + 9 <= 100
    assert y + 5 <= 100


def series(at, watermark):
    ticks = [np.array(values, dtype=np.int64) for values in (at, at, watermark)]
    return WatermarkSeries(*ticks)


def test_the_merged_watermark_is_the_minimum_and_waits_for_every_partition():
    at, least = merge({"a": series([0, 10, 20], [0, 5, 15]), "b": series([10, 30], [BEFORE_ALL_TICKS, 7])})
    assert at.tolist() == [0, 10, 20, 30]
    assert least.tolist() == [BEFORE_ALL_TICKS, BEFORE_ALL_TICKS, BEFORE_ALL_TICKS, 7]


@pytest.mark.filterwarnings("error")
def test_watermarks_are_drawn_by_partition_with_their_delay(tmp_path):
    at = np.arange(0, 60 * MINUTE, MINUTE)
    drawn = {name: series(at, at - lag * MINUTE) for lag, name in enumerate(("EWR", "JFK", "LGA"), 1)}
    draw_watermarks(drawn, tmp_path / "a.svg", title="Three airports")
    words = set(texts(tmp_path / "a.svg"))
    assert {"watermark of EWR", "watermark of JFK", "watermark of LGA", "merged: minimum over all 3"} <= words
    assert {"Three airports", "watermark delay (minutes)", "arrival time"} <= words


@pytest.mark.filterwarnings("error")
def test_watermark_pictures_of_nothing_or_not_yet_anything_can_be_drawn(tmp_path):
    for some in ({}, {"a": series([], [])}, {"a": series([5], [BEFORE_ALL_TICKS])}, {"a": series([5], [5])}):
        draw_watermarks(some, tmp_path / "a.svg")
        assert (tmp_path / "a.svg").exists()


def test_matplotlib_is_not_imported_until_a_picture_is_drawn():
    code = "import sys, tideglass.simulate.picture.skew; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
