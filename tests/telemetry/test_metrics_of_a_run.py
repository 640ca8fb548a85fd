"""A run gives every metric its true value, and its diagnostic log has examples of what was wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.job_in_process import Folder, RunInProcess
from tideglass.telemetry.catalogue import SERVICE_METRICS
from tideglass.telemetry.diagnostic_log import DiagnosticLog
from tideglass.telemetry.endpoint import NewestStatus
from tideglass.telemetry.prometheus import exposition

QUERY = """SELECT booth, COUNT(*) AS n INTO counts
FROM events TIMESTAMP BY t GROUP BY booth, TumblingWindow(minute, 1)"""


def at(second: float) -> str:
    return f"2026-01-01T00:{int(second) // 60:02}:{int(second) % 60:02}Z"


def event(second: int, arrival: int | None = None, booth: str = "a") -> dict[str, Any]:
    return {"t": at(second), "arrived": at(second if arrival is None else arrival), "booth": booth}


@pytest.fixture
def found(tmp_path: Path) -> tuple[dict[tuple[str, ...], float], list[dict[str, Any]]]:
    """Values by name and labels, and the entries of the diagnostic log, of one run."""
    folder = Folder(tmp_path / "job", QUERY, late_seconds=20, out_of_order_seconds=5)
    folder.put(0, [event(second) for second in range(0, 100, 10)])
    folder.put(
        0, [event(60, 91), event(100), event(88, 101), event(2000, 102)]
    )  # late and out of order, fine, out of order, early
    folder.put(1, [event(second) for second in range(0, 90, 10)])
    folder.text(1, f'{json.dumps(event(90))}\nnonsense\n{{"t": "2026-01\n')
    folder.put(1, [{**event(95), "t": "noon"}])
    newest = NewestStatus()
    with RunInProcess(folder.job()) as run:
        log = DiagnosticLog(run.directory.diagnostic_log)
        run.reporter.observers = [newest, log]
        run.batches()
        run.report()
    values = {
        (sample.name, *(f"{name}={text}" for name, text in sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition(*newest.all()).decode())
        for sample in family.samples
    }
    entries = [json.loads(line) for line in run.directory.diagnostic_log.read_text().splitlines()]
    return values, [{**each, "properties": json.loads(each["properties"])} for each in entries]


def test_counters_are_those_of_the_events(found: tuple[dict[tuple[str, ...], float], Any]):
    values, _ = found

    def of(name: str, *labels: str) -> float:
        (value,) = [value for (each, *own), value in values.items() if each == name and set(labels) <= {*own}]
        return value

    zero, one = "partition_id=0", "partition_id=1"
    assert of("tideglass_InputEvents_total", zero) == 14
    assert of("tideglass_InputEvents_total", one) == 11
    assert of("tideglass_LateInputEvents_total", zero) == 1
    assert of("tideglass_EarlyInputEvents_total", zero) == 1
    assert of("tideglass_DroppedOrAdjustedEvents_total") == 2, "the late one is out of order too"
    assert of("tideglass_DeserializationError_total", zero) == 0
    assert of("tideglass_DeserializationError_total", one) == 2
    assert of("tideglass_InputEventsSourcesPerSecond_total", zero) == 2
    assert of("tideglass_InputEventsSourcesPerSecond_total", one) == 3
    assert of("tideglass_InputEventBytes_total", one) > 500
    assert of("tideglass_OutputEvents_total") == 2
    assert of("tideglass_Errors_total") == 0
    assert of("tideglass_OutputWatermarkDelaySeconds", zero) > 0
    assert of("tideglass_output_alive") == 1
    lags = [labels for name, *labels in values if name == "tideglass_watermark_lag_seconds"]
    assert {"step=counts", "operation=tumbling window", "side=output", "kind=data"} <= {
        label for labels in lags for label in labels
    }


def test_every_metric_of_events_has_a_value(found: tuple[dict[tuple[str, ...], float], Any]):
    names = {name for name, *_ in found[0]}
    by_the_processes = {
        "tideglass_InputEventsSourcesBacklogged",
        "tideglass_ProcessCPUUsagePercentage",
        "tideglass_ResourceUtilization",
    }
    assert {each.name for each in SERVICE_METRICS} - names <= by_the_processes


def test_the_diagnostic_log_has_an_entry_of_each_kind_with_an_example(
    found: tuple[Any, list[dict[str, Any]]],
):
    data = {
        each["properties"]["DataErrorType"]: each
        for each in found[1]
        if each["properties"]["Type"] == "DataError"
    }
    assert {kind: each["properties"]["EventCount"] for kind, each in data.items()} == {
        "LateInputEvent": 1,
        "EarlyInputEvent": 1,
        "OutOfOrderEvent": 2,
        "InputDeserializerError.InvalidData": 2,
        "InvalidInputTimeStamp": 1,
    }
    late = data["LateInputEvent"]
    assert late["level"] == "Informational"
    assert "application timestamp '2026-01-01T00:01:00.0000000Z'" in late["properties"]["BriefMessage"]
    assert json.loads(json.loads(late["properties"]["ExampleEvents"])[0])["booth"] == "a"
    assert data["InvalidInputTimeStamp"]["level"] == "Warning"
    operations = [each["operationName"] for each in found[1]]
    assert (operations[0], operations[-1]) == ("Start Job", "Stop Job")
