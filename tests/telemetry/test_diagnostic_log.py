"""The diagnostic log has the service's shape, and its size does not follow the number of errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.statuses import full_status
from tideglass.job.report.status import ErrorStatus, JobState, Status
from tideglass.telemetry.diagnostic_log import MOST_CHARACTERS, DiagnosticLog

BAD = ErrorStatus(
    "toll", "0", "InputDeserializerError.InvalidData", 2, "it is no JSON", '{"a', "2026-01-01T12:00:01Z"
)
LATE = ErrorStatus("toll", "1", "LateInputEvent", 3, "too late\nby 4s", '{"id": 7}', "2026-01-01T12:00:01Z")


def entries(path: Path) -> list[dict[str, Any]]:
    """The entries of a log, their properties read."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [{**each, "properties": json.loads(each["properties"])} for each in found]


def data_errors(path: Path) -> list[dict[str, Any]]:
    return [each for each in entries(path) if each["properties"]["Type"] == "DataError"]


def status_at(minute: int, *errors: ErrorStatus, state: JobState = JobState.RUNNING) -> Status:
    outputs = tuple(replace(each, failed_calls=0) for each in full_status().outputs)
    return full_status(updated=f"2026-01-01T12:{minute:02d}:00Z", errors=errors, state=state, outputs=outputs)


def test_an_entry_has_the_fields_of_the_service(tmp_path: Path):
    log = DiagnosticLog(tmp_path / "d.jsonl")
    log(status_at(0))
    log(status_at(1, BAD, LATE))
    log(status_at(2, BAD, LATE, state=JobState.STOPPED))
    bad, late = data_errors(tmp_path / "d.jsonl")
    assert bad == {
        "time": "2026-01-01T12:02:00Z",
        "resourceId": "/TIDEGLASS/STREAMINGJOBS/TOLL",
        "category": "Execution",
        "operationName": "Receive Events: InputDeserializerError.InvalidData in toll",
        "status": "Failed",
        "level": "Warning",
        "properties": {
            "Source": "toll",
            "PartitionId": "0",
            "Type": "DataError",
            "DataErrorType": "InputDeserializerError.InvalidData",
            "BriefMessage": "it is no JSON",
            "Message": "it is no JSON",
            "ExampleEvents": '["{\\"a"]',
            "FromTimestamp": "2026-01-01T12:00:01Z",
            "ToTimestamp": "2026-01-01T12:00:01Z",
            "EventCount": 2,
            "ErrorCode": "InputDeserializationError",
            "ErrorCategory": "Diagnostic",
        },
    }
    assert late["level"] == "Informational"
    assert late["properties"]["ErrorCode"] == "InputEventLateBeyondThreshold"
    assert late["properties"]["BriefMessage"] == "too late"
    assert late["properties"]["Message"] == "too late\nby 4s"


@pytest.mark.parametrize(
    ("error_type", "level", "code"),
    [
        ("LateInputEvent", "Informational", "InputEventLateBeyondThreshold"),
        ("EarlyInputEvent", "Informational", "InputEventEarlyBeyondThreshold"),
        ("OutOfOrderEvent", "Informational", None),
        ("InvalidInputTimeStamp", "Warning", "InputEventTimestampNotFound"),
        ("InvalidInputTimeStampKey", "Warning", "InputEventTimestampByOverValueNotFound"),
        ("InputDeserializerError.MissingColumns", "Warning", "InputDeserializationError"),
    ],
)
def test_level_and_code_follow_from_the_kind(tmp_path: Path, error_type: str, level: str, code: str | None):
    log = DiagnosticLog(tmp_path / "d.jsonl")
    log(status_at(0, replace(BAD, error_type=error_type), state=JobState.STOPPED))
    (entry,) = data_errors(tmp_path / "d.jsonl")
    assert (entry["level"], entry["properties"].get("ErrorCode")) == (level, code)


def test_errors_of_ten_minutes_are_one_entry_and_each_is_counted_once(tmp_path: Path):
    log = DiagnosticLog(tmp_path / "d.jsonl")
    for minute in range(25):  # a late event a minute; from minute 12 on none
        count = min(minute, 12) + 1
        log(status_at(minute, replace(LATE, count=count, last=f"2026-01-01T12:{min(minute, 12):02d}:00Z")))
    log(status_at(26, replace(LATE, count=13), state=JobState.STOPPED))
    found = data_errors(tmp_path / "d.jsonl")
    assert [each["time"][14:16] for each in found] == ["10", "20"]
    assert [each["properties"]["EventCount"] for each in found] == [11, 2]
    assert [each["properties"]["FromTimestamp"][14:16] for each in found] == ["00", "11"]
    assert [each["properties"]["ToTimestamp"][14:16] for each in found] == ["10", "12"]


def test_partitions_are_counted_into_one_entry_also_where_one_is_left_out_of_the_status(tmp_path: Path):
    log = DiagnosticLog(tmp_path / "d.jsonl")
    log(status_at(0, LATE, replace(LATE, partition="2", count=5)))
    log(status_at(1, replace(LATE, partition="2", count=6)))
    log(status_at(2, replace(LATE, count=2), replace(LATE, partition="2", count=6), state=JobState.STOPPED))
    (entry,) = data_errors(tmp_path / "d.jsonl")
    assert entry["properties"]["EventCount"] == 3 + 6 + 2
    assert entry["properties"]["PartitionId"] == "1"


def test_a_run_has_a_start_and_an_end_under_one_guid(tmp_path: Path):
    log = DiagnosticLog(tmp_path / "d.jsonl")
    log(status_at(0))
    log(replace(status_at(1, state=JobState.FAILED), error="disk full\nmore"))
    first, last = entries(tmp_path / "d.jsonl")
    assert (first["operationName"], first["level"]) == ("Start Job", "Informational")
    assert (last["operationName"], last["level"], last["status"]) == ("Stop Job", "Error", "Failed")
    assert last["properties"]["Error"] == "disk full"
    assert first["properties"]["Correlation ID"] == last["properties"]["Correlation ID"]
    DiagnosticLog(tmp_path / "e.jsonl")(replace(status_at(0), run=4))
    (other,) = entries(tmp_path / "e.jsonl")
    assert other["properties"]["Correlation ID"] != first["properties"]["Correlation ID"]


def test_writes_that_fail_are_counted_into_one_entry(tmp_path: Path):
    log = DiagnosticLog(tmp_path / "d.jsonl")
    output = full_status().outputs[0]
    log(replace(status_at(0), outputs=(replace(output, failed_calls=0),)))
    log(replace(status_at(5), outputs=(replace(output, failed_calls=4),)))
    log(replace(status_at(10), outputs=(replace(output, failed_calls=6),)))
    log(replace(status_at(20), outputs=(replace(output, failed_calls=6),)))
    (entry,) = [each for each in entries(tmp_path / "d.jsonl") if each["properties"]["Type"] == "OutputError"]
    assert entry["operationName"] == "Send Events: write failure to perMinute"
    assert entry["properties"]["Message"] == "6 writes to perMinute failed: no space left"


def test_an_entry_and_the_log_stay_small(tmp_path: Path):
    path, most = tmp_path / "d.jsonl", 50_000
    log = DiagnosticLog(path, period_seconds=0, most_bytes=most)
    huge = replace(BAD, message="m" * 100_000, example="e" * 100_000)
    for number in range(40):
        log(status_at(number, replace(huge, count=number + 1)))
    for file in (path, tmp_path / "d.jsonl.1"):
        assert 0 < file.stat().st_size <= most
        assert max(len(line) for line in file.read_text().splitlines()) < 4 * MOST_CHARACTERS
