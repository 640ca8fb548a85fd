"""Containers of Cosmos DB in the output files of a project.

    "DataSourceType": "Cosmos DB",
    "DocumentDbProperties": {
      "AccountId": "account", "AccountKey": "${KEY}", "Database": "db",
      "ContainerName": "container", "DocumentId": "device"
    }

The interface (`asa.md` 10.3) has the same keys in the source `Microsoft.Storage/DocumentDB`, with
`collectionNamePattern` for the container, as older files of the tools have.
"""

from __future__ import annotations

from tideglass.connect.cosmos.output import CosmosOutput
from tideglass.project.azure import block, secret_of_output
from tideglass.project.connectors import Described

_KEYS = (
    *("AccountId", "AccountKey", "Database", "ContainerName", "CollectionNamePattern", "PartitionKey"),
    *("DocumentId", "AuthenticationMode"),
)


def cosmos_output(described: Described) -> CosmosOutput:
    """The container an output file describes. `PartitionKey` is known by the container itself."""
    own = block(described, "DocumentDbProperties", _KEYS)
    key_of_container = "CollectionNamePattern" if "CollectionNamePattern" in own.values else "ContainerName"
    container = own.text(key_of_container)
    if "{partition}" in container.casefold():
        described.problems.error(
            described.file,
            f'"{key_of_container}" is {container!r}: several containers of one output are not yet '
            "supported, and the service deprecates them; name one container",
        )
    by_identity = (own.optional_text("AuthenticationMode") or "").casefold() == "msi"
    key = "" if by_identity else secret_of_output(described, own.values.get("AccountKey"), "AccountKey")
    return CosmosOutput(
        described.name,
        own.text("AccountId"),
        own.text("Database"),
        container,
        key,
        own.optional_text("DocumentId") or None,
    )
