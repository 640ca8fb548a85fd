"""The Spark engine of the test kit: rows in, rows out, as a short streaming query of several batches."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from tideglass.connect.in_memory import Row, RowsInput
from tideglass.connect.reference.references import NO_REFERENCES, References
from tideglass.engine.exchange import RowSink
from tideglass.engine.messages import Message
from tideglass.engine.snapshots import Snapshots
from tideglass.local import rows_by_output
from tideglass.plan.topology import Topology
from tideglass.spark.file_source import SourceJob
from tideglass.spark.key_numbers import key_numbers
from tideglass.spark.query import QueryOptions, start, wait
from tideglass.spark.session.spark_session import local_session

#: A batch costs about as much as all its rows; two show that a cut changes nothing.
BATCHES = 2
#: Tasks of a batch, and cores of a new session.
TASKS = 2


def run_on_spark(
    topology: Topology,
    inputs: Mapping[str, Sequence[Row]],
    batches: int = BATCHES,
    references: References = NO_REFERENCES,
) -> Mapping[str, list[pa.Table]]:
    """The rows of every output, after the inputs have been read in about `batches` batches and flushed.

    The Spark session of this process is used; the first call starts it.
    topology: the query.
    inputs: rows per input of the topology, by its name there.
    batches: about how many batches read them.
    references: reference data.
    Raises EvaluationError for a row that fails.
    """
    spark = local_session(TASKS)
    received: list[Message] = []
    with tempfile.TemporaryDirectory(prefix="tideglass-") as directory:
        job = SourceJob(
            topology=topology,
            inputs=tuple(
                RowsInput(name, tuple(rows), max(1, -(-len(rows) // batches)))
                for name, rows in inputs.items()
            ),
            snapshots=Snapshots(str(Path(directory) / "ingress")),
            sink=RowSink(),
            key_numbers=key_numbers(topology.key_groups),
            finished=True,
            batch_bytes=1,
            idle_seconds=0.0,
            tasks=TASKS,
            stop_file=str(Path(directory) / "stop"),
            references=references,
        )
        options = QueryOptions(str(Path(directory) / "checkpoint"), str(Path(directory) / "stop"))
        query = start(spark, job, options, lambda _, messages: received.extend(messages))
        wait(query, threading.Event())
    return rows_by_output(topology, received)
