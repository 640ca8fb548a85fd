"""Outputs that are services behind HTTP, as project files describe them.

    "DataSourceType"       block                          interface (`asa.md` 10.3)
    Service Bus Queue      ServiceBusQueueProperties      Microsoft.ServiceBus/Queue
    Service Bus Topic      ServiceBusTopicProperties      Microsoft.ServiceBus/Topic
    Azure Function         AzureFunctionProperties        Microsoft.AzureFunction
    Azure Data Explorer    AzureDataExplorerProperties    Microsoft.Kusto/clusters/databases
    Power BI               PowellBIProperties             PowerBI

`RowIdColumn` and `MaxMessageBytes` are keys of our own.
"""

from __future__ import annotations

import json
from typing import cast

from tideglass.connect.http.azure_functions import MOST_BYTES as FUNCTION_BYTES
from tideglass.connect.http.azure_functions import MOST_ROWS as FUNCTION_ROWS
from tideglass.connect.http.azure_functions import AzureFunctionOutput
from tideglass.connect.http.data_explorer import DataExplorerOutput
from tideglass.connect.http.sending import RequestLimits
from tideglass.connect.http.service_bus import (
    MOST_BYTES as MESSAGE_BYTES,
)
from tideglass.connect.http.service_bus import (
    MOST_ROWS as MESSAGE_ROWS,
)
from tideglass.connect.http.service_bus import (
    SYSTEM_PROPERTIES,
    ServiceBusOutput,
)
from tideglass.connect.refused_output import RefusedOutput
from tideglass.project.azure import block, secret_of_output
from tideglass.project.connectors import Described, Properties
from tideglass.project.keys import canonical, objects_in

_FUNCTION = ("FunctionAppName", "FunctionName", "ApiKey", "MaxBatchCount", "MaxBatchSize", "RowIdColumn")
_MESSAGES = (
    *("ServiceBusNamespace", "QueueName", "TopicName", "SharedAccessPolicyName", "SharedAccessPolicyKey"),
    *("PropertyColumns", "SystemPropertyColumns", "AuthenticationMode", "MaxMessageBytes"),
)
_TABLE = ("Cluster", "Database", "Table", "AuthenticationMode", "RowIdColumn")
#: Of the tier Premium, by REST.
_LARGEST_MESSAGE = 1 << 20


def function_output(described: Described) -> AzureFunctionOutput:
    """The function an output file describes."""
    own = block(described, "AzureFunctionProperties", _FUNCTION)
    limits = RequestLimits(
        own.whole("MaxBatchCount", FUNCTION_ROWS, least=1), own.whole("MaxBatchSize", FUNCTION_BYTES, least=3)
    )
    return AzureFunctionOutput(
        described.name,
        own.text("FunctionAppName"),
        own.text("FunctionName"),
        secret_of_output(described, own.values.get("ApiKey"), "ApiKey"),
        limits,
        own.optional_text("RowIdColumn"),
    )


def queue_output(described: Described) -> ServiceBusOutput:
    """The queue an output file describes."""
    return _messages(described, "queue", "QueueName")


def topic_of_service_bus(described: Described) -> ServiceBusOutput:
    """The topic of Service Bus an output file describes."""
    return _messages(described, "topic", "TopicName")


def table_of_data_explorer(described: Described) -> DataExplorerOutput:
    """The table an output file describes."""
    own = block(described, "AzureDataExplorerProperties", _TABLE)
    host = own.text("Cluster").removeprefix("https://").rstrip("/")
    if "/" in host or ":" in host:
        described.problems.error(
            described.file, f'"Cluster" is {own.text("Cluster")!r}, it must be https:// and a host'
        )
    return DataExplorerOutput(
        described.name, host, own.text("Database"), own.text("Table"), own.optional_text("RowIdColumn")
    )


def power_bi(described: Described) -> RefusedOutput:
    """What refuses a live run, and says why; files stand in for it in any other run."""
    reason = (
        "writing to Power BI is not supported, as Microsoft retires the streaming datasets it needs; rows "
        f"of {described.name!r} may go to a table Power BI reads (SQL, Data Explorer, Delta Lake), or where "
        f"--output {described.name}=PATH says"
    )
    described.problems.notice(described.file, reason)
    return RefusedOutput(described.name, described.type, reason)


def _messages(described: Described, kind: str, entity: str) -> ServiceBusOutput:
    own = block(described, f"ServiceBus{kind.title()}Properties", _MESSAGES)
    file_format = described.format
    if file_format not in ("json", "csv"):
        described.problems.error(
            described.file,
            f"messages of Service Bus in the format {file_format!r} are not supported: a batch of its REST "
            "interface holds texts; use JSON or CSV",
        )
    by_identity = (own.optional_text("AuthenticationMode") or "").casefold() == "msi"
    most_bytes = own.whole("MaxMessageBytes", MESSAGE_BYTES, least=1024)
    if most_bytes > _LARGEST_MESSAGE:
        described.problems.error(
            described.file, f'"MaxMessageBytes" is {most_bytes}, it must be {_LARGEST_MESSAGE} at most'
        )
    return ServiceBusOutput(
        described.name,
        kind,
        own.text("ServiceBusNamespace"),
        own.text(entity),
        "" if by_identity else own.text("SharedAccessPolicyName"),
        ""
        if by_identity
        else secret_of_output(described, own.values.get("SharedAccessPolicyKey"), "SharedAccessPolicyKey"),
        file_format,
        described.delimiter,
        _columns(own),
        _system_columns(own),
        RequestLimits(MESSAGE_ROWS, most_bytes),
    )


def _columns(own: Properties) -> tuple[str, ...]:
    """`PropertyColumns`: a list of names, or a text of names with commas between."""
    value = own.values.get("PropertyColumns", [])
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    names = cast("list[object]", value if isinstance(value, list) else [None])
    if not all(isinstance(name, str) for name in names):
        own.problems.error(own.file, '"PropertyColumns" must be a list of names of columns')
        return ()
    return tuple(str(name) for name in names)


def _system_columns(own: Properties) -> dict[str, str]:
    """`SystemPropertyColumns`: an object of columns by property, or its text."""
    value = own.values.get("SystemPropertyColumns", {})
    if isinstance(value, str):
        try:
            value = json.loads(value or "{}")
        except ValueError:
            value = None
    if not isinstance(value, dict):
        own.problems.error(own.file, '"SystemPropertyColumns" must be an object of columns by property')
        return {}
    found = canonical(objects_in(value), tuple(SYSTEM_PROPERTIES))
    for name, column in found.items():
        if name not in SYSTEM_PROPERTIES or not isinstance(column, str):
            own.problems.error(
                own.file,
                f'"SystemPropertyColumns" holds {name!r}: {column!r}; properties are '
                f"{', '.join(SYSTEM_PROPERTIES)}, each with a name of a column",
            )
            return {}
    return found
