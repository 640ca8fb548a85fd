"""Event Hubs and IoT Hub in the input and output files of a project, by their Kafka endpoint.

    {
      "Name": "toll", "Type": "Data Stream", "DataSourceType": "Event Hub",
      "EventHubProperties": {"ServiceBusNamespace": "contoso", "EventHubName": "toll",
          "SharedAccessPolicyName": "listen", "SharedAccessPolicyKey": null, "ConsumerGroupName": "$Default",
          "AuthenticationMode": "ConnectionString"},
      "CompresssionType": "None", "Serialization": {"Type": "Json"}, "ScriptType": "Input"
    }

A hub is a topic of `NAMESPACE.servicebus.windows.net:9093`. A file without a namespace or a hub is noted, and
cannot be used in a live run; it does not keep local runs from starting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from tideglass.connect.azure.entra import CLIENT, LOGIN_HOST, SECRET, TENANT
from tideglass.connect.formats.table import formats_that, in_words
from tideglass.connect.kafka.hub_output import MOST_BYTES, PROGRESS_TOPIC, HubOutput
from tideglass.connect.kafka.output import TopicOutput
from tideglass.connect.kafka.topic import TopicInput
from tideglass.project.azure import secret_of_input, secret_of_output
from tideglass.project.connectors import Described, Properties
from tideglass.project.kafka import avro_schema
from tideglass.project.keys import canonical, objects_in, warn_of_misspelt

_PORT = 9093
_DOMAIN = "servicebus.windows.net"
_OF_A_POLICY = ("SharedAccessPolicyName", "SharedAccessPolicyKey", "AuthenticationMode")
_OF_AN_OUTPUT = ("PartitionKey", "PropertyColumns", "Delivery", "ProgressTopic", "MaxMessageBytes")
_OF_AN_INPUT = ("ConsumerGroupName", "PrefetchCount")
_OF_A_HUB = ("ServiceBusNamespace", "EventHubName", "PartitionCount")
_OF_AN_IOT_HUB = ("IotHubNamespace", "Endpoint")
#: The spellings of `CompresssionType` (so in ASA's files) over the years.
_COMPRESSION = ("CompresssionType", "CompressionType", "Compression")
_MODULES = "org.apache.kafka.common.security"


def event_hub_input(described: Described) -> TopicInput | None:
    """The event hub an input file describes; None where the file leaves out which one."""
    own = hub_properties(described, "EventHubProperties", (*_OF_A_HUB, *_OF_A_POLICY, *_OF_AN_INPUT))
    named = _named(described, own, ("ServiceBusNamespace", "EventHubName"))
    if named is None:
        return None
    return _input(described, own, host_of(named[0], _DOMAIN), named[1], "EventHub")


def iot_hub_input(described: Described) -> TopicInput | None:
    """The built-in endpoint of the IoT hub an input file describes; None where the file leaves out which one.

    The broker behind it has an address that only the portal shows; it is named by `--endpoint`.
    """
    own = hub_properties(described, "IoTHubProperties", (*_OF_AN_IOT_HUB, *_OF_A_POLICY, *_OF_AN_INPUT))
    named = _named(described, own, ("IotHubNamespace",))
    if named is None:
        return None
    route = str(own.get("Endpoint") or "messages/events").strip()
    if route.lower() != "messages/events":
        described.problems.notice(
            described.file,
            f'"Endpoint" is {route!r}; only messages/events is read, so {described.name!r} is not read by a '
            "live run",
        )
        return None
    name = named[0].partition(".")[0]
    return _input(described, own, host_of(named[0], "azure-devices.net"), name, "IoTHub")


def event_hub_output(described: Described) -> HubOutput | None:
    """The event hub an output file describes; None where the file leaves out which one."""
    known = (*_OF_A_HUB, *_OF_A_POLICY, *_OF_AN_OUTPUT)
    own = hub_properties(described, "EventHubProperties", known)
    named = _named(described, own, ("ServiceBusNamespace", "EventHubName"))
    if named is None:
        return None
    formats = formats_that("encode")
    if described.format not in formats:
        described.problems.notice(
            described.file,
            f"rows in the format {described.format!r} are not written by a live run; use {in_words(formats)}",
        )
        return None
    host = host_of(named[0], _DOMAIN)
    key = secret_of_output(described, own.get("SharedAccessPolicyKey"), "SharedAccessPolicyKey")
    options = broker_options(host, own, key, "EventHub")
    schema = avro_schema(described)
    if described.format == "avro" and schema is None:
        described.problems.notice(
            described.file,
            f'writing Avro needs "SchemaFile" in "Serialization"; {described.name!r} cannot be used by a '
            "live run",
        )
        return None
    topic = TopicOutput(
        described.name,
        f"{host}:{_PORT}",
        named[1],
        described.format,
        described.delimiter,
        schema,
        str(own.get("PartitionKey") or "").strip() or None,
        options=options,
    )
    values = Properties(own, described.file, described.problems)
    return hub_output(topic, values)


def hub_output(topic: TopicOutput, own: Properties) -> HubOutput:
    """The output of the driver's writer, with the keys all of its types have."""
    transactional = own.choice("Delivery", ("AtLeastOnce", "Transactional")) == "Transactional"
    return HubOutput(
        topic,
        _columns_of(own),
        transactional,
        own.optional_text("ProgressTopic") or PROGRESS_TOPIC,
        own.whole("MaxMessageBytes", MOST_BYTES, least=1024),
    )


def _columns_of(own: Properties) -> tuple[str, ...]:
    """`PropertyColumns`: a list of names, or a text of names with commas between."""
    value = own.values.get("PropertyColumns") or []
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in cast("list[Any]", names)):
        own.problems.error(own.file, '"PropertyColumns" must be a list of names of columns')
        return ()
    return tuple(name.strip() for name in cast("list[str]", names) if name.strip())


def hub_properties(described: Described, block: str, known: Sequence[str]) -> dict[str, Any]:
    """The keys of a hub's block, in one spelling; warns of those that are close to a known one."""
    found = canonical(objects_in(described.content.get(block)), known)
    warn_of_misspelt(found, known, described.file, described.problems)
    return found


def _named(described: Described, own: Mapping[str, Any], keys: Sequence[str]) -> list[str] | None:
    """The texts of keys that must be there; None, and a note, where one is not."""
    values = [str(own.get(key) or "").strip() for key in keys]
    missing = [key for key, value in zip(keys, values, strict=True) if not value]
    if len(missing) == len(keys) and not own:  # a file that leaves its source out says so by itself
        return None
    if missing:
        described.problems.notice(
            described.file, f'"{missing[0]}" is missing, so {described.name!r} cannot be used by a live run'
        )
        return None
    return values


def host_of(name: str, domain: str) -> str:
    """The host of a namespace or hub, which files name with its domain or without.

    >>> host_of("contoso", "servicebus.windows.net"), host_of("a.servicebus.usgovcloudapi.net", "x")
    ('contoso.servicebus.windows.net', 'a.servicebus.usgovcloudapi.net')
    """
    text = name.strip().removeprefix("sb://").rstrip("/")
    return text if "." in text else f"{text}.{domain}"


def _input(
    described: Described,
    own: Mapping[str, Any],
    host: str,
    topic: str,
    records: Literal["EventHub", "IoTHub"],
) -> TopicInput | None:
    compression, known = _compression(described), formats_that("messages")
    if compression is None or described.format not in known:
        if compression is not None:
            described.problems.notice(
                described.file,
                f"events in the format {described.format!r} are not read by a live run; "
                f"use {in_words(known)}",
            )
        return None
    key = secret_of_input(described, own.get("SharedAccessPolicyKey"), "SharedAccessPolicyKey")
    options = broker_options(host, own, key, records)
    group = str(own.get("ConsumerGroupName") or "").strip()
    if group and group.lower() != "$default":
        options["kafka.group.id"] = group
    return TopicInput(
        described.name,
        f"{host}:{_PORT}",
        topic,
        described.format,
        described.delimiter,
        avro_schema(described),
        options=options,
        records=records,
        compression=compression,
    )


def broker_options(host: str, own: Mapping[str, Any], key: str, records: str) -> dict[str, str]:
    """How Kafka's client signs in: by the key of a policy, or with Entra ID where the file says Msi.

    key: refers to the environment, or is the key itself.
    """
    mode = str(own.get("AuthenticationMode") or "").strip().lower()
    if mode in ("msi", "managedidentity", "usertoken"):
        return _of_entra(host)
    policy = str(own.get("SharedAccessPolicyName") or "").strip()
    policy = policy or ("RootManageSharedAccessKey" if records == "EventHub" else "iothubowner")
    connection = f"Endpoint=sb://{host}/;SharedAccessKeyName={policy};SharedAccessKey={key}"
    return {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required "
        f'username="$ConnectionString" password="{_quoted(connection)}";',
    }


def _of_entra(host: str) -> dict[str, str]:
    login = f"{_MODULES}.oauthbearer"
    return {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.login.callback.handler.class": f"{login}.OAuthBearerLoginCallbackHandler",
        "kafka.sasl.oauthbearer.token.endpoint.url": (
            f"https://{LOGIN_HOST}/${{{TENANT}}}/oauth2/v2.0/token"
        ),
        "kafka.sasl.jaas.config": f"{login}.OAuthBearerLoginModule required "
        f'clientId="${{{CLIENT}}}" clientSecret="${{{SECRET}}}" scope="https://{host}/.default";',
    }


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _compression(described: Described) -> Literal["none", "gzip", "deflate"] | None:
    """How payloads are compressed; None, and a note, for a way that is not known."""
    for key in _COMPRESSION:
        value = described.content.get(key)
        if isinstance(value, dict):  # the interface's spelling: {"type": "GZip"}
            value = canonical(cast("dict[str, Any]", value), ("type",)).get("type")
        word = str(value or "none").strip().lower()
        if word in ("gzip", "deflate"):
            return cast("Any", word)
        if word != "none":
            described.problems.notice(
                described.file,
                f'"{key}" is {value!r}, which is not known; use None, GZip or Deflate. '
                f"{described.name!r} cannot be used by a live run",
            )
            return None
    return "none"
