"""What a broker holds of a topic, asked through the client of Spark's connector."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tideglass.connect.kafka.topic import HeldPartition, TopicInput
from tideglass.core.errors import InputError

#: Options of Spark's connector that begin so are the client's own.
_CLIENT = "kafka."


def held_partitions(
    spark: SparkSession, declared: TopicInput, from_ms: int | None
) -> dict[int, HeldPartition]:
    """What the topic holds, by partition. from_ms: the time that `HeldPartition.found` is for; None: none.

    Raises InputError when the broker does not answer or has no such topic, ProjectError for a variable of
    the environment that is not set.
    """
    topic = declared.place(os.environ)
    jvm = cast("Any", spark)._jvm
    properties = jvm.java.util.Properties()
    for name, value in client_settings(declared, os.environ).items():
        properties.setProperty(name, value)
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        try:
            return _asked(jvm, admin, topic, from_ms)
        finally:
            admin.close()
    except Py4JJavaError as error:
        cause = error.java_exception.getCause() or error.java_exception
        raise InputError(
            f"the topic {topic!r} of the input {declared.name!r} cannot be asked where to begin: "
            f"{cause.getMessage()}\n  hint: look at BootstrapServers, Topic and Options in the input's file"
        ) from error


def client_settings(declared: TopicInput, environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of Kafka's own client among the options of Spark's connector.

    >>> client_settings(TopicInput("toll", "b:9092", "toll", options={"kafka.retries": "3", "x": "y"}), {})
    {'bootstrap.servers': 'b:9092', 'retries': '3'}
    """
    options = declared.connector_options(environment).items()
    return {name[len(_CLIENT) :]: value for name, value in options if name.lower().startswith(_CLIENT)}


def _asked(jvm: Any, admin: Any, topic: str, from_ms: int | None) -> dict[int, HeldPartition]:
    described = admin.describeTopics(jvm.java.util.List.of(topic)).allTopicNames().get().get(topic)
    numbers: list[int] = [each.partition() for each in described.partitions()]
    of = jvm.org.apache.kafka.clients.admin.OffsetSpec

    def found(spec: Any) -> dict[int, Any]:
        places = {n: jvm.org.apache.kafka.common.TopicPartition(topic, n) for n in numbers}
        wanted = jvm.java.util.HashMap()
        for place in places.values():
            wanted.put(place, spec)
        answer = admin.listOffsets(wanted)
        return {n: answer.partitionResult(place).get() for n, place in places.items()}

    # The end first: messages that arrive meanwhile are after it, and are read.
    ends = found(of.latest())
    earliest = found(of.earliest())
    oldest = found(of.forTimestamp(0))
    firsts = {} if from_ms is None else found(of.forTimestamp(from_ms))
    return {
        n: HeldPartition(
            earliest[n].offset(),
            ends[n].offset(),
            oldest[n].timestamp() if oldest[n].offset() >= 0 else None,
            firsts[n].offset() if n in firsts and firsts[n].offset() >= 0 else None,
        )
        for n in numbers
    }
