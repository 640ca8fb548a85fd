"""The ingress and the stages in this process, fed as Spark would feed them."""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from support.harness import reopened
from tideglass.bind.catalog import InputInfo
from tideglass.compile import Compiled
from tideglass.connect.dataframes.input import FrameSpec, chunks_of_frame
from tideglass.connect.reference.references import NO_REFERENCES, InlineRows, References, inline_rows
from tideglass.engine.exchange import RowSink
from tideglass.engine.key_group import KeyGroupTask
from tideglass.engine.messages import KNOWN_SNAPSHOTS, Kind, Message, for_driver
from tideglass.engine.output_filter import emitted_messages
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.partition_watermarks import PartitionWatermarks
from tideglass.ingress.read_from import ANEW, InputBegin
from tideglass.ingress.reports import BatchReports
from tideglass.ingress.stream import IngressTask
from tideglass.local import rows_by_output
from tideglass.operators.state.store import MemoryState
from tideglass.plan.topology import Topology
from tideglass.project.settings import from_options
from tideglass.testing import compile_rows, rows_in_order

SETTINGS = {"late_arrival": "5s", "out_of_order": "2s"}
TWO_INPUTS = """
WITH both AS (SELECT d, v FROM a TIMESTAMP BY t UNION SELECT d, v FROM b TIMESTAMP BY t)
SELECT d, COUNT(*) AS n, SUM(v) AS s, System.Timestamp() AS at INTO counts
FROM both GROUP BY d, TumblingWindow(second, 10)
SELECT d, v, System.Timestamp() AS at INTO high FROM a TIMESTAMP BY t WHERE v > 5
"""
#: As above, each device with a watermark of its own.
SUBSTREAMS = """
WITH both AS (
    SELECT d, v, PartitionId AS p FROM a TIMESTAMP BY t OVER d, PartitionId PARTITION BY PartitionId
    UNION
    SELECT d, v, PartitionId AS p FROM b TIMESTAMP BY t OVER d, PartitionId PARTITION BY PartitionId
)
SELECT d, p, COUNT(*) AS n, SUM(v) AS s, System.Timestamp() AS at INTO counts
FROM both PARTITION BY p GROUP BY d, p, TumblingWindow(second, 10)
"""
Row = Mapping[str, Any]


def table(rows: Sequence[Row]) -> pa.Table:
    return pa.table(
        {
            "t": pa.array([row["t"] for row in rows], pa.string()),
            "d": pa.array([row["d"] for row in rows], pa.string()),
            "v": pa.array([row["v"] for row in rows], pa.int32()),
            "came": pa.array(
                [datetime.fromisoformat(row["came"]) for row in rows], pa.timestamp("us", "UTC")
            ),
            "p": pa.array([row["p"] for row in rows], pa.int32()),
            "o": pa.array([row["o"] for row in rows], pa.int64()),
        }
    )


class Stages:
    """All stages of a topology in this process, their state in memory.

    remembers: senders may have nothing to say in a batch, as those of streams that are not ours.
    """

    def __init__(
        self, topology: Topology, references: References = NO_REFERENCES, *, remembers: bool = False
    ) -> None:
        self.topology, self.references, self.remembers = topology, references, remembers
        self.states: dict[tuple[int, int, int], MemoryState] = {}

    def run(self, messages: list[Message]) -> list[Message]:
        """A batch: what the scans send in, what is for the driver out."""
        for level in range(1, self.topology.levels + 1):
            received, messages = messages, []
            for key_group in range(self.topology.key_groups):
                mine = [m for m in received if m.key_group == key_group]
                if mine:  # Spark calls a key group only when there is something for it
                    stage = KeyGroupTask(
                        self.topology, level, RowSink(), self.references, remembers=self.remembers
                    )
                    messages += stage.run(
                        key_group,
                        mine,
                        lambda op, at=(level, key_group): self.states.setdefault((*at, op), MemoryState()),
                    )
        return for_driver(messages)

    def restart(self) -> None:
        """Goes on from what the state is on a disk."""
        self.states = {place: reopened(state) for place, state in self.states.items()}


class Frames:
    """The ingress and the stages in this process, fed as Spark would feed them.

    compiled: of a query over other inputs than `a` and `b`.
    shares: ingresses of each input, of which a DataFrame has one.
    topic: the ingresses are those of topics, also if each topic has only one.
    """

    def __init__(
        self,
        query: str = TWO_INPUTS,
        spec: Mapping[str, Any] | None = None,
        reference: Mapping[str, InlineRows] | None = None,
        shares: int = 1,
        topic: bool = False,
        begins: Mapping[str, InputBegin] | None = None,
        key_groups: int = 2,
        settings: Mapping[str, str] = SETTINGS,
        compiled: Compiled | None = None,
    ) -> None:
        infos = {name: InputInfo(name) for name in "ab"} | {
            name: InputInfo(name, "reference") for name in reference or {}
        }
        self.compiled = compiled or compile_rows(
            query, {}, from_options(settings), key_groups=key_groups, known_inputs=infos
        )
        self.topology: Topology = self.compiled.topology
        self.begins = begins or {}
        self.references = inline_rows(self.topology.references, reference or {})
        self.spec: Mapping[str, Any] = {"arrival": "came", "partition": "p"} if spec is None else spec
        self.shares = shares
        self.topic = topic or shares > 1
        self.folder = tempfile.TemporaryDirectory()
        self.peers = PartitionWatermarks(Snapshots(self.folder.name))
        self.batches = 0
        self.stages = Stages(self.topology, self.references, remembers=True)
        self.states: dict[tuple[str, int], MemoryState] = {}
        self.messages: list[Message] = []

    def batch(
        self,
        given: Mapping[str, Iterable[pa.Table]],
        now_ms: int | None = None,
        *,
        final: bool = False,
        replayed: bool = False,
        job: str = "job",
        known: Mapping[str, int] | None = None,
    ) -> list[Message]:
        """The messages of a batch that are for the driver.

        given: per input that has rows (or whose timer fires), the tables of its tasks in any order.
        final, replayed, known: what the inputs are told in this batch.
        """
        sent: list[Message] = []
        for name, tables in given.items():
            fields = self.topology.fields[name]
            told: list[Message] = []
            if known is not None:
                told.append(Message(0, 0, Kind.KNOWN, 0, "", KNOWN_SNAPSHOTS.body(known)))
            words = {Kind.END: final, Kind.REPLAYED: replayed}
            told += [Message(0, 0, kind, 0, "", b"") for kind, said in words.items() if said]
            chunks: list[list[Message]] = [[*told] for _ in range(self.shares)]
            for task, rows in enumerate(tables):
                for each in chunks_of_frame(
                    rows, FrameSpec(name, **self.spec), fields, self.topology.level, task, itertools.count()
                ):
                    share = int(each.partition) % self.shares if self.shares > 1 else 0
                    chunks[share].append(Message(0, 0, Kind.CHUNK, 0, each.partition, each.to_bytes()))
            for share, mine in enumerate(chunks):
                if mine or now_ms is not None or self.shares == 1:  # else Spark does not call it
                    state = self.states.setdefault((name, share), MemoryState())
                    begin = self.begins.get(name, ANEW)
                    task_ = IngressTask(
                        self.topology, name, RowSink(), job, self.references, begin=begin, share=share
                    )
                    elsewhere = functools.partial(self.peers.before, self.batches, name)
                    sent += task_.run(reversed(mine), state, now_ms, elsewhere if self.topic else None)
        answered = self.stages.run(sent)
        self.peers.take(self.batches, BatchReports.of(answered).partitions)
        self.batches += 1
        self.messages += emitted_messages(answered)
        return answered

    def restart(self) -> None:
        """Goes on from what the state is on a disk."""
        self.states = {place: reopened(state) for place, state in self.states.items()}
        self.stages.restart()

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        return {
            name: rows_in_order(parts) for name, parts in rows_by_output(self.topology, self.messages).items()
        }
