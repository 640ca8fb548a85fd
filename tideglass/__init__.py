"""Azure Stream Analytics jobs on Apache Spark, with exact treatment of time.

    query              a query over Spark DataFrames, streaming or not
    start, write       several outputs of such a query in one run of it, over streams or finished DataFrames
    await_termination  waits for a streaming query; what it failed with in one sentence
    explained          that sentence of any exception of Spark's
    metrics            what became of the events of such a query
    FrameInput         a DataFrame as an input: which columns say arrival time, partition and offset
    kafka              a Kafka topic as an input, read by Spark's own connector
    Job                an ASA project: load it, choose options, run it
    configure          what makes queries faster, for the builder of a Spark session of one's own

A name is loaded when it is first used, so that `import tideglass` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tideglass.api import Job
    from tideglass.dataframes import metrics, query
    from tideglass.spark.dataframes.query import FrameInput
    from tideglass.spark.dataframes.running import await_termination, explained, start, write
    from tideglass.spark.kafka.input import kafka
    from tideglass.spark.session.spark_settings import configure

__all__ = [
    "FrameInput",
    "Job",
    "await_termination",
    "configure",
    "explained",
    "kafka",
    "metrics",
    "query",
    "start",
    "write",
]

_HOMES = {
    "FrameInput": "tideglass.spark.dataframes.query",
    "Job": "tideglass.api",
    "await_termination": "tideglass.spark.dataframes.running",
    "configure": "tideglass.spark.session.spark_settings",
    "explained": "tideglass.spark.dataframes.running",
    "kafka": "tideglass.spark.kafka.input",
    "metrics": "tideglass.dataframes",
    "query": "tideglass.dataframes",
    "start": "tideglass.spark.dataframes.running",
    "write": "tideglass.spark.dataframes.running",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tideglass' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
