"""Input files of Event Hubs and IoT Hub, as the service's tools and its interface write them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tideglass.connect.azure.endpoints import ENDPOINTS
from tideglass.connect.kafka.topic import TopicInput
from tideglass.core.errors import ProjectError
from tideglass.project.project import Project, load_project
from tideglass.storage import storage_path

HUB = {
    "ServiceBusNamespace": "contoso",
    "EventHubName": "toll",
    "SharedAccessPolicyName": "listen",
    "SharedAccessPolicyKey": None,
    "ConsumerGroupName": "",
    "AuthenticationMode": "ConnectionString",
}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def project(folder: Path, content: dict[str, Any], query: str = "SELECT a INTO o FROM toll") -> Project:
    (folder / "Inputs").mkdir(exist_ok=True)
    (folder / "Inputs" / "toll.json").write_text(json.dumps(content))
    (folder / "job.asaql").write_text(query)
    return load_project(folder)


def tools(source: str = "Event Hub", block: str = "EventHubProperties", **words: Any) -> dict[str, Any]:
    own = {key: words.pop(key) for key in list(words) if key in (*HUB, "IotHubNamespace", "Endpoint", "X")}
    others = {"BlobStorageProperties": None, "CompresssionType": "None", "ScriptType": "Input"}
    base = {
        "Name": "toll",
        "Type": "Data Stream",
        "DataSourceType": source,
        "Serialization": {"Type": "Json"},
    }
    return base | others | {block: (HUB if block.startswith("Event") else {}) | own} | words


def topic_of(loaded: Project) -> TopicInput:
    found = loaded.inputs["toll"].live
    assert isinstance(found, TopicInput)
    return found


def test_an_event_hub_is_a_topic_of_its_namespace(tmp_path: Path):
    loaded = project(tmp_path, tools())
    assert not loaded.warnings
    assert not loaded.unsupported
    topic = topic_of(loaded)
    environment = {"Inputs_toll_DataSource_SharedAccessPolicyKey": "a+b/c="}
    assert topic.place(environment) == "toll"
    assert topic.connector_options(environment) == {
        "kafka.bootstrap.servers": "contoso.servicebus.windows.net:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{PLAIN} username="$ConnectionString" password="Endpoint='
        "sb://contoso.servicebus.windows.net/;SharedAccessKeyName=listen;SharedAccessKey=a+b/c="
        '";',
    }
    assert (topic.arrival, topic.format, topic.records) == ("LogAppendTime", "json", "EventHub")
    with pytest.raises(ProjectError, match="Inputs_toll_DataSource_SharedAccessPolicyKey, which is not set"):
        topic.connector_options({})


def test_the_interfaces_spelling_is_the_same_hub(tmp_path: Path):
    properties = {key[0].lower() + key[1:]: value for key, value in HUB.items()}
    for type_ in ("Microsoft.ServiceBus/EventHub", "Microsoft.EventHub/EventHub"):
        content = {
            "name": "toll",
            "properties": {
                "type": "Stream",
                "datasource": {"type": type_, "properties": properties | {"consumerGroupName": "cg"}},
                "compression": {"type": "GZip"},
                "serialization": {"type": "Csv", "properties": {"fieldDelimiter": ";", "encoding": "UTF8"}},
            },
        }
        topic = topic_of(project(tmp_path, content))
        assert topic.servers == "contoso.servicebus.windows.net:9093"
        assert (topic.format, topic.delimiter, topic.compression) == ("csv", ";", "gzip")
        assert topic.options["kafka.group.id"] == "cg"


@pytest.mark.parametrize("word", ["GZip", "gzip", "Deflate", "None", None])
def test_compression_is_read_in_the_spellings_of_the_tools(tmp_path: Path, word: str | None):
    for key in ("CompresssionType", "CompressionType"):
        content = tools()
        del content["CompresssionType"]
        topic = topic_of(project(tmp_path, content | {key: word}))
        assert topic.compression == (word or "None").lower()


def test_a_key_in_the_file_is_noted_and_stands_in_no_text_about_the_input(tmp_path: Path):
    loaded = project(tmp_path, tools(SharedAccessPolicyKey="s3cret="))
    assert len(loaded.unsupported) == 1
    assert '"${Inputs_toll_DataSource_SharedAccessPolicyKey}"' in loaded.unsupported[0]
    topic = topic_of(loaded)
    assert "s3cret=" in topic.connector_options({})["kafka.sasl.jaas.config"]
    told = [
        repr(topic),
        repr(loaded),
        *loaded.unsupported,
        json.dumps(topic.identity(storage_path(tmp_path))),
    ]
    assert not [text for text in told if "s3cret" in text]


def test_a_key_may_be_the_connection_string_of_the_portal(tmp_path: Path):
    topic = topic_of(project(tmp_path, tools(SharedAccessPolicyKey="${KEY}")))
    whole = "Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=x;SharedAccessKey=y=;EntityPath=toll"
    options = topic.connector_options({"KEY": whole})
    assert options["kafka.sasl.jaas.config"].endswith(f'username="$ConnectionString" password="{whole}";')


def test_an_identity_of_entra_signs_in_by_the_credentials_of_an_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    topic = topic_of(project(tmp_path, tools(AuthenticationMode="Msi")))
    application = {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s"}
    options = topic.connector_options(application)
    assert options["kafka.sasl.mechanism"] == "OAUTHBEARER"
    url = "kafka.sasl.oauthbearer.token.endpoint.url"
    assert options[url] == "https://login.microsoftonline.com/t/oauth2/v2.0/token"
    assert (
        'clientId="c" clientSecret="s" scope="https://contoso.servicebus.windows.net/.default"'
        in (options["kafka.sasl.jaas.config"])
    )
    monkeypatch.setenv(ENDPOINTS, json.dumps({"login.microsoftonline.com": "http://127.0.0.1:5/x"}))
    assert topic.connector_options(application)[url] == "http://127.0.0.1:5/x/t/oauth2/v2.0/token"


def test_a_stand_in_says_where_and_how_the_broker_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    topic = topic_of(project(tmp_path, tools(SharedAccessPolicyKey="${KEY}")))
    before = topic.identity(storage_path(tmp_path))
    stand_in = {"contoso.servicebus.windows.net": "sasl_plaintext://127.0.0.1:9"}
    monkeypatch.setenv(ENDPOINTS, json.dumps(stand_in))
    options = topic.connector_options({"KEY": "k"})
    assert options["kafka.bootstrap.servers"] == "127.0.0.1:9"
    assert options["kafka.security.protocol"] == "SASL_PLAINTEXT"
    assert topic.identity(storage_path(tmp_path)) == before
    monkeypatch.setenv(ENDPOINTS, json.dumps(dict.fromkeys(stand_in, "http://127.0.0.1:9")))
    with pytest.raises(ProjectError, match="which is no broker's"):
        topic.connector_options({"KEY": "k"})


def test_an_iot_hub_is_read_by_the_broker_its_endpoint_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    content = tools("IoT Hub", "IoTHubProperties", IotHubNamespace="plant", Endpoint="messages/events")
    topic = topic_of(project(tmp_path, content))
    environment = {"Inputs_toll_DataSource_SharedAccessPolicyKey": "k"}
    with pytest.raises(ProjectError, match=r"--endpoint plant\.azure-devices\.net=sasl_ssl://"):
        topic.connector_options(environment)
    broker = "sasl_ssl://ihsu1.servicebus.windows.net:9093/iothub-ehub-plant-1"
    monkeypatch.setenv(ENDPOINTS, json.dumps({"plant.azure-devices.net": broker}))
    assert topic.place(environment) == "iothub-ehub-plant-1"
    options = topic.connector_options(environment)
    assert options["kafka.bootstrap.servers"] == "ihsu1.servicebus.windows.net:9093"
    assert (
        "Endpoint=sb://ihsu1.servicebus.windows.net/;SharedAccessKeyName=iothubowner;"
        in (options["kafka.sasl.jaas.config"])
    )
    assert topic.records == "IoTHub"


@pytest.mark.parametrize(
    ("content", "piece"),
    [
        (tools(EventHubName=None), '"EventHubName" is missing'),
        (tools(ServiceBusNamespace=""), '"ServiceBusNamespace" is missing'),
        (tools("IoT Hub", "IoTHubProperties", IotHubNamespace=""), '"IotHubNamespace" is missing'),
        (tools("IoT Hub", "IoTHubProperties", IotHubNamespace="a", Endpoint="operationsMonitoring"), "only"),
        (tools(CompresssionType="LZ"), "\"CompresssionType\" is 'LZ'"),
        (tools(Serialization={"Type": "Protobuf"}), "'protobuf' are not read by a live run"),
    ],
)
def test_a_file_that_says_too_little_is_noted_and_keeps_no_local_run_from_starting(
    tmp_path: Path, content: dict[str, Any], piece: str
):
    loaded = project(tmp_path, content)
    assert loaded.inputs["toll"].live is None
    assert any(piece in text for text in loaded.unsupported), loaded.unsupported


def test_a_misspelt_key_is_a_warning(tmp_path: Path):
    own = {"ConsumerGroupNme": "x"}
    content = tools()
    content["EventHubProperties"] = HUB | own
    del content["EventHubProperties"]["ConsumerGroupName"]
    assert "ConsumerGroupName" in project(tmp_path, content).warnings[0]


def test_the_identity_of_a_topic_is_what_it_was_before_there_were_hubs(tmp_path: Path):
    plain = TopicInput("a", "b:1", "t")
    assert plain.identity(storage_path(tmp_path)) == {
        "topic": "t",
        "format": "json",
        "delimiter": ",",
        "avro_schema": None,
        "arrival": "LogAppendTime",
        "path": None,
    }
    assert set(asdict(plain)) - set(plain.identity(storage_path(tmp_path))) == {
        *("name", "servers", "starting", "most_messages", "options", "records", "compression")
    }
