"""Topics and event hubs that the driver writes: messages, ids, refusals, and transactions under kills."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from topics import Message, create_topic, read

from support.hubs import HOST, Hubs, connection_string
from tideglass.connect.kafka import broker_client, hub_output, hub_writer
from tideglass.connect.kafka.hub_output import ROW_ID, HubOutput
from tideglass.connect.kafka.output import TopicOutput
from tideglass.connect.output import Batch
from tideglass.connect.refused_rows import RefusalKind, RowsRefused
from tideglass.core.errors import OutputError, OutputUnavailable
from tideglass.core.json_rows import table_of
from tideglass.project.event_hub import broker_options

JOB = "job-1"


@pytest.fixture(autouse=True)
def _namespace(hubs: Hubs, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in hubs.environment().items():
        monkeypatch.setenv(name, value)
    yield
    hub_output._writers.clear()


def topic(hubs: Hubs, partitions: int = 2) -> str:
    name = f"out-{uuid.uuid4().hex[:8]}"
    create_topic(hubs.address, name, partitions)
    return name


def hub(
    name: str, *, key: str | None = None, options: dict[str, str] | None = None, **words: Any
) -> HubOutput:
    signs_in = broker_options(HOST, {"SharedAccessPolicyName": "both"}, "${HUB_KEY}", "EventHub")
    of_topic = TopicOutput("out", f"{HOST}:9093", name, key=key, options=options or signs_in)
    return HubOutput(of_topic, **words)


def transactional(name: str, **words: Any) -> HubOutput:
    return hub(name, transactional=True, progress_topic=f"{name}-progress", **words)


def values(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [json.loads(each.value or b"") for each in messages]


def bag(rows: Sequence[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def test_a_row_is_a_message_with_its_key_its_properties_and_its_id(hubs: Hubs):
    name = topic(hubs)
    output = hub(name, key="plate", properties=("lane", "axles", "gone"))
    rows = [
        {"plate": "A", "lane": "left", "axles": 2, "toll": 1.5},
        {"plate": None, "lane": None, "axles": None, "toll": None},
    ]
    output.prepare()
    for _ in range(2):  # at least once: what is written again has the same ids
        output.publish(Batch(1, 0, JOB), [table_of(rows[:1]), table_of(rows[1:])])
    found = read(hubs.address, name)
    assert bag(values(found)) == bag([{"plate": "A", "toll": 1.5}, {"plate": None, "toll": None}] * 2)
    by_key = {each.key: each.headers for each in found}
    assert {key: value for key, value in by_key[b"A"].items() if key != ROW_ID} == {
        "lane": b"left",
        "axles": b"2",
    }
    assert set(by_key[None]) == {ROW_ID}
    assert sorted(Counter(each.headers[ROW_ID] for each in found).values()) == [2, 2]


def test_rows_a_hub_cannot_take_are_named_before_any_is_written(hubs: Hubs):
    name = topic(hubs)
    output = hub(name, key="k", properties=("p",), most_bytes=2000)
    good, large = {"k": "a", "p": 1, "v": "x"}, {"k": "a", "p": 1, "v": "x" * 2000}
    with pytest.raises(RowsRefused) as refused:
        output.publish(Batch(1, 0, JOB), [table_of([good]), table_of([good, large])])
    assert [(each.part, each.row, each.kind) for each in refused.value.rows] == [
        (1, 1, RefusalKind.RECORD_EXCEEDED_SIZE_LIMIT)
    ]
    with pytest.raises(RowsRefused) as refused:
        output.publish(Batch(1, 0, JOB), [table_of([{"k": "a", "p": {"x": 1}, "v": 1}])])
    assert refused.value.rows[0].kind is RefusalKind.TYPE_CONVERSION_ERROR
    with pytest.raises(RowsRefused) as refused:
        output.publish(Batch(1, 0, JOB), [table_of([{"p": 1}, {"p": 2}])])
    assert {each.kind for each in refused.value.rows} == {RefusalKind.REQUIRED_COLUMN_MISSING}
    assert len(refused.value.rows) == 2
    assert read(hubs.address, name) == []


@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_message_the_broker_finds_too_large_is_its_row(hubs: Hubs, is_transactional: bool):
    name = topic(hubs)
    make = transactional if is_transactional else hub
    output = make(name, most_bytes=1 << 23)  # the broker takes about a megabyte
    output.prepare()
    rows = [{"v": "x"}, {"v": "y" * (2 << 20)}]
    with pytest.raises(RowsRefused) as refused:
        output.publish(Batch(1, 0, JOB), [table_of(rows[:1]), table_of(rows[1:])])
    assert [(each.part, each.row) for each in refused.value.rows] == [(1, 0)]
    output.publish(Batch(1, 0, JOB), [table_of(rows[:1])])
    wanted = 1 if is_transactional else 2
    assert len(read(hubs.address, name)) in (1, wanted)


def test_an_application_of_entra_writes_a_hub(hubs: Hubs):
    name = topic(hubs)
    signs_in = broker_options(HOST, {"AuthenticationMode": "Msi"}, "", "EventHub")
    output = transactional(name, options=signs_in)
    output.prepare()
    output.publish(Batch(1, 0, JOB), [table_of([{"v": 1}])])
    assert values(read(hubs.address, name)) == [{"v": 1}]


def test_a_start_is_refused_for_a_wrong_key_and_a_missing_hub(hubs: Hubs, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(OutputError, match="the topic nowhere does not exist"):
        hub("nowhere").prepare()
    name = topic(hubs)
    monkeypatch.setattr(hub_writer, "WAIT_SECONDS", 5.0)
    monkeypatch.setenv("HUB_KEY", "another-key=")
    with pytest.raises(OutputError, match="refuses the credentials") as told:
        hub(name).prepare()
    assert "another-key=" not in str(told.value)
    assert not isinstance(told.value, OutputUnavailable)


def test_a_broker_that_does_not_answer_may_answer_later(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hub_writer, "WAIT_SECONDS", 1.0)
    monkeypatch.setenv("TIDEGLASS_ENDPOINTS", json.dumps({HOST: "sasl_plaintext://127.0.0.1:9"}))
    with pytest.raises(OutputUnavailable):
        hub("any").prepare()


class Died(BaseException):
    """The process was killed."""


class Mortal:
    """A producer whose process is killed before, or after, its nth call."""

    def __init__(self, producer: Any, at: int, after: bool) -> None:
        self._producer, self._at, self._after = producer, at, after
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        called = getattr(self._producer, name)
        if name not in ("init_transactions", "begin_transaction", "produce", "flush", "commit_transaction"):
            return called

        def call(*words: Any, **options: Any) -> Any:
            self.calls.append(name)
            dies = len(self.calls) == self._at
            if dies and not self._after:
                raise Died
            if name == "produce" and dies:
                called(*words, **options)
                self._producer.flush(5)  # the broker has it
                raise Died
            answer = called(*words, **options)
            if dies:
                raise Died
            return answer

        return call


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, bool], None]:
    """From now on every producer dies at that call; 0: none does."""
    made = hub_writer.HubWriter._made
    when = [0, False]

    def mortal(self: Any, more: Any) -> Any:
        return Mortal(made(self, more), *when)

    monkeypatch.setattr(hub_writer.HubWriter, "_made", mortal)

    def choose(at: int, after: bool) -> None:
        when[:] = [at, after]

    return choose


def restarted(output: HubOutput) -> None:
    """What a process that was killed leaves: no writers, and no word to the broker."""
    hub_output._writers.clear()
    output.prepare()


def part(batch: int, count: int = 3) -> pa.Table:
    return table_of([{"batch": batch, "n": n} for n in range(count)])


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, 9))
def test_a_run_killed_at_any_call_leaves_each_row_once_for_readers_of_committed_rows(
    hubs: Hubs, dying: Callable[[int, bool], None], at: int, after: bool
):
    name = topic(hubs)
    output = transactional(name)
    restarted(output)
    output.publish(Batch(1, 0, JOB), [part(0)])
    # 1 init, 2 begin, 3-5 messages, 6 flush, 7 the progress record, 8 commit
    hub_output._writers.clear()
    dying(at, after)
    with pytest.raises(Died):
        output.publish(Batch(1, 1, JOB), [part(1)])
    dying(0, False)
    restarted(output)
    for batch in (1, 1, 2):  # a batch that runs again, and the next
        output.publish(Batch(1, batch, JOB), [part(batch)])
    wanted = [{"batch": batch, "n": n} for batch in range(3) for n in range(3)]
    assert bag(values(read(hubs.address, name))) == bag(wanted)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 9), st.booleans(), st.integers(0, 1)),
        min_size=1,
        max_size=5,
    )
)
def test_any_kills_and_repeats_leave_the_rows_of_the_undisturbed_run(
    hubs: Hubs, dying: Callable[[int, bool], None], steps: list[tuple[int, int, bool, int]]
):
    name = topic(hubs)
    output = transactional(name)
    dying(0, False)
    restarted(output)
    wanted: list[dict[str, Any]] = []
    for batch, (count, at, after, again) in enumerate(steps):
        if at:
            hub_output._writers.clear()
            dying(at, after)
            try:
                output.publish(Batch(1, batch, JOB), [part(batch, count)])
            except Died:
                dying(0, False)
                restarted(output)
            dying(0, False)
        for _ in range(again + 1):
            output.publish(Batch(1, batch, JOB), [part(batch, count)])
        wanted += [{"batch": batch, "n": n} for n in range(count)]
    assert bag(values(read(hubs.address, name))) == bag(wanted)


def test_of_two_runs_of_a_job_the_later_writes_and_the_earlier_is_ended(hubs: Hubs):
    name = topic(hubs)
    output = transactional(name)
    restarted(output)
    output.publish(Batch(1, 0, JOB), [part(0)])
    earlier = dict(hub_output._writers)
    restarted(output)
    output.publish(Batch(1, 0, JOB), [part(0)])
    later = dict(hub_output._writers)
    hub_output._writers.clear()
    hub_output._writers.update(earlier)
    with pytest.raises(OutputError, match="another run of this job") as told:
        output.publish(Batch(1, 1, JOB), [part(1)])
    assert not isinstance(told.value, OutputUnavailable), "else it would try again, and end the other"
    hub_output._writers.update(later)
    output.publish(Batch(1, 1, JOB), [part(1)])
    assert len(read(hubs.address, name)) == 6


def test_another_job_and_a_new_generation_write_batches_of_the_same_numbers(hubs: Hubs):
    name = topic(hubs)
    output = transactional(name)
    restarted(output)
    for batch in (Batch(1, 5, JOB), Batch(2, 0, JOB), Batch(1, 0, "job-2"), Batch(2, 0, JOB)):
        output.publish(batch, [table_of([{"at": f"{batch.job_id} {batch.generation} {batch.number}"}])])
    found = sorted(row["at"] for row in values(read(hubs.address, name)))
    assert found == ["job-1 1 5", "job-1 2 0", "job-2 1 0"]


def test_an_open_transaction_of_another_writer_is_waited_for(hubs: Hubs, monkeypatch: pytest.MonkeyPatch):
    name = topic(hubs)
    output = transactional(name)
    restarted(output)
    output.publish(Batch(1, 0, JOB), [part(0)])
    options, _ = output._settings()
    other: Any = broker_client.kafka_library().Producer({**options, "transactional.id": f"{name}-other"})
    other.init_transactions(10)
    other.begin_transaction()
    other.produce(output.progress_topic, b"{}", b"other")
    other.flush(10)
    hub_output._writers.clear()
    monkeypatch.setattr(hub_writer, "WAIT_SECONDS", 1.0)
    with pytest.raises(OutputUnavailable, match="another writer is open"):
        output.publish(Batch(1, 0, JOB), [part(0)])
    monkeypatch.undo()
    other.abort_transaction(10)
    for key, value in hubs.environment().items():
        monkeypatch.setenv(key, value)
    output.publish(Batch(1, 0, JOB), [part(0)])
    assert len(read(hubs.address, name)) == 3


def test_the_password_is_that_of_the_connection_string(hubs: Hubs):
    options, place = hub("t")._settings()
    assert (options["sasl.username"], options["sasl.password"], place) == (
        "$ConnectionString",
        connection_string(),
        "t",
    )
