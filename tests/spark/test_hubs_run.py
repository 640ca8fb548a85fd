"""Jobs of unchanged project files over hubs: signed in by a connection string and by Entra ID."""

from __future__ import annotations

import gzip
import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from topics import Message, create_topic, send

from support.hubs import HOST, Hubs
from tideglass.connect.files.written_rows import read_rows
from tideglass.core.errors import InputError
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.job.runner import run
from tideglass.job.start.decision import StartMode
from tideglass.project.project import load_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = """
SELECT plate, User.name AS sender, PartitionId AS p, EventEnqueuedUtcTime AS came,
    GetMetadataPropertyValue(toll, '[User].[lane]') AS lane,
    GetMetadataPropertyValue(toll, '[User].[axles]') AS axles,
    GetMetadataPropertyValue(toll, '[EventHub].[PartitionKey]') AS k,
    GetMetadataPropertyValue(toll, '[EventHub].[SequenceNumber]') AS number,
    GetMetadataPropertyValue(toll, 'EventId') AS id
INTO plates FROM toll

SELECT IoTHub.ConnectionDeviceId AS device, v,
    GetMetadataPropertyValue(devices, 'IoTHub.MessageId') AS message
INTO values FROM devices
"""
START_MS = 1_767_225_600_000


def live_input(name: str, source: str, block: str, **words: Any) -> dict[str, Any]:
    own = {key: value for key, value in words.items() if key != "CompresssionType"}
    return {
        "Name": name,
        "Type": "Data Stream",
        "DataSourceType": source,
        block: own,
        "Serialization": {"Type": "Json", "Encoding": "UTF8"},
        "CompresssionType": words.get("CompresssionType", "None"),
        "ScriptType": "Input",
    }


def write_project(folder: Path, topic: str, key: str = "${HUB_KEY}") -> Path:
    (folder / "Inputs").mkdir(parents=True)
    policy = {"SharedAccessPolicyName": "both", "SharedAccessPolicyKey": key}
    toll = live_input(
        "toll",
        "Event Hub",
        "EventHubProperties",
        ServiceBusNamespace=HOST.partition(".")[0],
        EventHubName=topic,
        ConsumerGroupName="job-1",
        AuthenticationMode="ConnectionString",
        CompresssionType="GZip",
        **policy,
    )
    (folder / "Inputs" / "toll.json").write_text(json.dumps(toll))
    (folder / "job.asaql").write_text(QUERY)
    return folder


def entra_hub(topic: str) -> dict[str, Any]:
    return live_input(
        "devices",
        "Event Hub",
        "EventHubProperties",
        ServiceBusNamespace=HOST.partition(".")[0],
        EventHubName=topic,
        AuthenticationMode="Msi",
    )


def topic(hubs: Hubs, name: str) -> str:
    made = f"{name}-{uuid.uuid4().hex[:8]}"
    create_topic(hubs.address, made, 2)
    return made


def set_environment(hubs: Hubs, monkeypatch: pytest.MonkeyPatch, iot_topic: str = "") -> None:
    for name, value in hubs.environment(iot_topic).items():
        monkeypatch.setenv(name, value)


def test_event_hubs_and_iot_hubs_are_read_from_unchanged_files_with_their_metadata(
    hubs: Hubs, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tolls, devices = topic(hubs, "toll"), topic(hubs, "devices")
    set_environment(hubs, monkeypatch, devices)
    folder = write_project(tmp_path / "job", tolls)
    iot = live_input(
        "devices",
        "IoT Hub",
        "IoTHubProperties",
        IotHubNamespace="plant",
        Endpoint="messages/events",
        SharedAccessPolicyName="both",
        SharedAccessPolicyKey="Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=both;"
        "SharedAccessKey=${HUB_KEY}",
    )
    (folder / "Inputs" / "devices.json").write_text(json.dumps(iot))
    plates = gzip.compress(b'[{"plate": "A", "User": {"name": "x"}}, {"plate": "B"}]')
    lane = {"lane": b"\xa1\x01a", "axles": b"\x54\x82"}
    send(hubs.address, tolls, [Message(plates, b"key", 1, headers=lane), Message(b"no gzip", None, 0)])
    of_device = {"iothub-connection-device-id": b"\xa1\x02d7", "message-id": b"\xa1\x01m"}
    send(hubs.address, devices, [Message(b'{"v": 1}', None, 0, headers=of_device)])
    outputs = {name: str(tmp_path / name) for name in ("plates", "values")}
    options = RunOptions(once=True, live=True, key_groups=2, outputs=outputs)
    metrics = run(plan_job(load_project(folder), options), None, spark)
    assert metrics.by_api_name()["DeserializationError"] == 1
    assert read_rows(outputs["values"]) == [{"device": "d7", "message": "m", "v": 1}]
    first = sorted(read_rows(outputs["plates"]), key=lambda row: row["plate"])
    ids = {row.pop("id") for row in first}
    assert len(ids) == 2
    times = {row.pop("came") for row in first}
    assert len(times) == 1
    assert not times & {None}
    same = {"p": 1, "lane": "a", "axles": -126, "k": "key", "number": 0}
    assert first == [{"plate": "A", "sender": "x", **same}, {"plate": "B", "sender": None, **same}]
    texts = [
        path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "Inputs" not in path.parts
    ]
    assert not [text for text in texts if b"key/1=" in text], "the key stands in no file of the job"


def test_an_application_of_entra_reads_a_hub_and_a_wrong_secret_is_told(
    hubs: Hubs, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    devices = topic(hubs, "devices")
    set_environment(hubs, monkeypatch)
    folder = tmp_path / "job"
    (folder / "Inputs").mkdir(parents=True)
    (folder / "Inputs" / "devices.json").write_text(json.dumps(entra_hub(devices)))
    (folder / "job.asaql").write_text("SELECT v INTO o FROM devices")
    send(hubs.address, devices, [Message(b'{"v": 1}'), Message(b'{"v": 2}')])
    outputs = {"o": str(tmp_path / "o")}
    options = RunOptions(once=True, live=True, key_groups=2, outputs=outputs)
    before = hubs.tokens.given
    run(plan_job(load_project(folder), options), None, spark)
    assert sorted(row["v"] for row in read_rows(outputs["o"])) == [1, 2]
    assert hubs.tokens.given > before
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "not-its-secret")
    later = replace(options, fresh=True, overwrite=True, start_mode=StartMode.TIME, start_at_ticks=0)
    with pytest.raises(InputError, match="cannot be asked"):
        run(plan_job(load_project(folder), later), None, spark)
