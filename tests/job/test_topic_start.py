"""From which offsets topics are read for an output time, and when a topic no longer holds what that needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.begun import Bench, no_broker
from tideglass.connect.dataframes.input import EVENTS_OF_A_MESSAGE
from tideglass.connect.files.input import FileInput
from tideglass.connect.kafka.topic import HeldPartition, TopicInput
from tideglass.connect.spec import InputSpec
from tideglass.core.errors import InputError, StateError
from tideglass.core.time import BEFORE_ALL_TICKS, TICKS_PER_MILLISECOND, TICKS_PER_SECOND
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.idle_periods import IdlePeriod
from tideglass.ingress.partition_time import Ingress
from tideglass.ingress.read_from import PartitionBegin
from tideglass.ingress.reports import PartitionReport, ReaderReport
from tideglass.ingress.scan import ScanState
from tideglass.job.options import JobPlan, RunOptions
from tideglass.job.plan import plan_job
from tideglass.job.progress.idle_journal import IdleJournal
from tideglass.job.progress.replay import ReplayState, write_replay_state
from tideglass.job.progress.topic_progress import TopicProgress
from tideglass.job.start.begin import RunSetup
from tideglass.job.start.begin import begin as begin_job
from tideglass.job.start.decision import StartMode
from tideglass.job.start.read_plan import READ_PLAN, ReadPlan
from tideglass.job.start.topics import Offsets, TopicLookup, begin_topics, input_begin
from tideglass.project.project import ProjectInput, load_project

TOLL = {"toll": TopicInput("toll", "b:9092", "toll-1")}
NOW_TICKS = 1000 * TICKS_PER_SECOND
NO_SILENCES = IdleJournal(Path("there is none"))
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
    began = begin_topics(TOLL, read_from_ticks, look, NOW_TICKS, NO_SILENCES, accept_partial=accept_partial)
    assert began.stop_offsets == {}
    return began.offsets


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

    begin_topics(TOLL, {"toll": from_ticks}, look, NOW_TICKS, NO_SILENCES, accept_partial=False)
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
    begun = ReadPlan(offsets=begin({0: WHOLE}))
    begun.save(tmp_path / "begun.json")
    assert ReadPlan.load(tmp_path / "begun.json") == begun


# ---------------------------------------------------------------- in a job


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "heat")


def job(
    bench: Bench,
    starting: str | None = "latest",
    options: Mapping[str, str] | None = None,
    more: Path | None = None,
    **chosen: Any,
) -> JobPlan:
    """The project's job, its input a topic that is to be followed from its end on.

    more: a folder of files beside it.
    """
    topic = TopicInput("sensor", "b:9092", "sensor-1", starting=starting, options=options or {})
    inputs = {"sensor": ProjectInput("sensor", "stream", "Kafka", live=topic)}
    if more is not None:
        inputs["more"] = ProjectInput("more", "stream", "local file", more, "json")
    project = replace(load_project(bench.folder), inputs=inputs)
    return plan_job(project, RunOptions(**{"live": True, "cores": 2, **chosen}))


def started(bench: Bench, look: TopicLookup = no_broker, **options: Any) -> RunSetup:
    return begin_job(job(bench, **options), bench.directory, look)


def answer(held: HeldPartition) -> TopicLookup:
    return lambda topic, from_ms: {0: held}


@pytest.mark.parametrize(
    ("starting", "offset"),
    [("latest", 90), ("earliest", 30), (None, 90), ('{"sensor-1":{"0":41}}', 41), ('{"s":{"0":-2}}', 30)],
)
def test_a_first_run_begins_as_the_project_says_with_the_partitions_there_are(
    bench: Bench, starting: str | None, offset: int
) -> None:
    held = HeldPartition(earliest=30, end=90, oldest_ms=60_000)
    begun = started(bench, answer(held), starting=starting).read_plan
    assert begun.offsets == {"sensor": {"0": offset}}
    there = {"0": PartitionBegin(0, (), offset * EVENTS_OF_A_MESSAGE)} if offset < 90 else {}
    assert begun.begins == {"sensor": there}
    assert not begun.reads_again


def test_where_options_of_the_connector_say_so_it_begins_there(bench: Bench) -> None:
    begun = started(bench, answer(WHOLE), options={"startingTimestamp": "7"}).read_plan
    assert begun.offsets == {}
    assert begun.begins == {"sensor": {"0": PartitionBegin(0, (), 0)}}


def test_one_that_is_asked_to_begins_at_the_beginning(bench: Bench) -> None:
    held = HeldPartition(earliest=30, end=90, oldest_ms=60_000)
    again = started(bench, answer(held), start_mode=StartMode.BEGINNING)
    assert again.read_plan.offsets == {"sensor": {"0": 30}}


def test_where_a_run_began_stays_where_it_was_for_those_that_go_on_with_it(bench: Bench) -> None:
    at = {"start_mode": StartMode.TIME, "start_at_ticks": 500 * TICKS_PER_SECOND}
    first = started(bench, answer(WHOLE), **at)
    assert first.read_plan.offsets == {"sensor": {"0": 40}}
    assert first.plan.read_from_ticks == {"sensor": (500 - 60 - 300) * TICKS_PER_SECOND}
    for mode in (None, StartMode.LAST_STOPPED):
        later = started(bench, start_mode=mode)
        assert later.plan.resume
        assert later.read_plan.offsets == first.read_plan.offsets
        assert later.plan.emit_from_ticks == first.plan.emit_from_ticks


def test_behind_a_stopped_run_a_changed_query_is_refused_and_without_a_run_there_is_nothing(
    bench: Bench,
) -> None:
    with pytest.raises(StateError, match="no run whose output could be gone on with"):
        started(bench, start_mode=StartMode.LAST_STOPPED)
    started(bench, answer(WHOLE))
    bench.query(OTHER)
    with pytest.raises(StateError, match="the state of the last run cannot be used"):
        started(bench, start_mode=StartMode.LAST_STOPPED)


# ---------------------------------------------------------------- behind a run that has stopped

BOTH = """
WITH both AS (
    SELECT readAt FROM sensor TIMESTAMP BY readAt UNION SELECT readAt FROM more TIMESTAMP BY readAt
)
SELECT COUNT(*) AS n INTO many FROM both GROUP BY TumblingWindow(second, 10)
"""
OTHER = "SELECT COUNT(*) AS n INTO many FROM sensor TIMESTAMP BY readAt GROUP BY TumblingWindow(second, 100)"


def leave(bench: Bench, offsets: Mapping[str, int], watermarks: Mapping[str, int], **words: Any) -> None:
    """What a run of generation 1 leaves that has read so far; watermarks in seconds."""
    reports = {
        partition: PartitionReport(
            "sensor", partition, readers=(ReaderReport(0, watermark_ticks=seconds * TICKS_PER_SECOND),)
        )
        for partition, seconds in watermarks.items()
    }
    TopicProgress(4, offsets={"sensor": offsets}, reports={"sensor": reports}, **words).save(
        bench.directory.generation(1)
    )


def answers(held: Mapping[int, HeldPartition], asked: list[int | None] | None = None) -> TopicLookup:
    def look(topic: TopicInput, from_ms: int | None) -> Mapping[int, HeldPartition]:
        if asked is not None:
            asked.append(from_ms)
        return held

    return look


def test_behind_a_stopped_run_of_another_query_its_messages_are_read_again_as_far_as_needed(
    bench: Bench,
) -> None:
    # The third partition appeared while the first run was under way, the fourth thereafter.
    first = answers({0: WHOLE, 1: WHOLE})
    started(bench, first, starting="earliest")
    leave(bench, {"0": 70, "1": 60, "2": 5}, {"0": 520, "1": 510, "2": 515})
    bench.query(OTHER)
    asked: list[int | None] = []
    held = {
        0: HeldPartition(earliest=0, end=90, oldest_ms=10_000, found=40),
        1: HeldPartition(earliest=0, end=60, oldest_ms=10_000),
        2: HeldPartition(earliest=0, end=90, oldest_ms=500_000, found=0),
        3: HeldPartition(earliest=0, end=9, oldest_ms=600_000, found=0),
    }
    again = started(bench, answers(held, asked))
    assert asked == [(510 - 100 - 300) * 1000]
    assert (again.plan.mode, again.plan.generation) == (StartMode.LAST_STOPPED, 2)
    assert again.start.began_from == "arrival time 1970-01-01T00:01:50Z"
    assert "the statement that writes to 'many' is another" in again.start.changes
    assert again.read_plan.offsets == {"sensor": {"0": 40, "1": 60, "2": 0, "3": 0}}
    assert again.read_plan.stop_offsets == {"sensor": {"0": 70, "1": 60, "2": 5}}
    assert again.read_plan.reads_again
    assert sorted(again.read_plan.begins["sensor"]) == ["0", "1"]
    begin = input_begin(again.read_plan, "sensor")
    assert begin.until == {"0": 70 * EVENTS_OF_A_MESSAGE, "2": 5 * EVENTS_OF_A_MESSAGE}


def test_nothing_is_read_again_that_the_stopped_run_had_not_read(bench: Bench) -> None:
    started(bench, answer(WHOLE))  # from 90 on
    leave(bench, {"0": 95}, {"0": 520})
    bench.query(OTHER)
    held = HeldPartition(earliest=50, end=120, oldest_ms=300_000, found=60)
    again = started(bench, answer(held))
    assert again.read_plan.offsets == {"sensor": {"0": 90}}
    assert again.read_plan.stop_offsets == {"sensor": {"0": 95}}


def test_without_a_watermark_all_the_stopped_run_had_read_is_read_again(bench: Bench) -> None:
    started(bench, answer(HeldPartition(earliest=0, end=20)))
    leave(bench, {"0": 95}, {})
    bench.query(OTHER)
    asked: list[int | None] = []
    again = started(bench, answers({0: WHOLE}, asked))
    assert asked == [None]
    assert again.read_plan.offsets == {"sensor": {"0": 20}}
    assert again.read_plan.after_ticks == BEFORE_ALL_TICKS


def test_messages_that_are_gone_are_missed_only_if_the_stopped_run_needs_or_had_not_read_them(
    bench: Bench,
) -> None:
    started(bench, answer(HeldPartition(earliest=0, end=20)))
    leave(bench, {"0": 95}, {"0": 520})
    bench.query(OTHER)
    before = bench.everything()
    gone = HeldPartition(earliest=97, end=120, oldest_ms=530_000, found=97)
    with pytest.raises(InputError, match=r"RANGE_NOT_RETAINED(?s:.*)needed is what arrived from .*00:02:00Z"):
        started(bench, answer(gone))
    assert bench.everything() == before
    partial = started(bench, answer(gone), accept_partial=True)
    assert partial.read_plan.offsets == {"sensor": {"0": 97}}
    assert not partial.read_plan.reads_again


def test_a_run_stopped_while_it_read_again_has_not_come_further_than_the_one_before(bench: Bench) -> None:
    started(bench, answer(HeldPartition(earliest=0, end=0)))
    leave(bench, {"0": 70}, {"0": 520})
    bench.query(OTHER)
    second = started(bench, answer(WHOLE))
    place = TopicProgress(1, False, {"sensor": {"0": 65}}, {"sensor": {}})
    place.save(bench.directory.generation(2))
    bench.query(OTHER.replace("100", "50"))
    third = started(bench, answer(WHOLE))
    assert third.read_plan.stop_offsets == second.read_plan.stop_offsets == {"sensor": {"0": 70}}
    assert third.read_plan.after_ticks == 520 * TICKS_PER_SECOND
    replace(place, replayed=True, offsets={"sensor": {"0": 80}}).save(bench.directory.generation(3))
    bench.query(OTHER)
    assert started(bench, answer(WHOLE)).read_plan.stop_offsets == {"sensor": {"0": 80}}


def test_files_beside_a_topic_are_gone_on_with_where_they_were_when_its_last_rows_were_given(
    bench: Bench,
) -> None:
    """Spark has planned one batch more; what it would have read of the files is not counted."""
    folder = bench.folder / "more"
    folder.mkdir()
    for number in range(3):
        line = json.dumps({"readAt": f"1970-01-01T00:08:{number:02}Z"}) + "\n"
        (folder / f"{number}.json").write_text(line * 5)
    bench.query(BOTH)
    files = FileInput(InputSpec(name="more", path=folder))
    every = files.latest({})["0"]
    started(bench, answer(WHOLE), starting="earliest", more=folder)
    leave(bench, {"0": 70}, {"0": 520})
    generation = bench.directory.generation(1)
    (generation / "checkpoint" / "offsets").mkdir()
    for batch, pieces in ((4, every[:2]), (5, every)):
        state = {"number": 0, "position": pieces, "since_ms": 0, "ended": False}
        own = {"batch": batch, "final": False, "inputs": {"more": {"0": state}}, "at_ms": 0}
        log = ["v1", "{}", json.dumps({"sensor-1": {"0": 70}}), "-", json.dumps(own)]
        (generation / "checkpoint" / "offsets" / str(batch)).write_text("\n".join(log))
    reached = ScanState({1: Ingress(event_watermark_ticks=505 * TICKS_PER_SECOND)})
    Snapshots(str(generation / "ingress")).save("more/0", 4, reached.to_bytes())

    bench.query(BOTH.replace("10)", "20)"))
    asked: list[int | None] = []
    again = started(bench, answers({0: WHOLE}, asked), more=folder)
    assert asked == [(505 - 20 - 300) * 1000], "the files are behind the topic"
    assert again.plan.mode is StartMode.LAST_STOPPED
    assert again.read_plan.recorded == {"more": {"0": every[:2]}}
    assert again.read_plan.stop_offsets == {"sensor": {"0": 70}}
    assert again.read_plan.after_ticks == 505 * TICKS_PER_SECOND
    assert again.read_plan.reads_again

    # Stopped while it read again, it has not come further; nor has one stopped before its first batch.
    bench.query(BOTH.replace("10)", "30)"))
    third = started(bench, answer(WHOLE), more=folder)
    assert (third.read_plan.recorded, third.read_plan.stop_offsets) == (
        again.read_plan.recorded,
        again.read_plan.stop_offsets,
    )
    TopicProgress(0, False, {"sensor": {"0": 60}}).save(bench.directory.generation(3))
    bench.query(BOTH.replace("10)", "40)"))
    fourth = started(bench, answer(WHOLE), more=folder)
    assert (fourth.read_plan.recorded, fourth.read_plan.stop_offsets) == (
        again.read_plan.recorded,
        again.read_plan.stop_offsets,
    )


def test_what_topics_have_told_to_their_end_is_not_gone_on_with(bench: Bench) -> None:
    started(bench, answer(WHOLE), once=True)
    leave(bench, {"0": 90}, {"0": 520})
    write_replay_state(bench.directory.generation(1), ReplayState.ENDING)
    bench.query(OTHER)
    with pytest.raises(StateError, match="cannot be used and it has read its inputs to their end"):
        started(bench, answer(WHOLE), once=True)


def test_silence_that_raised_events_is_reached_back_to(bench: Bench) -> None:
    started(bench, answer(HeldPartition(earliest=0, end=0)))
    leave(bench, {"0": 70}, {"0": 520})
    offset = 12 * EVENTS_OF_A_MESSAGE
    IdleJournal(bench.directory.idle_journal).take(
        PartitionReport("sensor", "0", next_offset=offset, quiet_until_ticks=515 * TICKS_PER_SECOND)
    )
    bench.query(OTHER)
    again = started(bench, answer(WHOLE))
    assert again.read_plan.offsets == {"sensor": {"0": 12}}
    (begin,) = again.read_plan.begins["sensor"].values()
    assert begin.idle_periods == (IdlePeriod(offset, 515 * TICKS_PER_SECOND),)


def test_nothing_is_written_when_the_range_is_gone(bench: Bench) -> None:
    before = bench.everything()
    gone = answer(HeldPartition(earliest=30, end=90, oldest_ms=450_000, found=30))
    at: dict[str, Any] = {"start_mode": StartMode.TIME, "start_at_ticks": 500 * TICKS_PER_SECOND}
    with pytest.raises(InputError, match="RANGE_NOT_RETAINED"):
        started(bench, gone, **at)
    assert bench.everything() == before
    partial = started(bench, gone, **at, accept_partial=True)
    assert partial.read_plan.offsets == {"sensor": {"0": 30}}
    assert ReadPlan.load(bench.directory.generation(1) / READ_PLAN).offsets == partial.read_plan.offsets
