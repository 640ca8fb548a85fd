"""What Spark says of a failure is turned back into the error it began as; no Spark is started."""

from __future__ import annotations

from tideglass.core.errors import EvaluationError, OutputError, TideglassError
from tideglass.spark.errors import explained

IN_A_TASK = """[STREAM_FAILED] Query [id = 1] terminated with exception: An exception was thrown:
Traceback (most recent call last):
  File "source.py", line 205, in read
    yield from self._scan(scan)
tideglass.core.errors.EvaluationError: Cannot cast 'x'.
The row at offset 1 has {"v":"x"}.

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
\tat jdk.proxy3/jdk.proxy3.$Proxy41.call(Unknown Source)
"""


def test_an_error_of_a_task_keeps_its_kind_and_all_its_lines() -> None:
    error = explained(IN_A_TASK)
    assert type(error) is EvaluationError
    assert str(error) == 'Cannot cast \'x\'.\nThe row at offset 1 has {"v":"x"}.'


def test_what_was_raised_on_the_way_up_is_left_out() -> None:
    text = "tideglass.core.errors.OutputError: no room\n\nThe above exception was the direct cause of\n\nmore"
    error = explained(text)
    assert type(error) is OutputError
    assert str(error) == "no room"


def test_a_failure_of_sparks_own_is_told_in_its_words_without_stacks_and_plans() -> None:
    error = explained(
        "Job aborted\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
        "Caused by: no space left on device\n\t... 28 more\n=== Streaming Query ===\nIdentifier: 1"
    )
    assert type(error) is TideglassError
    assert str(error) == "Spark stopped the job:\nJob aborted\nCaused by: no space left on device"


def test_of_a_fault_in_a_worker_the_line_that_names_it_is_told() -> None:
    text = "Aborted: Traceback (most recent call last):\n  File x\nKeyError: 'seq'\n\tat org.apache.A.b(A:1)"
    assert str(explained(text)) == "Spark stopped the job:\nKeyError: 'seq'"
