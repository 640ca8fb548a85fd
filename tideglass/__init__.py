"""Azure Stream Analytics jobs on Apache Spark, with exact treatment of time.

    query       a query over Spark DataFrames, streaming or not
    metrics     what became of the events of such a query
    FrameInput  a DataFrame as an input: which columns say arrival time, partition and offset
    kafka       a Kafka topic as an input, read by Spark's own connector
    Job         an ASA project: load it, choose options, run it

A name is loaded when it is first used, so that `import tideglass` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tideglass.api import Job
    from tideglass.dataframes import metrics, query
    from tideglass.spark.dataframes.query import FrameInput
    from tideglass.spark.kafka.input import kafka

__all__ = ["FrameInput", "Job", "kafka", "metrics", "query"]

_HOMES = {
    "FrameInput": "tideglass.spark.dataframes.query",
    "Job": "tideglass.api",
    "kafka": "tideglass.spark.kafka.input",
    "metrics": "tideglass.dataframes",
    "query": "tideglass.dataframes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tideglass' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
