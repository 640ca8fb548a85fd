"""Rows a second into a topic: by Spark's writer, by the driver's, and by the driver's in transactions.

    python bench/kafka_output.py --rows 400000

The same rows, two partitions, a broker on this machine; each way once to warm up and once measured. Spark's
writer is that of a plain job over a DataFrame with the messages; the driver's two are `HubOutput.publish`, a
batch for every so many rows, with the making of the messages and of the ids of rows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "kafka"))
from broker import running_broker
from jars import connector_jars
from topics import create_topic

from tideglass.connect.kafka.hub_output import HubOutput
from tideglass.connect.kafka.output import TopicOutput
from tideglass.connect.output import Batch
from tideglass.core.json_rows import table_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--batch", type=int, default=50_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_broker(Path(folder)) as address:
        ways: dict[str, Callable[[str], None]] = {
            "Spark's writer": spark_writer(address, options.rows, Path(folder)),
            "the driver, at least once": driver(address, options.rows, options.batch, transactional=False),
            "the driver, in transactions": driver(address, options.rows, options.batch, transactional=True),
        }
        for way, write in ways.items():
            for measured in (False, True):
                topic = f"t-{uuid.uuid4().hex[:8]}"
                create_topic(address, topic, 2)
                began = time.perf_counter()
                write(topic)
                seconds = time.perf_counter() - began
                if measured:
                    print(f"{way:30} {options.rows / seconds:12,.0f} rows/s", flush=True)
    return 0


def driver(address: str, rows: int, batch: int, *, transactional: bool) -> Callable[[str], None]:
    """Writes by `HubOutput`, a batch after the other."""
    tables = [table(start, min(batch, rows - start)) for start in range(0, rows, batch)]

    def write(topic: str) -> None:
        output = HubOutput(TopicOutput("out", address, topic, key="device"), transactional=transactional)
        output.prepare()
        for number, rows_of_batch in enumerate(tables):
            output.publish(Batch(1, number, topic), [rows_of_batch])
        output.close()

    return write


def table(start: int, count: int) -> pa.Table:
    """Rows of some hundred bytes as JSON."""
    return table_of(
        [
            {"device": f"device-{n % 1000}", "v": n, "at": "2026-01-01T00:00:00.0000000Z", "text": "x" * 20}
            for n in range(start, start + count)
        ]
    )


def spark_writer(address: str, rows: int, folder: Path) -> Callable[[str], None]:
    """Writes the same messages by Spark's connector."""
    from tideglass.spark.session.libraries import Libraries
    from tideglass.spark.session.spark_session import local_session

    session = local_session(2, folder / "spark.log", Libraries(jars=connector_jars()))

    def write(topic: str) -> None:
        messages = session.range(rows).selectExpr(
            "concat('device-', id % 1000) AS key",
            "to_json(named_struct('device', concat('device-', id % 1000), 'v', id, "
            "'at', '2026-01-01T00:00:00.0000000Z', 'text', repeat('x', 20))) AS value",
        )
        messages.write.format("kafka").option("kafka.bootstrap.servers", address).option(
            "topic", topic
        ).save()

    return write


if __name__ == "__main__":
    sys.exit(main())
