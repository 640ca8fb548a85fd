"""The control source sends the ingresses of topics what they cannot see for themselves.

REPLAYED: everything is read again, so all inputs go on to new events in one batch. END: the input has ended.
KNOWN: so many snapshots of reference data count. Spark logs the offset of the source, so a batch that runs
again has the same messages.
"""

from __future__ import annotations

import base64
import pickle
import time
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tideglass.connect.reference.references import References
from tideglass.core.time import NANOSECONDS_PER_TICK
from tideglass.engine.messages import KNOWN_SNAPSHOTS, Kind, Message
from tideglass.spark.processor import MESSAGE_SCHEMA
from tideglass.spark.source_offset import CONTROL_OFFSET, ControlOffset
from tideglass.spark.wire import record_batches
from tideglass.storage import storage_path


@dataclass(frozen=True, slots=True)
class ControlJob:
    """What the source needs; travels to Spark's processes as one pickled option.

    numbers: those Spark hashes, of all ingresses.
    finished: the run is to end.
    ending: the run ends now.
    replayed_file: exists once everything is read again; None when nothing is.
    references: reference data whose snapshots are looked for.
    """

    numbers: tuple[int, ...]
    finished: bool
    ending: bool
    replayed_file: str | None
    references: References

    def option(self) -> str:
        return base64.b64encode(pickle.dumps(self)).decode()

    @staticmethod
    def of_option(text: str) -> ControlJob:
        job = pickle.loads(base64.b64decode(text))
        assert isinstance(job, ControlJob)
        return job


class ControlSource(DataSource):
    """The data source `tideglass_control`: KNOWN to every ingress whenever snapshots are found, REPLAYED once
    everything is read again, and END once when the run ends."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options

    @classmethod
    def name(cls) -> str:
        return "tideglass_control"

    def schema(self) -> StructType:
        return MESSAGE_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return ControlReader(ControlJob.of_option(self.options["job"]))


class ControlPartition(InputPartition):
    """The messages of a batch."""

    def __init__(self, messages: tuple[Message, ...]) -> None:
        super().__init__(messages)
        self.messages = messages


class ControlReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and sends the messages; its offset is a ControlOffset."""

    def __init__(self, job: ControlJob) -> None:
        self.job = job

    def initialOffset(self) -> dict[str, Any]:
        return CONTROL_OFFSET.plain(ControlOffset())

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to record: what there is to send shows when it is there."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before, file = CONTROL_OFFSET.of_plain(start), self.job.replayed_file
        now_ticks = None if self.job.finished else time.time_ns() // NANOSECONDS_PER_TICK
        replayed = before.replayed or (file is not None and storage_path(file).exists())
        ended = before.ended or (self.job.ending and (file is None or replayed))
        latest = ControlOffset(ended, dict(self.job.references.find(now_ticks)), replayed)
        return start if latest == before else CONTROL_OFFSET.plain(latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[ControlPartition]:
        before, after = CONTROL_OFFSET.of_plain(start), CONTROL_OFFSET.of_plain(end)
        bodies: dict[Kind, bytes] = {}
        if after.known != before.known:
            bodies[Kind.KNOWN] = KNOWN_SNAPSHOTS.body(after.known)
        if after.replayed and not before.replayed:
            bodies[Kind.REPLAYED] = b""
        if after.ended and not before.ended:
            bodies[Kind.END] = b""
        messages = (
            Message(ingress, 0, kind, 0, "", body)
            for kind, body in bodies.items()
            for ingress in range(len(self.job.numbers))
        )
        return [ControlPartition(tuple(messages))]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        chosen = cast("ControlPartition", partition)  # what `partitions` gave
        yield from record_batches(chosen.messages, self.job.numbers)
