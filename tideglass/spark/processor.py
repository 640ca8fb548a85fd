"""The stateful stage on Spark: one `transformWithState` per level, keyed by key group.

A row is a message, so Spark, its state server and Python exchange a handful of rows per batch and
key group. State is a log of chunks in a MapState; its index is small and lives in a ValueState.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from tideglass.connect.reference.references import NO_REFERENCES, References
from tideglass.core.documents import of_plain
from tideglass.core.errors import EvaluationError
from tideglass.core.ipc import from_bytes, to_bytes
from tideglass.core.profile import awaited, measured
from tideglass.engine.exchange import Sink
from tideglass.engine.key_group import KeyGroupTask
from tideglass.engine.messages import Kind, Message, failure
from tideglass.engine.profiled import profiled
from tideglass.operators.state.store import State
from tideglass.plan.topology import Topology
from tideglass.spark.errors import sentence_first

MESSAGE_SCHEMA = StructType(
    [
        StructField("key_group", IntegerType()),
        StructField("level", IntegerType()),
        StructField("kind", StringType()),
        StructField("target", IntegerType()),
        StructField("sender", StringType()),
        StructField("body", BinaryType()),
    ]
)

_ROW = Row(*MESSAGE_SCHEMA.names)
#: Per operator and bucket, the first and the next chunk number.
_Index: TypeAlias = dict[str, dict[str, list[int]]]


def message_of(row: Row, key_group: int) -> Message:
    """A Spark row of MESSAGE_SCHEMA as a message for `key_group`."""
    return Message(key_group, row[1], Kind(row[2]), row[3], row[4], bytes(row[5]))


def row_of(message: Message, key_of: tuple[int, ...]) -> Row:
    """A message as a Spark row; `key_of` maps a key group to the number Spark hashes."""
    return _ROW(
        key_of[message.key_group],
        message.level,
        message.kind.value,
        message.target,
        message.sender,
        message.body,
    )


class _OperatorState:
    """State of one operator in one key group.

    All operators of the stage share the index: per bucket its first and its next chunk number. The processor
    reads it before the batch and writes it after. Chunks go to Spark at once.
    """

    def __init__(self, operator: int, chunks: Any, named: Any, index: _Index) -> None:
        self._operator = operator
        self._chunks = chunks
        self._named = named
        self._bounds: dict[str, list[int]] = index.setdefault(str(operator), {})

    @measured("writing state")
    def append(self, bucket: int, chunk: pa.Table) -> None:
        bounds = self._bounds.setdefault(str(bucket), [0, 0])
        self._chunks.updateValue((self._operator, bucket, bounds[1]), (to_bytes(chunk),))
        bounds[1] += 1

    def buckets(self) -> list[int]:
        return sorted(int(bucket) for bucket in self._bounds)

    @measured("reading state")
    def read(self, bucket: int) -> list[pa.Table]:
        first, after = self._bounds.get(str(bucket), (0, 0))
        keys = [(self._operator, bucket, number) for number in range(first, after)]
        return [from_bytes(bytes(self._chunks.getValue(key)[0])) for key in keys]

    @measured("reading state")
    def take(self, bucket: int) -> list[pa.Table]:
        found = self.read(bucket)
        first, after = self._bounds.pop(str(bucket), (0, 0))
        for number in range(first, after):
            self._chunks.removeKey((self._operator, bucket, number))
        return found

    @measured("reading state")
    def get(self, name: str) -> bytes | None:
        found = self._named.getValue((self._operator, name))
        return None if found is None else bytes(found[0])

    @measured("writing state")
    def put(self, name: str, value: bytes) -> None:
        self._named.updateValue((self._operator, name), (value,))


class StageProcessor(StatefulProcessor):
    """Hosts a KeyGroupTask in Spark. Pickled to the workers; everything else is made there.

    A row that fails the query is reported to the driver, which stops the job: Spark would run a task that
    fails again and again. fails_the_task: nobody reads the driver's messages, so the task must fail.
    profile: every key group reports where its time went.
    """

    def __init__(
        self,
        topology: Topology,
        level: int,
        sink: Sink,
        key_of: tuple[int, ...],
        references: References = NO_REFERENCES,
        *,
        remembers: bool = False,
        profile: bool = False,
        fails_the_task: bool = False,
    ) -> None:
        self._fails_the_task = fails_the_task
        self._topology = topology
        self._level = level
        self._sink = sink
        self._key_of = key_of
        self._references = references
        self._remembers = remembers
        self._profile = profile

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._chunks = handle.getMapState("chunks", "operator INT, bucket BIGINT, number INT", "body BINARY")
        self._named = handle.getMapState("named", "operator INT, name STRING", "body BINARY")
        self._index = handle.getValueState("index", "body STRING")
        self._task = KeyGroupTask(
            self._topology, self._level, self._sink, self._references, remembers=self._remembers
        )

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        key_group = self._key_of.index(key[0])
        messages = self._messages(key_group, rows)
        if self._profile:
            sender = f"stage {self._level} key group {key_group}"
            messages = profiled(messages, self._topology, self._level, sender)
        for message in sentence_first(messages):
            yield row_of(message, self._key_of)

    def _messages(self, key_group: int, rows: Iterator[Any]) -> Iterator[Message]:
        index = self._load_index()
        before = json.dumps(index, separators=(",", ":"))

        def state_of(operator: int) -> State:
            return _OperatorState(operator, self._chunks, self._named, index)

        for operator in [each for each in index if int(each) not in self._task.state_ids]:
            self._drop(operator, index.pop(operator))
        messages = (message_of(row, key_group) for row in awaited(rows))
        try:
            yield from self._task.run(key_group, messages, state_of)
        except EvaluationError as error:
            if self._fails_the_task:
                raise
            yield failure(self._topology, f"stage {self._level} key group {key_group}", error)
        after = json.dumps(index, separators=(",", ":"))
        if after != before:
            self._save_index(after)

    @measured("reading state")
    def _load_index(self) -> _Index:
        saved = self._index.get()
        return {} if saved is None else of_plain(_Index, json.loads(saved[0]))

    @measured("writing state")
    def _save_index(self, index: str) -> None:
        self._index.update((index,))

    def _drop(self, operator: str, bounds: dict[str, list[int]]) -> None:
        """Free the state of an operator that the plan no longer has."""
        for bucket, (first, after) in bounds.items():
            for number in range(first, after):
                self._chunks.removeKey((int(operator), int(bucket), number))
        for key in [key for key in self._named.keys() if key[0] == int(operator)]:  # noqa: SIM118
            self._named.removeKey((key[0], key[1]))

    def close(self) -> None:
        """Nothing is held open."""
