"""A run on Spark serves its metrics while it lasts and leaves them in a file; the service's are all there."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

import tideglass
from support.project_on_disk import SMALL_BATCH_BYTES, OnDisk, disordered
from tideglass.job.outputs import BatchRows
from tideglass.job.report.metrics import Metrics
from tideglass.telemetry.catalogue import SERVICE_METRICS
from tideglass.telemetry.exports import Exports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_every_metric_of_the_service_has_its_value(spark: SparkSession, tmp_path: Path) -> None:
    project = OnDisk(tmp_path, spark)
    project.make()
    for partition in range(2):
        project.put(f"{partition}/a.json", disordered(partition, 400))
    port, file, scrapes = free_port(), tmp_path / "metrics.jsonl", list[str]()

    def scrape(batch: int, rows: BatchRows, metrics: Metrics) -> None:
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            scrapes.append(answer.read().decode())

    job = tideglass.Job.load(project.folder, once=True, key_groups=2, batch_bytes=SMALL_BATCH_BYTES)
    counted = job.run(scrape, spark, exports=Exports(port=port, file=file)).by_api_name()
    assert all("tideglass_job_state{" in each for each in scrapes)
    assert len(scrapes) > 2
    last: dict[str, Any] = json.loads(file.read_text().splitlines()[-1])["metrics"]
    # At the end of its input a partition has no delay.
    delay = "tideglass_OutputWatermarkDelaySeconds"
    assert {each.name for each in SERVICE_METRICS} - set(last) == {delay}
    assert any(f"{delay}{{" in each for each in scrapes)
    assert [each["state"] for each in last["tideglass_job_state"] if each["value"]] == ["Stopped"]

    def total(name: str) -> float:
        return sum(each["value"] for each in last[f"tideglass_{name}"])

    assert total("InputEvents_total") == counted["InputEvents"] == 800
    assert total("LateInputEvents_total") == counted["LateInputEvents"] > 0
    assert total("OutputEvents_total") == counted["OutputEvents"] > 0
    assert total("InputEventsSourcesPerSecond_total") == 2
    assert total("ProcessCPUUsagePercentage") > 0
    assert 0 < total("ResourceUtilization") < 100
    with pytest.raises(OSError, match="refused"):  # the endpoint has ended with the run
        urlopen(f"http://127.0.0.1:{port}/metrics")
