"""What the end of a query means to a run; no Spark is started."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ClassVar, cast

import pytest
from pyspark.errors import StreamingQueryException

from tideglass.core.errors import TideglassError
from tideglass.spark.query import wait, waits_for_events

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Ends:
    """A query that has ended with this text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def awaitTermination(self, _: int) -> bool:
        raise StreamingQueryException(self.text)


def query(text: str) -> StreamingQuery:
    return cast("StreamingQuery", Ends(text))


IN_A_BATCH = """[STREAM_FAILED] Query terminated with exception: An exception was thrown:
Traceback (most recent call last):
  File "query.py", line 124, in on_batch
    raise StopAsked
{error}

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""


def test_a_batch_that_sees_the_stop_file_before_the_run_does_has_stopped_the_run() -> None:
    wait(query(IN_A_BATCH.format(error="tideglass.spark.stop_asked.StopAsked")), threading.Event())


@pytest.mark.parametrize(
    ("message", "waits"),
    [
        ("Initializing sources", False),
        ("Getting offsets from PythonMicroBatchStream", False),
        ("Processing new data", False),
        ("Waiting for data to arrive", True),
        ("Waiting for next trigger", True),
    ],
)
def test_a_query_waits_once_it_has_looked(message: str, waits: bool) -> None:
    class Looks:
        status: ClassVar = {"message": message, "isDataAvailable": False, "isTriggerActive": False}

    assert waits_for_events(cast("StreamingQuery", Looks())) is waits


def test_an_error_is_told_although_a_stop_was_asked() -> None:
    asked = threading.Event()
    asked.set()
    with pytest.raises(TideglassError, match="no room"):
        wait(query(IN_A_BATCH.format(error="tideglass.core.errors.OutputError: no room")), asked)
