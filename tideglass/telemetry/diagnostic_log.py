"""The diagnostic log of a job, in the shape the service gives its resource logs (`asa.md` 9.2).

Data errors are aggregated: an entry says how many events of one input and kind there were within ten minutes,
with an example. A job with a million late events so has as many entries as one with three.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tideglass.job.report.output_calls import CONVERSION_ERROR
from tideglass.job.report.status import ErrorStatus, JobState, OutputStatus, Status
from tideglass.storage import AnyPath, storage_path
from tideglass.telemetry.rotated_lines import RotatedLines
from tideglass.telemetry.samples import unix_seconds

#: How long data errors of one kind are counted into one entry.
PERIOD_SECONDS = 600.0
#: Of the file and of the one before it.
MOST_BYTES = 4 << 20
#: Of the examples and of a message in an entry: the service shows a few kB.
MOST_CHARACTERS = 2000


class Level(StrEnum):
    """How serious an entry is."""

    ERROR = "Error"
    WARNING = "Warning"
    INFORMATIONAL = "Informational"


#: Kinds the time policies have settled; every other data error is a warning (`asa.md` 9.2).
_SETTLED = {"LateInputEvent", "EarlyInputEvent", "OutOfOrderEvent"}
#: The service's code of a kind of data error. It has none for an event out of order.
_CODES = {
    "InvalidInputTimeStamp": "InputEventTimestampNotFound",
    "InvalidInputTimeStampKey": "InputEventTimestampByOverValueNotFound",
    "LateInputEvent": "InputEventLateBeyondThreshold",
    "EarlyInputEvent": "InputEventEarlyBeyondThreshold",
}
_DESERIALIZER = "InputDeserializerError"


def error_code(error_type: str) -> str | None:
    """The service's code of a data error; None for one without.

    >>> error_code("InputDeserializerError.InvalidData"), error_code("OutOfOrderEvent")
    ('InputDeserializationError', None)
    >>> error_code("OutputDataConversionError.DuplicateKey")
    'OutputDataConversionError.DuplicateKey'
    """
    if error_type.startswith(CONVERSION_ERROR):
        return error_type
    return "InputDeserializationError" if error_type.startswith(_DESERIALIZER) else _CODES.get(error_type)


@dataclass(slots=True)
class _Counted:
    """Data errors of one input and kind within a period.

    newest: those of the partition where the last were met.
    first: when the first of the period were met, ISO text.
    count: of all partitions.
    """

    newest: ErrorStatus
    first: str
    count: int


class DiagnosticLog:
    """Writes the diagnostic log of a run; called with every status of it.

    path: of the log; it is put aside as `<name>.1` at `most_bytes`.
    period_seconds: how long data errors of one kind are counted into one entry.
    """

    def __init__(
        self, path: AnyPath, period_seconds: float = PERIOD_SECONDS, most_bytes: int = MOST_BYTES
    ) -> None:
        self._file = RotatedLines(storage_path(path), most_bytes)
        self._period_seconds = period_seconds
        self._period_began: float | None = None
        self._known: dict[tuple[str, str, str], int] = {}
        self._counted: dict[tuple[str, str], _Counted] = {}
        self._failed_calls: dict[str, int] = {}
        self._dead: set[str] = set()

    def __call__(self, status: Status) -> None:
        """Take in a status, and write what is due. Raises OSError where the log cannot be written."""
        now = unix_seconds(status.updated) or 0.0
        over = status.state in (JobState.STOPPED, JobState.FAILED)
        lines: list[str] = []
        if self._period_began is None:
            self._period_began = now
            lines.append(_started(status))
        for each in status.errors:
            self._count(each, each.last or status.updated)
        lines += self._died(status)
        if over or now - self._period_began >= self._period_seconds:
            self._period_began = now
            lines += self._due(status)
        if over:
            lines.append(_ended(status))
        self._file.append(lines)

    def _count(self, error: ErrorStatus, at: str) -> None:
        key = (error.input, error.partition, error.error_type)
        before = self._known.get(key, 0)
        self._known[key] = error.count
        # A status names so many kinds only; one that was left out for a while begins at 0 again.
        more = error.count - before if error.count >= before else error.count
        if not more:
            return
        counted = self._counted.setdefault((error.input, error.error_type), _Counted(error, at, 0))
        counted.newest, counted.count = error, counted.count + more

    def _due(self, status: Status) -> Iterator[str]:
        """The entries of a period that is over; with that the next one begins."""
        for counted in self._counted.values():
            yield _data_error(status, counted)
        self._counted = {}
        for output in status.outputs:
            yield from self._failures(status, output)

    def _died(self, status: Status) -> Iterator[str]:
        """Entries about outputs that a batch waits for since a moment ago."""
        dead = {each.output: each for each in status.outputs if each.next_try is not None}
        for name in dead.keys() - self._dead:
            yield from self._failures(status, dead[name])
        self._dead = set(dead)

    def _failures(self, status: Status, output: OutputStatus) -> Iterator[str]:
        """An entry about the calls that failed since the last one, if any did."""
        failed = output.failed_calls - self._failed_calls.get(output.output, 0)
        if failed:
            self._failed_calls[output.output] = output.failed_calls
            yield _write_failure(status, output.output, failed, output.last_error or "")


def _data_error(status: Status, counted: _Counted) -> str:
    error = counted.newest
    properties: dict[str, Any] = {
        "Source": error.input,
        "PartitionId": error.partition or None,
        "Type": "DataError",
        "DataErrorType": error.error_type,
        "BriefMessage": _cut(error.message.partition("\n")[0]),
        "Message": _cut(error.message),
        "ExampleEvents": json.dumps([] if error.example is None else [_cut(error.example)]),
        "FromTimestamp": counted.first,
        "ToTimestamp": error.last or status.updated,
        "EventCount": counted.count,
        "ErrorCode": error_code(error.error_type),
        "ErrorCategory": "Diagnostic",
    }
    level = Level.INFORMATIONAL if error.error_type in _SETTLED else Level.WARNING
    known = {name: value for name, value in properties.items() if value is not None}
    is_output = error.error_type.startswith(CONVERSION_ERROR)
    operation = "Send Events: {} to {}" if is_output else "Receive Events: {} in {}"
    return _entry(status, operation.format(error.error_type, error.input), "Failed", level, known)


def _write_failure(status: Status, output: str, calls: int, reason: str) -> str:
    brief = f"{calls:,} writes to {output} failed"
    properties = _generic(status, brief, f"{brief}: {_cut(reason)}", "OutputError")
    return _entry(
        status,
        f"Send Events: write failure to {output}",
        "Failed",
        Level.WARNING,
        {"Source": output, **properties},
    )


def _started(status: Status) -> str:
    message = f"run {status.run} started: {status.cause}"
    properties = _generic(status, None, message, "JobStarted")
    return _entry(status, "Start Job", "Succeeded", Level.INFORMATIONAL, properties)


def _ended(status: Status) -> str:
    if status.state is JobState.FAILED:
        error = _cut(status.error or "the run failed without a message")
        properties = _generic(status, error.partition("\n")[0], error, "JobFailed")
        return _entry(status, "Stop Job", "Failed", Level.ERROR, properties)
    message = f"run {status.run} ended after {status.batches:,} batches and {status.events:,} events"
    return _entry(
        status, "Stop Job", "Succeeded", Level.INFORMATIONAL, _generic(status, None, message, "JobStopped")
    )


def _generic(status: Status, error: str | None, message: str, kind: str) -> dict[str, Any]:
    return {"Error": error, "Message": message, "Type": kind, "Correlation ID": correlation_id(status)}


def correlation_id(status: Status) -> str:
    """The GUID of a run, the same in all its entries."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"tideglass:{status.job}/{status.since}/{status.run}"))


def _entry(status: Status, operation: str, outcome: str, level: Level, properties: dict[str, Any]) -> str:
    return json.dumps(
        {
            "time": status.updated,
            "resourceId": f"/TIDEGLASS/STREAMINGJOBS/{status.job.upper()}",
            "category": "Execution",
            "operationName": operation,
            "status": outcome,
            "level": level.value,
            "properties": json.dumps(properties),
        }
    )


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
