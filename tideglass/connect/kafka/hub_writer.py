"""Writes the messages of a batch from the driver: at least once, or in a transaction with a progress record.

A transaction holds the messages of a batch and one record in the progress topic: a name of job and output as
key, generation and number of the batch as value. Who begins to write first fences all earlier writers of that
key (`init_transactions`), which ends their transactions one way or the other, and only then reads the
progress; so no batch can become visible between the reading and the next transaction (decision 46).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tideglass.connect.kafka.broker_client import (
    WAIT_SECONDS,
    BrokerErrors,
    kafka_library,
    made_client,
    output_error,
    signed_in,
    until,
)
from tideglass.connect.output import Batch
from tideglass.core.errors import OutputError, OutputUnavailable


@dataclass(frozen=True, slots=True)
class HubMessage:
    """A message.

    value, key: its bytes; None for no key.
    headers: by name, in their order.
    partition: None where the library chooses, by the key.
    """

    value: bytes
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None = None

    @property
    def size_bytes(self) -> int:
        """About what a broker counts: all that is in it, and what a batch of one adds."""
        size = len(self.value) + len(self.key or b"") + 100
        for name, value in self.headers:
            size += len(name) + len(value) + 10
        return size


class MessageTooLarge(Exception):
    """The broker refuses a message for its size. place: which of those that were sent."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


@dataclass
class HubWriter:
    """A producer for one topic.

    settings: of librdkafka.
    topic: its name on the broker.
    what: the topic, in words for people.
    most_bytes: of a message.
    errors: reported beside the answers.
    """

    settings: Mapping[str, Any]
    topic: str
    what: str
    most_bytes: int
    errors: BrokerErrors = field(default_factory=BrokerErrors)
    _producer: Any = None

    def open(self) -> None:
        """Raises OutputError, OutputUnavailable."""
        self._producer = self._made({"enable.idempotence": True})

    def write(self, batch: Batch, messages: Sequence[HubMessage]) -> None:
        """Send messages, and wait until the broker has them all.

        Raises MessageTooLarge, OutputError, OutputUnavailable; some of the messages may be there then.
        """
        failed = self._sent(messages)
        self._raise(failed)

    def close(self) -> None:
        """Give up what is not sent."""
        producer, self._producer = self._producer, None
        if producer is not None and len(producer):
            producer.purge(in_queue=True, in_flight=True)
            producer.flush(0.1)

    def _made(self, more: Mapping[str, Any]) -> Any:
        signed_in(self.settings, self.what)
        own = {
            "error_cb": self.errors,
            "message.max.bytes": self.most_bytes + 1024,
            "linger.ms": 5,
            "delivery.timeout.ms": int(WAIT_SECONDS * 1000),
            "queue.buffering.max.messages": 1_000_000,
        }
        return made_client(kafka_library().Producer, {**own, **self.settings, **more}, self.what)

    def _sent(self, messages: Sequence[HubMessage]) -> list[tuple[int, Any]]:
        """The messages that were not delivered, each with its error."""
        failed: list[tuple[int, Any]] = []
        producer, left = self._producer, [len(messages)]

        def delivered(place: int) -> Any:
            def call(error: Any, _: Any) -> None:
                left[0] -= 1
                if error is not None:
                    failed.append((place, error))

            return call

        for place, message in enumerate(messages):
            while not failed:
                try:
                    producer.produce(
                        self.topic,
                        message.value,
                        message.key,
                        -1 if message.partition is None else message.partition,
                        on_delivery=delivered(place),
                        headers=list(message.headers),
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
                except kafka_library().KafkaException as error:
                    return [(place, error.args[0])]
            if failed:
                break
            if place % 4096 == 0:
                producer.poll(0)
        if not failed and not until(lambda: not producer.flush(1.0) or bool(failed), 2 * WAIT_SECONDS):
            raise OutputUnavailable(f"{self.what} has not taken {left[0]:,} messages in time")
        return sorted(failed, key=lambda each: each[0])

    def _raise(self, failed: Sequence[tuple[int, Any]]) -> None:
        if failed:
            place, error = failed[0]
            if error.code() == kafka_library().KafkaError.MSG_SIZE_TOO_LARGE:
                raise MessageTooLarge(place)
            raise output_error(error, self.what, self.errors)


@dataclass
class TransactionalWriter(HubWriter):
    """A producer whose batches are there as a whole, and once.

    progress_topic: where the progress records are.
    key: of those of this job and output; also the producer's transactional id.
    reached: the newest batch that is there, as (generation, number); None for none.
    """

    progress_topic: str = ""
    key: str = ""
    reached: tuple[int, int] | None = None

    def open(self) -> None:
        self._producer = self._made({"transactional.id": self.key, "transaction.timeout.ms": 300_000})
        try:
            self._producer.init_transactions(WAIT_SECONDS)
        except kafka_library().KafkaException as error:
            raise output_error(error.args[0], self.what, self.errors) from error
        self.reached = self._read_progress()

    def write(self, batch: Batch, messages: Sequence[HubMessage]) -> None:
        """Send messages in a transaction, unless the batch is there. Raises as `HubWriter.write`."""
        this = (batch.generation, batch.number)
        if self.reached is not None and self.reached >= this:
            return
        producer, errors = self._producer, kafka_library().KafkaException
        try:
            producer.begin_transaction()
            failed = self._sent(messages)
            if not failed:
                progress = json.dumps({"generation": batch.generation, "batch": batch.number})
                producer.produce(self.progress_topic, progress.encode(), self.key.encode(), 0)
                self._commit()
        except errors as error:
            raise output_error(error.args[0], self.what, self.errors) from error
        if failed:
            producer.abort_transaction(WAIT_SECONDS)
            self._raise(failed)
        self.reached = this

    def _commit(self) -> None:
        """Raises KafkaException, OutputUnavailable. What has become of the batch is then not known."""

        def committed() -> bool:
            try:
                self._producer.commit_transaction(WAIT_SECONDS)
            except kafka_library().KafkaException as error:
                if error.args[0].retriable():
                    return False
                raise
            return True

        if not until(committed, 2 * WAIT_SECONDS):
            raise OutputUnavailable(f"{self.what} has not committed a transaction in time")

    def _read_progress(self) -> tuple[int, int] | None:
        """The newest record of this key.

        Other jobs may have transactions open in the topic, behind which nothing is shown: these are waited
        for, so that a record of ours cannot be missed.
        """
        library = kafka_library()
        place = library.TopicPartition(self.progress_topic, 0, 0)
        settings = {"group.id": self.key, "enable.auto.commit": False, "enable.partition.eof": True}
        settings |= {**self.settings, "error_cb": self.errors}
        reader = made_client(library.Consumer, {**settings, "isolation.level": "read_uncommitted"}, self.what)
        try:
            _, end = reader.get_watermark_offsets(place, WAIT_SECONDS)
        except library.KafkaException as error:
            raise output_error(error.args[0], self.what, self.errors) from error
        finally:
            reader.close()
        reader = made_client(library.Consumer, {**settings, "isolation.level": "read_committed"}, self.what)
        found: tuple[int, int] | None = None
        read_to = 0

        def read() -> bool:
            nonlocal found, read_to
            got = reader.poll(1.0)
            if got is None:
                return False
            if got.error() is None:
                if got.key() == self.key.encode():
                    record = json.loads(got.value())
                    found = (record["generation"], record["batch"])
            elif got.error().code() == library.KafkaError._PARTITION_EOF:
                read_to = got.offset()
            else:
                raise output_error(got.error(), self.what, self.errors)
            return read_to >= end

        try:
            reader.assign([place])
            if end and not until(read, 3 * WAIT_SECONDS):
                raise OutputUnavailable(
                    f"the progress in {self.progress_topic} cannot be read to its end, since a transaction "
                    "of another writer is open"
                )
        finally:
            reader.close()
        return found


def check_topic(settings: Mapping[str, Any], topic: str, what: str) -> None:
    """See that a topic is there and answers. Raises OutputError, OutputUnavailable."""
    library, errors = kafka_library(), BrokerErrors()
    signed_in(settings, what)
    producer = made_client(library.Producer, {**settings, "error_cb": errors}, what)
    try:
        found = producer.list_topics(topic, WAIT_SECONDS).topics.get(topic)
    except library.KafkaException as error:
        producer.poll(0)
        raise output_error(error.args[0], what, errors) from error
    if found is None or found.error is not None:
        unknown = library.KafkaError(library.KafkaError._UNKNOWN_TOPIC)
        raise output_error(unknown if found is None else found.error, what, errors)


def make_progress_topic(settings: Mapping[str, Any], topic: str) -> None:
    """Make the topic of progress records, if it is not there. Raises OutputError, OutputUnavailable."""
    library = kafka_library()
    from confluent_kafka.admin import AdminClient  # pyright: ignore

    what = f"the topic {topic}"
    try:
        check_topic(settings, topic, what)
        return
    except OutputUnavailable:
        raise
    except OutputError as error:
        if "does not exist" not in str(error):
            raise
    admin: Any = AdminClient({**settings, "log_level": 0})
    wanted = library.admin.NewTopic(topic, 1, -1, config={"cleanup.policy": "compact"})
    try:
        admin.create_topics([wanted])[topic].result(WAIT_SECONDS)
    except library.KafkaException as error:
        if error.args[0].code() == library.KafkaError.TOPIC_ALREADY_EXISTS:
            return
        raise OutputError(
            f"the topic {topic} for the progress of transactions cannot be made: {error.args[0].str()}\n"
            "  hint: make it, with one partition and compaction, or name another as ProgressTopic"
        ) from error
