"""A Kafka topic as an input, read by Spark's own connector.

Kafka partitions are input partitions, the time the broker appended a message is its arrival time, and
the payloads are decoded where Spark reads them, a batch of messages at once. A query reads the fields of
the event, and of the message `KafkaKey` (text), `KafkaHeaders` (an array of key and base64 value) and
`KafkaTopic`, which stand before fields of the same names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from tideglass.connect.formats.avro import checked_schema
from tideglass.connect.formats.payloads import Payload
from tideglass.connect.kafka.hub_records import is_of_message
from tideglass.connect.kafka.topic import FETCHING, STARTING_OPTIONS, TopicInput
from tideglass.core.errors import TideglassError
from tideglass.spark.connector import CONNECTOR, JARS
from tideglass.spark.dataframes.query import FrameInput

JSON = Payload()
_LOG_APPEND_TIME = 1
#: What a query calls the headers of a message.
HEADERS = "KafkaHeaders"
_METADATA = {"KafkaKey": "key", HEADERS: "headers", "KafkaTopic": "topic"}


def kafka(
    spark: SparkSession,
    topic: str,
    bootstrap_servers: str,
    format: str = "json",
    options: Mapping[str, str] | None = None,
    *,
    create_time: bool = False,
    delimiter: str = ",",
    avro_schema: str | None = None,
    finished: bool = False,
) -> FrameInput:
    """A topic as an input of `tideglass.query`.

    spark: the session.
    topic, bootstrap_servers: which topic, and where.
    format: of a message.
    options: of Spark's Kafka source, as `startingOffsets`, `maxOffsetsPerTrigger`, `kafka.security.protocol`.
    create_time: take the producers' stamps for arrival times where the broker does not set its own.
    delimiter: of CSV.
    avro_schema: of plain Avro messages, as JSON text; None: messages are object containers.
    finished: what the topic holds now (or up to `endingOffsets`), not a stream.
    Raises InputError for a schema that is none, TideglassError without the connector.
    """
    if format == "avro" and avro_schema is not None:
        checked_schema(avro_schema)
    source = spark.read if finished else spark.readStream
    reader = source.format("kafka").option("kafka.bootstrap.servers", bootstrap_servers)
    # Of options of one name, however it is spelled, Spark takes the last.
    reader = reader.option("subscribe", topic).options(**FETCHING, includeHeaders="true")
    reader = reader.options(**(options or {}))
    payload_as = Payload(format, delimiter, avro_schema)
    try:
        # A client of Spark Connect asks its server for the source only once the columns are wanted.
        return messages_input(reader.load(), create_time=create_time, payload_as=payload_as)
    except AnalysisException as error:
        if "kafka" in str(error).lower() and "find" in str(error).lower():
            raise TideglassError(
                "this session does not have Spark's connector for Kafka\n"
                f"  hint: start it with spark.jars.packages={CONNECTOR}, or with the jars of "
                f"{', '.join(JARS)} in spark.jars"
            ) from error
        raise


def topic_input(
    spark: SparkSession,
    declared: TopicInput,
    offsets: Mapping[str, int] | None = None,
    *,
    finished: bool,
    limited: bool,
    headers: bool,
) -> FrameInput:
    """A topic of a project as a streaming input.

    offsets: per partition, the first to be read; None: as in the project. finished: the run reads to the
    end of what is there. limited: a batch takes no more than the project allows. headers: the query asks for
    them; the connector makes them for every message.
    Raises ProjectError for a variable of the environment that is not set.
    """
    options = source_options(
        declared, os.environ, offsets, finished=finished, limited=limited, headers=headers
    )
    found = kafka(
        spark,
        declared.place(os.environ),
        options["kafka.bootstrap.servers"],
        declared.format,
        options,
        create_time=declared.arrival == "CreateTime",
        delimiter=declared.delimiter,
        avro_schema=declared.avro_schema,
    )
    payload_as = replace(found.payload_as, compression=declared.compression)
    return replace(found, payload_as=payload_as, records=declared.records)


def asks_for_headers(declared: TopicInput, paths: Iterable[tuple[str, ...]]) -> bool:
    """Whether a query that asks for these fields of the events needs the headers of the messages."""
    return any(path[0] == HEADERS or is_of_message(path, declared.records) for path in paths)


def source_options(
    declared: TopicInput,
    environment: Mapping[str, str],
    offsets: Mapping[str, int] | None,
    *,
    finished: bool,
    limited: bool,
    headers: bool,
) -> dict[str, str]:
    """The options of Spark's source for `topic_input`; the project's own options stay."""
    options = {"includeHeaders": str(headers).lower()}
    options |= starting_options(declared, environment, offsets, finished=finished)
    if limited:
        options["maxOffsetsPerTrigger"] = str(declared.most_messages)
    return options


def starting_options(
    declared: TopicInput,
    environment: Mapping[str, str],
    offsets: Mapping[str, int] | None,
    *,
    finished: bool,
) -> dict[str, str]:
    """The topic's options of Spark's source, and where it begins; `offsets` override them."""
    options = declared.connector_options(environment)
    if offsets is None:
        return {"startingOffsets": declared.starting or ("earliest" if finished else "latest"), **options}
    others = {name: value for name, value in options.items() if name.lower() not in STARTING_OPTIONS}
    return others | {"startingOffsets": json.dumps({declared.place(environment): dict(offsets)})}


def messages_input(
    messages: DataFrame, *, create_time: bool = False, payload_as: Payload = JSON
) -> FrameInput:
    """A DataFrame with the columns of Spark's Kafka source as an input, streaming or not.

    A message without the broker's own stamp stops the query unless `create_time`: a producer's clock says
    nothing of the arrival (`asa.md` 1.2).
    """
    stamp = fn.col("timestamp")
    if not create_time:
        refusal = fn.raise_error(
            fn.concat(
                fn.lit("the topic "),
                fn.col("topic"),
                fn.lit(
                    " carries the producers' times (CreateTime), which are no arrival times; set "
                    "message.timestamp.type=LogAppendTime for it, or read it with create_time=True"
                ),
            )
        )
        stamp = fn.when(fn.col("timestampType") == _LOG_APPEND_TIME, stamp).otherwise(
            refusal.cast("timestamp")
        )
    chosen = [
        fn.col("key").cast("string").alias("key"),
        fn.col("value"),
        fn.col("topic"),
        fn.col("partition"),
        fn.col("offset"),
        stamp.alias("timestamp"),
    ]
    if "headers" in messages.columns:
        chosen.append(fn.col("headers"))
    else:
        chosen.append(fn.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"))
    return FrameInput(
        messages.select(*chosen),
        arrival="timestamp",
        partition="partition",
        offset="offset",
        payload="value",
        metadata=_METADATA,
        payload_as=payload_as,
    )
