"""A topic or event hub as an output that the driver writes: with an id for each row, sizes, and transactions.

A row is a message, whose headers hold the id of the row (`connect.row_ids`) and the columns that are its
properties. Event hubs are written so, and topics whose batches are transactions; other topics are written by
Spark's connector (`connect.kafka.output`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tideglass.connect.environment import resolved
from tideglass.connect.kafka.output import TopicOutput
from tideglass.connect.kafka.stand_in import at_stand_in, topic_at_stand_in
from tideglass.connect.output import Batch, OutputConnector

if TYPE_CHECKING:
    import pyarrow as pa

    from tideglass.connect.kafka.hub_writer import HubMessage, HubWriter
    from tideglass.connect.refused_rows import RefusedRow
    from tideglass.storage import StoragePath

#: The header with the id of a row.
ROW_ID = "tideglass-row-id"
#: Bytes of a message of Event Hubs at most, in its tiers from Standard up.
MOST_BYTES = 1 << 20
PROGRESS_TOPIC = "tideglass-progress"

#: Writers of this process, by topic and job. A run opens its own.
_writers: dict[tuple[str, str], HubWriter] = {}


@dataclass(frozen=True, slots=True)
class HubOutput(OutputConnector):
    """A topic whose messages the driver writes.

    topic: where and how; `partition` and `key` of it as well.
    properties: columns that are headers of the message and no part of its value.
    transactional: a batch is one transaction, with a progress record.
    progress_topic: for those records.
    most_bytes: of a message; a row that needs more is refused.
    """

    topic: TopicOutput
    properties: tuple[str, ...] = ()
    transactional: bool = False
    progress_topic: str = PROGRESS_TOPIC
    most_bytes: int = MOST_BYTES

    @property
    def name(self) -> str:
        """Of the output in the query."""
        return self.topic.name

    @property
    def guarantee(self) -> str:
        return "exactly once" if self.transactional else "at least once"

    def prepare(self) -> None:
        from tideglass.connect.kafka.hub_writer import check_topic, make_progress_topic

        self.close()
        settings, topic = self._settings()
        check_topic(settings, topic, self.describe())
        if self.transactional:
            make_progress_topic(settings, self.progress_topic)

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        from tideglass.connect.kafka.hub_writer import MessageTooLarge
        from tideglass.connect.refused_rows import RowsRefused

        messages = self._messages(batch, staged)
        try:
            self._writer(batch.job_id).write(batch, messages)
        except MessageTooLarge as error:
            raise RowsRefused([self._too_large(staged, error.place, messages[error.place])]) from error
        except Exception:
            # What became of the batch is not known: the next try begins as a new run does.
            self.close()
            raise
        return ()

    def close(self) -> None:
        """Give up the writers of this topic; another try opens one anew."""
        for key in [key for key in _writers if key[0] == self._place]:
            _writers.pop(key).close()

    def withdraw(self, after: Batch) -> None:
        """Messages cannot be taken back: rows of a batch that is given up are there twice."""

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        words = dict(self.topic.identity(directory))
        return words | {"properties": list(self.properties), "transactional": self.transactional}

    def describe(self) -> str:
        return self.topic.describe()

    @property
    def _place(self) -> str:
        return f"{self.topic.servers}/{self.topic.topic}/{self.name}"

    def _settings(self) -> tuple[dict[str, Any], str]:
        """Settings of the client, and the topic on the broker that is spoken to."""
        from tideglass.connect.kafka.broker_client import client_settings_of

        options = {name: resolved(value, os.environ) for name, value in self.topic.kafka_options.items()}
        topic = topic_at_stand_in(options.pop("topic"), options["kafka.bootstrap.servers"])
        return client_settings_of(at_stand_in(options), os.environ), topic

    def _writer(self, job_id: str) -> HubWriter:
        from tideglass.connect.kafka.hub_writer import HubWriter, TransactionalWriter

        key = (self._place, job_id)
        if key not in _writers:
            settings, topic = self._settings()
            common = (settings, topic, self.describe(), self.most_bytes)
            if self.transactional:
                writer: HubWriter = TransactionalWriter(
                    *common, progress_topic=self.progress_topic, key=self._key(job_id)
                )
            else:
                writer = HubWriter(*common)
            try:
                writer.open()
            except Exception:
                writer.close()
                raise
            _writers[key] = writer
        return _writers[key]

    def _key(self, job_id: str) -> str:
        """Of this job's records for this output: no other job and no other topic has it."""
        text = "\0".join((job_id, self.name, self.topic.topic))
        return f"tideglass-{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"

    def _messages(self, batch: Batch, staged: Sequence[pa.Table]) -> list[HubMessage]:
        """The rows as messages, part by part. Raises RowsRefused."""
        from tideglass.connect.kafka.encoding import records
        from tideglass.connect.kafka.hub_writer import HubMessage
        from tideglass.connect.refused_rows import RowsRefused
        from tideglass.connect.row_ids import row_ids

        ids = iter(row_ids(self.name, batch, staged))
        found: list[HubMessage] = []
        refused: list[RefusedRow] = []
        for part, rows in enumerate(staged):
            shown, headers, wrong = self._parted(part, rows)
            refused += wrong
            if wrong:
                continue
            encoded = records(shown, self.topic)
            columns = zip(*(encoded[name].to_pylist() for name in ("key", "value", "partition")), strict=True)
            for row, (key, value, partition) in enumerate(columns):
                message = HubMessage(value, key, (*headers[row], (ROW_ID, next(ids).encode())), partition)
                if message.size_bytes > self.most_bytes:
                    refused.append(self._refused_size(part, row, message))
                found.append(message)
        if refused:
            raise RowsRefused(refused)
        return found

    def _parted(
        self, part: int, rows: pa.Table
    ) -> tuple[pa.Table, list[tuple[tuple[str, bytes], ...]], list[RefusedRow]]:
        """The rows without their properties, the properties of each as headers, and rows that have others."""
        from tideglass.connect.formats.layout import spread
        from tideglass.connect.refused_rows import RefusalKind, RefusedRow
        from tideglass.core.json_rows import rows_of

        shown = spread(rows)
        refused: list[RefusedRow] = []
        headers: list[tuple[tuple[str, bytes], ...]] = [()] * rows.num_rows
        names = {name.casefold(): name for name in shown.column_names if not name.startswith("$")}
        if self.topic.key is not None and self.topic.key.casefold() not in names:
            reason = f"the rows have no column {self.topic.key!r}, which is the partition key"
            kind = RefusalKind.REQUIRED_COLUMN_MISSING
            return shown, headers, [RefusedRow(part, row, kind, reason) for row in range(rows.num_rows)]
        there = [names[name.casefold()] for name in self.properties if name.casefold() in names]
        if not there:
            return shown, headers, refused
        for row, values in enumerate(rows_of(shown.select(there))):
            texts: list[tuple[str, bytes]] = []
            for name in there:
                value = values[name]
                if isinstance(value, dict | list):
                    reason = f"the column {name!r} is a property and holds a record or an array"
                    refused.append(RefusedRow(part, row, RefusalKind.TYPE_CONVERSION_ERROR, reason))
                    break
                if value is not None:
                    text = value if isinstance(value, str) else json.dumps(value)
                    texts.append((name, text.encode(errors="replace")))
            headers[row] = tuple(texts)
        key = (self.topic.key or "").casefold()
        left = [name for name in shown.column_names if name not in there or name.casefold() == key]
        kept = shown.select(left) if left else rows_without_columns(rows.num_rows)
        return kept, headers, refused

    def _too_large(self, staged: Sequence[pa.Table], place: int, message: HubMessage) -> RefusedRow:
        """The row of a message that the broker refuses. place: of the message in the batch."""
        part = 0
        while place >= staged[part].num_rows:
            place -= staged[part].num_rows
            part += 1
        return self._refused_size(part, place, message)

    def _refused_size(self, part: int, row: int, message: HubMessage) -> RefusedRow:
        from tideglass.connect.refused_rows import RefusalKind, RefusedRow

        reason = f"its message has {message.size_bytes:,} bytes, and {self.most_bytes:,} are the most"
        return RefusedRow(part, row, RefusalKind.RECORD_EXCEEDED_SIZE_LIMIT, reason)


def rows_without_columns(rows: int) -> pa.Table:
    """Rows that show nothing."""
    import pyarrow as pa

    return pa.table({"$nothing": pa.nulls(rows)})
