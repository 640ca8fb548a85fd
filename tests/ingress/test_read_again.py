"""A run of streams that are not ours builds its state anew and gives what the run before it had not given."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from support.frames import SUBSTREAMS, TWO_INPUTS, Frames, Row, table
from support.times import at
from tideglass.core.time import BEFORE_ALL_TICKS, parse_ticks
from tideglass.ingress.idle_periods import first_reaching
from tideglass.ingress.read_from import InputBegin, PartitionBegin
from tideglass.ingress.reports import BatchReports
from tideglass.job.progress.idle_journal import IdleJournal
from tideglass.plan.read_back import read_backs

SPEC = {"arrival": "came", "partition": "p", "offset": "o"}
#: State of every kind: sessions, sliding and tumbling windows, a join, LAG, and rows that wait.
EVERYTHING = """
WITH w AS (SELECT d, COUNT(*) AS n FROM a TIMESTAMP BY t GROUP BY d, TumblingWindow(second, 4))
SELECT d, COUNT(*) AS n, SUM(v) AS s, System.Timestamp() AS at INTO sessions
FROM a TIMESTAMP BY t GROUP BY d, SessionWindow(second, 3, 9)
SELECT COUNT(*) AS n, System.Timestamp() AS at INTO sliding
FROM b TIMESTAMP BY t GROUP BY SlidingWindow(second, 5)
SELECT w.d, w.n, b.v, System.Timestamp() AS at INTO pairs
FROM w LEFT JOIN b TIMESTAMP BY t ON w.d = b.d AND DATEDIFF(second, w, b) BETWEEN -2 AND 3
SELECT v, LAG(v) OVER (PARTITION BY d LIMIT DURATION(second, 6)) AS before, System.Timestamp() AS at INTO lags
FROM b TIMESTAMP BY t
SELECT d, v, System.Timestamp() AS at INTO high FROM a TIMESTAMP BY t WHERE v > 5
"""
PARTITIONS = ("0", "1", "2")

#: Per input and partition, the events in order.
Queues = Mapping[str, Mapping[str, list[Row]]]


def queues_of(seed: int, count: int) -> Queues:
    """Events out of order and late, in partitions that are read at their own speed."""
    rng = random.Random(seed)
    queues: dict[str, dict[str, list[Row]]] = {name: {p: [] for p in PARTITIONS} for name in ("a", "b")}
    for n in range(count):
        name, partition = rng.choice("ab"), rng.choice(PARTITIONS)
        own = queues[name][partition]
        own.append(
            {
                "t": at(n - rng.choice((0, 0, 1, 2, 4, 9, -3))),
                "d": rng.choice("xyz"),
                "v": rng.randrange(10),
                "came": at(n + 0.25),
                "p": int(partition),
                "o": len(own),
            }
        )
    return queues


@dataclass
class Run:
    """A run that reads `queues` in batches of any size, each partition at its own speed."""

    queues: Queues
    frames: Frames
    rng: random.Random
    journal: IdleJournal
    read: dict[str, dict[str, int]] = field(default_factory=dict[str, Any])
    told: int = 0

    def __post_init__(self) -> None:
        for name in self.queues:
            self.read.setdefault(name, dict.fromkeys(PARTITIONS, 0))

    def batch(self, now_ms: int | None = None, most: int = 5, **words: bool) -> None:
        given: dict[str, list[Any]] = {}
        for name, queues in self.queues.items():
            rows: list[Row] = []
            for partition, queue in queues.items():
                first = self.read[name][partition]
                self.read[name][partition] = min(len(queue), first + self.rng.randint(0, most))
                rows += queue[first : self.read[name][partition]]
            self.rng.shuffle(rows)
            given[name] = [table(rows)] if rows else []
        self.frames.batch(given, now_ms, **words)
        for report in BatchReports.of(self.frames.messages[self.told :]).partitions:
            self.journal.take(report)
        self.told = len(self.frames.messages)

    def finish(self) -> None:
        while any(self.read[name][p] < len(q) for name, of in self.queues.items() for p, q in of.items()):
            self.batch(most=20)
        self.batch(final=True)

    def rows(self) -> dict[str, Counter[str]]:
        return {name: Counter(map(repr, rows)) for name, rows in self.frames.rows().items()}

    def watermark_ticks(self) -> int:
        """How far every partition of every input has come."""
        reached = {(name, p): BEFORE_ALL_TICKS for name in self.queues for p in PARTITIONS}
        for report in BatchReports.of(self.frames.messages).partitions:
            reached[report.input, report.partition] = report.watermark_ticks
        return min(reached.values())


def every_partition() -> dict[str, InputBegin]:
    known = {p: PartitionBegin(int(p)) for p in PARTITIONS}
    return {name: InputBegin(known) for name in ("a", "b")}


def begins_behind(stopped: Run, query: str) -> tuple[dict[str, InputBegin], dict[str, dict[str, int]]]:
    """Where a run begins that goes on with one that has stopped, and what it does not read."""
    compiled = Frames(query, SPEC).compiled
    backs = read_backs(compiled.plan, compiled.topology, after_watermark=True)
    ticks = stopped.watermark_ticks()
    begins: dict[str, InputBegin] = {}
    firsts: dict[str, dict[str, int]] = {}
    for name, queues in stopped.queues.items():
        needed = None if ticks == BEFORE_ALL_TICKS else backs[name].read_from_ticks(ticks)
        raised = None if ticks == BEFORE_ALL_TICKS else backs[name].raised_from_ticks(ticks)
        firsts[name] = {}
        for partition, queue in queues.items():
            arrivals = [parse_ticks(row["came"]) or 0 for row in queue]
            first = next((n for n, at in enumerate(arrivals) if needed is None or at >= needed), len(queue))
            seen = stopped.journal.of((name, partition))
            reaching = None if raised is None else first_reaching(seen, raised)
            first = min(first, len(queue) if reaching is None else reaching, stopped.read[name][partition])
            firsts[name][partition] = first
        begins[name] = InputBegin(
            {
                p: PartitionBegin(int(p), (), n, stopped.journal.of((name, p)))
                for p, n in firsts[name].items()
            },
            {p: stopped.read[name][p] for p, n in firsts[name].items() if n < stopped.read[name][p]},
        )
    return begins, firsts


@pytest.mark.parametrize(
    "query", [EVERYTHING, TWO_INPUTS, SUBSTREAMS], ids=["everything", "union", "substreams"]
)
@settings(max_examples=depth(5), deadline=None)
@given(
    seed=st.integers(0, 100_000),
    batches=st.integers(1, 7),
    waits=st.lists(st.sampled_from([0, 500, 3000, 9000]), max_size=4),
    key_groups=st.integers(1, 3),
)
def test_behind_a_stopped_run_come_the_rows_it_had_not_given_and_no_other(
    query: str,
    seed: int,
    batches: int,
    waits: list[int],
    key_groups: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    queues = queues_of(seed, 70)
    rng = random.Random(seed)
    first = Run(queues, Frames(query, SPEC, begins=every_partition()), rng, IdleJournal(folder / "first"))
    now_ms = 1_000_000
    for number in range(batches):
        now_ms += waits[number % len(waits)] if waits else 0
        first.batch(now_ms if waits else None)
    stopped_rows, stopped_read = first.rows(), {name: dict(of) for name, of in first.read.items()}
    begins, firsts = begins_behind(first, query)

    second = Run(
        queues,
        Frames(query, SPEC, begins=begins, key_groups=key_groups),
        rng,
        IdleJournal(folder / "second"),
        read={name: dict(of) for name, of in firsts.items()},
    )
    while any(second.read[name][p] < n for name, of in stopped_read.items() for p, n in of.items()):
        second.batch(now_ms, most=30)  # what it reads too far is kept
    second.batch(replayed=True)
    second.finish()
    first.finish()
    both = {name: stopped_rows[name] + rows for name, rows in second.rows().items()}
    assert both == first.rows()


def test_what_is_kept_of_a_partition_comes_before_what_follows_and_is_counted_once() -> None:
    query = "SELECT v INTO o FROM a TIMESTAMP BY t"
    row = {"d": "x", "p": 0}
    rows = [{**row, "v": n, "o": n, "t": at(n), "came": at(n)} for n in range(9)]
    begins = {"a": InputBegin({"0": PartitionBegin(0, (), 2)}, {"0": 4})}
    frames = Frames(query, SPEC, begins=begins)
    for first, last in ((2, 3), (3, 6), (6, 7)):
        frames.batch({"a": [table(rows[first:last])]}, now_ms=5_000_000)
        assert frames.rows()["o"] == []
    frames.batch({"a": [table([{**rows[0], "p": 1, "v": 77, "t": at(9), "came": at(9)}])]})
    frames.batch({"a": [table(rows[7:])]}, replayed=True)
    frames.batch({"a": []}, final=True)
    assert sorted(each["v"] for each in frames.rows()["o"]) == [2, 3, 4, 5, 6, 7, 8, 77]
    reports = BatchReports.of(frames.messages).partitions
    last_of = {report.partition: report.readers[0].counters for report in reports}
    assert last_of["0"].accepted == 7
