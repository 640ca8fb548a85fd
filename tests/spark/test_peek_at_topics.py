"""`tideglass peek` at topics and hubs: the last messages with their metadata, and no trace at the broker."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from topics import Message, create_topic, send

from support.hubs import HOST, Hubs
from tideglass.cli.main import main


def project_in(folder: Path, content: dict[str, Any]) -> Path:
    (folder / "Inputs").mkdir(parents=True)
    common = {"Name": "toll", "Type": "Data Stream", "ScriptType": "Input", "Serialization": {"Type": "Json"}}
    (folder / "Inputs" / "toll.json").write_text(json.dumps(common | content))
    (folder / "job.asaql").write_text("SELECT v INTO o FROM toll TIMESTAMP BY at")
    return folder


def peeked(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    with pytest.raises(SystemExit) as ended:
        main(["peek", *arguments, "toll", "--live", "--json"])
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    return [json.loads(each) for each in out.splitlines()]


def filled(hubs: Hubs, partitions: int = 2) -> str:
    """A topic of 20 messages a partition, and one that is no event."""
    topic = f"peek-{uuid.uuid4().hex[:8]}"
    create_topic(hubs.address, topic, partitions)
    body = [
        Message(
            json.dumps({"v": n, "at": "2020-01-01T00:00:00Z"}).encode(),
            b"k",
            n % partitions,
            0,
            {"lane": b"3"},
        )
        for n in range(20 * partitions)
    ]
    send(hubs.address, topic, [*body, Message(b"{no", partition=0)])
    return topic


def test_the_last_messages_of_a_topic_are_shown_and_no_group_is_joined(
    hubs: Hubs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    topic = filled(hubs)
    servers = {"BootstrapServers": hubs.address, "Topic": topic}
    project = project_in(tmp_path, {"DataSourceType": "Kafka", "KafkaProperties": servers})
    found = peeked(capsys, str(project), "--events", "6")
    events = [each for each in found if "event" in each]
    assert len(events) == 6
    assert {each["event"]["v"] for each in events} <= set(range(20, 40))
    assert all(each["offset"] == each["event"]["v"] // 2 for each in events)
    assert [each["count"] for each in found if "refused" in each] == [1]
    assert peeked(capsys, str(project), "--events", "6") == found
    admin: Any = AdminClient({"bootstrap.servers": hubs.address})
    groups = {each.group_id for each in admin.list_consumer_groups(request_timeout=20).result().valid}
    assert not any("peek" in each for each in groups), groups


def test_a_hub_is_signed_in_to_and_its_metadata_are_shown(
    hubs: Hubs, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    topic = filled(hubs, 1)
    for name, value in hubs.environment().items():
        monkeypatch.setenv(name, value)
    properties = {
        "ServiceBusNamespace": HOST.partition(".")[0],
        "EventHubName": topic,
        "SharedAccessPolicyName": "both",
        "SharedAccessPolicyKey": "${HUB_KEY}",
        "ConsumerGroupName": "$Default",
    }
    project = project_in(tmp_path, {"DataSourceType": "Event Hub", "EventHubProperties": properties})
    found = [each for each in peeked(capsys, str(project), "--events", "2") if "event" in each]
    assert [each["event"]["v"] for each in found] == [18, 19]
    metadata = found[-1]["metadata"]
    assert (metadata["EventHub"]["SequenceNumber"], metadata["EventHub"]["PartitionKey"]) == (19, "k")
    assert metadata["User"] == {"lane": "3"}
    monkeypatch.setenv("HUB_KEY", "wrong")
    with pytest.raises(SystemExit) as ended:
        main(["peek", str(project), "toll", "--live"])
    assert ended.value.code == 1
    assert "does not answer" in capsys.readouterr().err


def test_a_topic_that_is_not_there_is_named(hubs: Hubs, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    servers = {"BootstrapServers": hubs.address, "Topic": "nothing-here"}
    project = project_in(tmp_path, {"DataSourceType": "Kafka", "KafkaProperties": servers})
    with pytest.raises(SystemExit) as ended:
        main(["peek", str(project), "toll", "--live"])
    assert ended.value.code == 1
    assert "nothing-here" in capsys.readouterr().err
