"""Spark's own listener gives the metrics of streaming queries to Prometheus and to a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

import tideglass
from support.times import at
from tideglass.telemetry.exports import Exports
from tideglass.telemetry.query_statuses import watching

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERY = "SELECT device, v INTO o FROM events TIMESTAMP BY t"


@pytest.mark.versions
def test_a_streaming_query_is_seen_by_prometheus_and_in_the_file(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    rows = [
        {"device": "x", "v": n, "t": at(n - (20 if n % 5 == 0 else 0)), "came": at(n)} for n in range(50, 90)
    ]
    (folder / "a.json").write_text("\n".join(json.dumps(row) for row in rows))
    df = spark.readStream.schema("device STRING, v BIGINT, t STRING, came STRING").json(str(folder))
    settings = {"late_arrival": "5s", "out_of_order": "0s"}
    output = tideglass.query(spark, QUERY, {"events": (df, {"arrival": "came"})}, settings, key_groups=2)["o"]
    file = tmp_path / "metrics.jsonl"
    with watching(spark, Exports(port=0, file=file)) as watched:
        query = (
            output.writeStream.format("noop")
            .queryName("devices")
            .option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert watched.metrics_url is not None
        deadline = time.monotonic() + 20  # Spark tells its listeners later, in a thread of its own
        while time.monotonic() < deadline and not file_has_ended(file):
            time.sleep(0.1)
        with urlopen(watched.metrics_url) as answer:
            text = answer.read().decode()
    found = {
        each.name: each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
        if each.labels["job_name"] == "devices" and each.labels.get("state", "Stopped") == "Stopped"
    }
    counted = tideglass.metrics(query).by_api_name()
    assert found["tideglass_job_state"] == 1
    assert found["tideglass_InputEvents_total"] == counted["InputEvents"] == 40
    assert found["tideglass_LateInputEvents_total"] == counted["LateInputEvents"] == 8
    assert found["tideglass_run_events_total"] == 40
    assert found["tideglass_partition_watermark_lag_seconds"] == 0
    last = json.loads(file.read_text().splitlines()[-1])
    assert last["job_name"] == "devices"
    assert last["metrics"]["tideglass_LateInputEvents_total"][0]["value"] == 8


def file_has_ended(file: Path) -> bool:
    """Whether the last line of metrics is of a query that has stopped."""
    lines = file.read_text().splitlines()
    if not lines:
        return False
    states = json.loads(lines[-1])["metrics"]["tideglass_job_state"]
    return any(each["state"] == "Stopped" and each["value"] == 1 for each in states)
