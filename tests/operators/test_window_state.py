"""What windows read and write of their state: cost follows the batch and what closes, not what is open."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.window_rows import S, group_by, table, values_of
from tideglass.core.time import AFTER_ALL_TICKS
from tideglass.operators.progress import Progress
from tideglass.operators.state.store import MemoryState
from tideglass.operators.windows.aggregate import CHUNKS_TO_MERGE, WindowAggregate
from tideglass.plan.specs import AggregateSpec
from tideglass.plan.windows import Hopping, Session, Sliding, Snapshot, Window

COUNT = AggregateSpec("$a0", "count")


class CountingState(MemoryState):
    """Counts rows that pass between a kernel and its state."""

    def __init__(self) -> None:
        super().__init__()
        self.rows_read = self.rows_written = self.chunks_written = 0

    def append(self, bucket: int, chunk: pa.Table) -> None:
        self.rows_written += chunk.num_rows
        self.chunks_written += 1
        super().append(bucket, chunk)

    def read(self, bucket: int) -> list[pa.Table]:
        found = super().read(bucket)
        self.rows_read += sum(chunk.num_rows for chunk in found)
        return found

    def reset(self) -> None:
        self.rows_read = self.rows_written = self.chunks_written = 0


def batch(kernel: WindowAggregate, groups: range, at_ticks: int) -> pa.Table:
    return kernel.partial(table([{"$ts": at_ticks, "$k0": group} for group in groups]))


@pytest.mark.parametrize(
    "window",
    [
        Hopping(600 * S, 600 * S),
        Hopping(7 * 86_400 * S, 7 * 86_400 * S),
        Hopping(600 * S, 60 * S),
        Sliding(600 * S),
        Session(600 * S, 6000 * S),
    ],
)
@pytest.mark.parametrize("open_groups", [10, 5000])
def test_a_batch_that_closes_nothing_touches_nothing_that_is_open(window: Window, open_groups: int) -> None:
    kernel, state = group_by([window], ["$k0"], [COUNT]), CountingState()
    kernel.advance([batch(kernel, range(open_groups), 1000 * S)], Progress(1001 * S), state)
    state.reset()
    kernel.advance([batch(kernel, range(5), 1002 * S)], Progress(1002 * S), state)
    assert state.rows_read == 0
    assert state.rows_written == 5


@pytest.mark.parametrize("later_groups", [10, 5000])
def test_closing_a_window_reads_that_window_only(later_groups: int) -> None:
    kernel, state = group_by([Hopping(10 * S, 10 * S)], ["$k0"], [COUNT]), CountingState()
    kernel.advance([batch(kernel, range(7), 5 * S)], Progress(5 * S), state)
    kernel.advance([batch(kernel, range(later_groups), 15 * S)], Progress(5 * S), state)
    state.reset()
    assert kernel.advance([], Progress(10 * S + 1), state).num_rows == 7
    assert state.rows_read == 7
    assert state.rows_written == 0


def test_a_window_that_opens_and_closes_in_one_batch_is_never_written() -> None:
    for window in (
        Hopping(10 * S, 10 * S),
        Hopping(10 * S, 2 * S),
        Sliding(10 * S),
        Session(S, 10 * S),
        Snapshot(),
    ):
        kernel, state = group_by([window], ["$k0"], [COUNT]), CountingState()
        assert (
            kernel.advance([batch(kernel, range(9), 5 * S)], Progress(AFTER_ALL_TICKS), state).num_rows >= 9
        )
        assert state.rows_written == 0, window


def test_a_window_closes_when_the_watermark_is_past_its_end_and_not_before() -> None:
    kernel, state = group_by([Hopping(10 * S, 10 * S)], ["$k0"], [COUNT]), MemoryState()
    assert kernel.advance([batch(kernel, range(1), 10 * S)], Progress(10 * S), state).num_rows == 0
    assert kernel.advance([batch(kernel, range(1), 10 * S)], Progress(10 * S), state).num_rows == 0
    (closed,) = values_of(kernel.advance([], Progress(10 * S + 1), state))
    assert (closed["$ts"], closed["$a0"]) == (10 * S, 2)
    assert kernel.advance([], Progress(AFTER_ALL_TICKS), state).num_rows == 0


def test_many_small_chunks_of_a_bucket_are_merged_a_bounded_number_of_times() -> None:
    kernel, state = group_by([Hopping(600 * S, 600 * S)], ["$k0"], [COUNT]), CountingState()
    batches = 5 * CHUNKS_TO_MERGE
    for number in range(batches):
        kernel.advance([batch(kernel, range(4), (1 + number) * S)], Progress((1 + number) * S), state)
    (bucket,) = state.buckets()
    assert len(state.read(bucket)) <= CHUNKS_TO_MERGE
    assert state.rows_written <= 2 * 4 * batches
    (*_, closed) = values_of(kernel.advance([], Progress(AFTER_ALL_TICKS), state))
    assert closed["$a0"] == batches


def test_short_hops_in_a_long_window_do_not_make_a_chunk_each() -> None:
    kernel, state = group_by([Hopping(86_400 * S, S)], ["$k0"], [COUNT]), CountingState()
    rows = table([{"$ts": second * S, "$k0": 1} for second in range(0, 86_400, 10)])
    kernel.advance([kernel.partial(rows)], Progress(0), state)
    assert state.chunks_written <= 66


def test_a_slow_substream_does_not_keep_the_rows_of_the_others() -> None:
    kernel, state = group_by([Hopping(S, S)], ["$k0"], [COUNT], substreams=True), CountingState()
    names = [f"s{number}" for number in range(100)]
    ahead = pa.table({"substream": names[1:], "watermark_ticks": pa.array([50 * S] * 99, pa.int64())})
    rows = [{"$ts": S // 2, "$k0": name, "$substream": name} for name in names]
    assert kernel.advance([kernel.partial(table(rows))], Progress(0), state).num_rows == 0
    assert kernel.advance([], Progress(0, ahead), state).num_rows == 99
    assert sum(chunk.num_rows for bucket in state.buckets() for chunk in state.read(bucket)) == 1
    assert values_of(kernel.advance([], Progress(AFTER_ALL_TICKS), state))[0]["$k0"] == "s0"


def test_a_busy_endless_session_is_kept_as_one_partial_per_check() -> None:
    kernel = group_by([Session(10 * S, 100 * S)], ["$k0"], [COUNT], session_keys=[("$k0",)])
    state = MemoryState()
    for second in range(1, 150):
        kernel.advance([batch(kernel, range(3), second * S)], Progress(second * S), state)
    assert sum(chunk.num_rows for bucket in state.buckets() for chunk in state.read(bucket)) <= 120
    closed = values_of(kernel.advance([], Progress(AFTER_ALL_TICKS), state))
    assert [row["$a0"] for row in closed] == [149] * 3
