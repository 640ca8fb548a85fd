"""From which offsets topics are read for an output time, and when a topic no longer holds what that needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_beginning import Bench, no_broker

from tideglass.connect.topics import HeldPartition, TopicInput
from tideglass.core.errors import InputError, StateError
from tideglass.core.time import TICKS_PER_MILLISECOND, TICKS_PER_SECOND
from tideglass.job.beginning import Beginning
from tideglass.job.beginning import begin as begin_job
from tideglass.job.options import Job, RunOptions
from tideglass.job.project import ProjectInput, load_project
from tideglass.job.replay import BEGUN, Begun
from tideglass.job.runner import plan_job
from tideglass.job.start import StartMode
from tideglass.job.topic_start import Look, Offsets, begin_topics

TOLL = {"toll": TopicInput("toll", "b:9092", "toll-1")}
NOW_TICKS = 1000 * TICKS_PER_SECOND
WHOLE = HeldPartition(earliest=0, end=90, oldest_ms=10_000, found=40)


def begin(
    held: Mapping[int, HeldPartition],
    from_ticks: int | None = 50 * TICKS_PER_SECOND,
    *,
    accept_partial: bool = False,
) -> Offsets:
    def look(topic: TopicInput, from_ms: int | None) -> Mapping[int, HeldPartition]:
        return held

    read_from_ticks = {} if from_ticks is None else {"toll": from_ticks}
    return begin_topics(TOLL, read_from_ticks, look, NOW_TICKS, accept_partial=accept_partial)


def test_each_partition_begins_with_its_first_message_of_the_time_or_behind_its_last() -> None:
    older = HeldPartition(earliest=0, end=7, oldest_ms=10_000)
    never = HeldPartition(earliest=0, end=0)
    assert begin({0: WHOLE, 10: older, 2: never}) == {"toll": {"0": 40, "2": 0, "10": 7}}


def test_without_a_time_all_there_is_is_read() -> None:
    assert begin({0: WHOLE}, None) == {"toll": {"0": 0}}


@pytest.mark.parametrize(("from_ticks", "asked_ms"), [(15_000_001, 1500), (15_009_999, 1500), (-5, 0)])
def test_the_broker_is_asked_for_the_millisecond_the_time_lies_in(from_ticks: int, asked_ms: int) -> None:
    asked: list[int | None] = []

    def look(topic: TopicInput, from_ms: int | None) -> Mapping[int, HeldPartition]:
        asked.append(from_ms)
        return {0: WHOLE}

    begin_topics(TOLL, {"toll": from_ticks}, look, NOW_TICKS, accept_partial=False)
    assert asked == [asked_ms]


def test_a_topic_that_no_longer_holds_the_range_is_named_with_what_it_holds() -> None:
    held = {
        0: WHOLE,
        1: HeldPartition(earliest=30, end=90, oldest_ms=60_000, found=30),
        2: HeldPartition(earliest=30, end=30),
    }
    with pytest.raises(InputError) as raised:
        begin(held)
    assert str(raised.value) == (
        "[RANGE_NOT_RETAINED] the first windows would lack events:\n"
        "  input 'toll', partition 1: needed is what arrived from 1970-01-01T00:00:50Z on, there is what "
        "arrived from 1970-01-01T00:01:00Z; topic 'toll-1' holds nothing before offset 30\n"
        "  input 'toll', partition 2: needed is what arrived from 1970-01-01T00:00:50Z on, there is nothing; "
        "topic 'toll-1' holds nothing before offset 30\n"
        "  hint: start at a later time with --start TIME, or take what is there with --accept-partial"
    )
    assert begin(held, accept_partial=True) == {"toll": {"0": 40, "1": 30, "2": 30}}


@pytest.mark.parametrize(
    ("oldest_ms", "from_ticks", "held"),
    [
        (49_999, 50 * TICKS_PER_SECOND, True),
        (50_000, 50 * TICKS_PER_SECOND, False),  # the one before it may bear the same stamp
        (10_000, None, False),
        (None, NOW_TICKS - TICKS_PER_MILLISECOND, False),
        (None, NOW_TICKS, True),  # what is gone has come before now
    ],
)
def test_what_is_gone_is_missed_where_it_may_have_been_stamped_late_enough(
    oldest_ms: int | None, from_ticks: int | None, held: bool
) -> None:
    partition = HeldPartition(earliest=30, end=90, oldest_ms=oldest_ms, found=60)
    if held:
        assert begin({0: partition}, from_ticks) == {"toll": {"0": 60}}
    else:
        with pytest.raises(InputError, match="RANGE_NOT_RETAINED"):
            begin({0: partition}, from_ticks)


def test_the_offsets_outlive_the_process(tmp_path: Path) -> None:
    begun = Begun(offsets=begin({0: WHOLE}))
    begun.save(tmp_path / "begun.json")
    assert Begun.load(tmp_path / "begun.json") == begun


# ---------------------------------------------------------------- in a job


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "heat")


def job(bench: Bench, **options: Any) -> Job:
    """The project's job, its input a topic that is to be followed from its end on."""
    topic = TopicInput("sensor", "b:9092", "sensor-1", starting="latest")
    project = replace(
        load_project(bench.folder), inputs={"sensor": ProjectInput("sensor", "stream", "Kafka", topic=topic)}
    )
    return plan_job(project, RunOptions(live=True, cores=2, **options))


def started(bench: Bench, look: Look = no_broker, **options: Any) -> Beginning:
    return begin_job(job(bench, **options), bench.directory, look)


def answer(held: HeldPartition) -> Look:
    return lambda topic, from_ms: {0: held}


def test_a_first_run_begins_as_the_project_says_and_one_that_is_asked_to_at_the_beginning(
    bench: Bench,
) -> None:
    assert started(bench).begun.offsets == {}
    held = HeldPartition(earliest=30, end=90, oldest_ms=60_000)
    again = started(bench, answer(held), start_mode=StartMode.BEGINNING)
    assert again.begun.offsets == {"sensor": {"0": 30}}


def test_where_a_run_began_stays_where_it_was_for_those_that_go_on_with_it(bench: Bench) -> None:
    at = {"start_mode": StartMode.TIME, "start_at_ticks": 500 * TICKS_PER_SECOND}
    first = started(bench, answer(WHOLE), **at)
    assert first.begun.offsets == {"sensor": {"0": 40}}
    assert first.plan.read_from_ticks == {"sensor": (500 - 60 - 300) * TICKS_PER_SECOND}
    for mode in (None, StartMode.LAST_STOPPED):
        later = started(bench, start_mode=mode)
        assert later.plan.resume
        assert later.begun.offsets == first.begun.offsets
        assert later.plan.emit_from_ticks == first.plan.emit_from_ticks


def test_behind_a_stopped_run_a_changed_query_is_refused_and_without_a_run_there_is_nothing(
    bench: Bench,
) -> None:
    with pytest.raises(StateError, match="no run whose output could be gone on with"):
        started(bench, start_mode=StartMode.LAST_STOPPED)
    started(bench)
    bench.query(
        "SELECT COUNT(*) AS n INTO many FROM sensor TIMESTAMP BY readAt GROUP BY TumblingWindow(s, 1)"
    )
    with pytest.raises(StateError, match="the state of the last run cannot be used"):
        started(bench, start_mode=StartMode.LAST_STOPPED)


def test_nothing_is_written_when_the_range_is_gone(bench: Bench) -> None:
    before = bench.everything()
    gone = answer(HeldPartition(earliest=30, end=90, oldest_ms=450_000, found=30))
    at: dict[str, Any] = {"start_mode": StartMode.TIME, "start_at_ticks": 500 * TICKS_PER_SECOND}
    with pytest.raises(InputError, match="RANGE_NOT_RETAINED"):
        started(bench, gone, **at)
    assert bench.everything() == before
    partial = started(bench, gone, **at, accept_partial=True)
    assert partial.begun.offsets == {"sensor": {"0": 30}}
    assert Begun.load(bench.directory.generation(1) / BEGUN) == partial.begun
