"""What is measured: every scenario with its query, its data, who takes part and the bars to reach."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from agreement import Agreement
from data import OWNERS, Data

#: rate: events/s over the other's. cost: seconds over the other's. memory: peak over the other's.
#: batch: seconds of the median batch. evenness: seconds of the median batch over the other's.
Kind = Literal["rate", "cost", "memory", "batch", "evenness"]


@dataclass(frozen=True, slots=True)
class Bar:
    """What the first entrant of a scenario must reach; `against` names another entrant of it."""

    kind: Kind
    limit: float
    against: str = ""

    @property
    def text(self) -> str:
        match self.kind:
            case "rate":
                return f"≥ {self.limit:g} × the rate of {self.against}"
            case "cost":
                return f"≤ {self.limit:g} × the seconds of {self.against}"
            case "memory":
                return f"peak memory ≤ that of {self.against}"
            case "batch":
                return f"median batch < {self.limit:g} s"
            case "evenness":
                return f"median batch within {self.limit:.0%} of that of {self.against}"

    def reached(self, value: float) -> bool:
        """Whether the figure of this kind (a ratio; seconds for `batch`) is good enough."""
        match self.kind:
            case "rate":
                return value >= self.limit
            case "cost" | "memory":
                return value <= self.limit
            case "batch":
                return value < self.limit
            case "evenness":
                return abs(value - 1) <= self.limit


@dataclass(frozen=True, slots=True)
class Entrant:
    """A program that takes part. query: its own one where entrants of a scenario differ by it.

    merged: it reads the events of two booths from one file (see data.py). topic: it reads them from a topic
    (see kafka_input.py). rows: format of what it writes.
    """

    name: str
    program: str
    arguments: tuple[str, ...] = ()
    query: str | None = None
    merged: bool = False
    topic: bool = False
    rows: Literal["parquet", "csv"] = "parquet"
    python: Literal["ours", "flink"] = "ours"


@dataclass(frozen=True, slots=True)
class BatchWindow:
    """Scenarios about batches: one run, cut into batches of `events`; the first `skipped` are not counted."""

    events: int
    skipped: int
    counted: int

    @property
    def total_events(self) -> int:
        return self.events * (self.skipped + self.counted + 1)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One table of the report. The first entrant is ours; left_out: which rival is missing, and why."""

    name: str
    title: str
    query: str
    data: Data
    entrants: tuple[Entrant, ...]
    agreement: Agreement
    bars: tuple[Bar, ...] = ()
    batches: BatchWindow | None = None
    left_out: str = ""

    def query_of(self, entrant: Entrant) -> str:
        return entrant.query or self.query


OURS = Entrant("tideglass", "tideglass_run.py")
SPARK = Entrant("structured streaming", "rivals/structured_streaming.py")
FLINK_HEAP = Entrant(
    "flink heap", "rivals/flink_sql.py", ("--backend", "hashmap"), merged=True, rows="csv", python="flink"
)
FLINK_ROCKSDB = Entrant(
    "flink rocksdb", "rivals/flink_sql.py", ("--backend", "rocksdb"), merged=True, rows="csv", python="flink"
)
FLOOR = Entrant("duckdb", "rivals/duckdb_batch.py")
ALL = (OURS, FLINK_HEAP, FLINK_ROCKSDB, SPARK, FLOOR)

KAFKA_FLINK = "Flink is left out: its connector for Kafka is not part of the package."
PARQUET_FLINK = "Flink is left out: its Parquet reader is not part of the package and needs Hadoop's jars."
LAG_SPARK = "Structured Streaming is left out: it refuses window functions over streams and has no LAG."
BY_WINDOW = ("device", "window_end")


def _rates(of_flink: float, of_spark: float) -> tuple[Bar, ...]:
    return (
        Bar("rate", of_flink, FLINK_HEAP.name),
        Bar("rate", of_flink, FLINK_ROCKSDB.name),
        Bar("rate", of_spark, SPARK.name),
        Bar("memory", 1.0, SPARK.name),
    )


def _ours(name: str, query: str) -> Entrant:
    return Entrant(name, OURS.program, query=query)


TUMBLING = Agreement(
    {"device": "VARCHAR", "window_end": "TIMESTAMPTZ", "n": "BIGINT", "tolls": "BIGINT", "amount": "DOUBLE"},
    BY_WINDOW,
    "windows",
    size_ms=60_000,
    hop_ms=60_000,
)
COUNTED = {"device": "VARCHAR", "window_end": "TIMESTAMPTZ", "n": "BIGINT"}
OPEN_GROUPS = Agreement({"device": "VARCHAR", "n": "BIGINT"}, ("device",), "nothing")
FLAT_BATCHES = BatchWindow(events=50_000, skipped=21, counted=20)

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "tumbling",
            "per device, tumbling minute: count, sum, average; JSON",
            "tumbling",
            Data("toll", "json"),
            ALL,
            TUMBLING,
            _rates(2.5, 2.5),
        ),
        Scenario(
            "tumbling-parquet",
            "per device, tumbling minute: count, sum, average; Parquet",
            "tumbling",
            Data("toll", "parquet"),
            (OURS, SPARK, FLOOR),
            TUMBLING,
            (Bar("rate", 3.0, SPARK.name), Bar("memory", 1.0, SPARK.name)),
            left_out=PARQUET_FLINK,
        ),
        Scenario(
            "kafka",
            "per device, tumbling minute: count, sum, average; JSON from a topic of four partitions",
            "tumbling",
            Data("toll", "json"),
            (replace(OURS, topic=True), replace(SPARK, topic=True), FLOOR),
            TUMBLING,
            (Bar("rate", 1.5, SPARK.name),),
            left_out=f"duckdb reads the same events from files. {KAFKA_FLINK}",
        ),
        Scenario(
            "hopping",
            "per device, hopping 60 s by 10 s: count; JSON",
            "hopping",
            Data("toll", "json"),
            ALL,
            Agreement(COUNTED, BY_WINDOW, "windows", size_ms=60_000, hop_ms=10_000),
            _rates(3.0, 6.0),
        ),
        Scenario(
            "session",
            "per device, session of 30 s: count; JSON",
            "session",
            Data("toll", "json"),
            ALL,
            Agreement(COUNTED, BY_WINDOW, "sessions", size_ms=30_000),
            _rates(2.5, 2.5),
        ),
        Scenario(
            "project",
            "filter and projection; JSON",
            "project",
            Data("toll", "json"),
            ALL,
            Agreement(
                {
                    "seq": "BIGINT",
                    "device": "VARCHAR",
                    "event_time": "BIGINT",
                    "amount": "DOUBLE",
                    "plate": "VARCHAR",
                },
                ("seq",),
                "nothing",
            ),
            _rates(1.5, 1.5),
        ),
        Scenario(
            "substreams",
            "per booth and device, tumbling minute, as 20 000 substreams (OVER) and without OVER; JSON",
            "booths-over",
            # With OVER a substream is a device at a booth, of which there are four.
            Data("toll", "json", devices=5_000),
            (
                _ours("tideglass OVER", "booths-over"),
                _ours("tideglass", "booths"),
                Entrant("duckdb", FLOOR.program, query="booths"),
            ),
            Agreement({"booth": "BIGINT", **TUMBLING.columns}, ("booth", "device", "window_end"), "nothing"),
            (Bar("cost", 1.5, "tideglass"),),
        ),
        Scenario(
            "join",
            "entry and exit of a plate within 15 minutes; JSON",
            "join",
            Data("entry-exit", "json"),
            ALL,
            Agreement(
                {"entry_seq": "BIGINT", "exit_seq": "BIGINT", "plate": "VARCHAR"},
                ("entry_seq", "exit_seq"),
                "pairs",
            ),
            _rates(5.0, 10.0),
        ),
        Scenario(
            "lag",
            "previous tolls of each device (LAG); JSON",
            "lag",
            Data("toll", "json"),
            (OURS, FLINK_HEAP, FLINK_ROCKSDB, FLOOR),
            Agreement({"seq": "BIGINT", "device": "VARCHAR", "previous": "BIGINT"}, ("seq",), "neighbours"),
            (Bar("rate", 3.0, FLINK_HEAP.name), Bar("rate", 3.0, FLINK_ROCKSDB.name)),
            left_out=LAG_SPARK,
        ),
        Scenario(
            "reference",
            "the tumbling query joined with 1 M rows of reference data, and without; JSON",
            "tumbling-owners",
            Data("toll", "json", owners=1_000_000),
            (
                Entrant(
                    "tideglass JOIN", OURS.program, ("--reference", str(OWNERS)), query="tumbling-owners"
                ),
                _ours("tideglass", "tumbling"),
                Entrant("duckdb", FLOOR.program, query="tumbling"),
            ),
            TUMBLING,
            (Bar("cost", 1.3, "tideglass"),),
        ),
        Scenario(
            "small-batch",
            "the tumbling query in batches of 1 000 events",
            "tumbling",
            Data("toll", "json"),
            (OURS, FLOOR),
            TUMBLING,
            (Bar("batch", 0.5),),
            BatchWindow(events=1_000, skipped=20, counted=80),
        ),
        Scenario(
            "flat-in-state",
            "batches of 50 000 events while 1 M groups are open, in windows of 7 days and of 10 minutes",
            "flat-7-days",
            Data("groups", "json", devices=1_000_000),
            (
                _ours("7 days", "flat-7-days"),
                _ours("10 minutes", "flat-10-minutes"),
                Entrant("duckdb", FLOOR.program, query="groups"),
            ),
            OPEN_GROUPS,
            (Bar("evenness", 0.2, "10 minutes"),),
            FLAT_BATCHES,
        ),
    )
}
