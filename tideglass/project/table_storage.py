"""Tables of Azure Table storage in the output files of a project.

    "DataSourceType": "Table Storage",
    "TableStorageProperties": {
      "AccountName": "account", "AccountKey": "${KEY}", "Table": "hot",
      "PartitionKey": "device", "RowKey": "at", "BatchSize": 100, "ColumnsToRemove": ["at"]
    }

The interface (`asa.md` 10.3) has the same keys in the source `Microsoft.Storage/Table`.
"""

from __future__ import annotations

from typing import Any, cast

from tideglass.connect.tables.output import MOST_ENTITIES, EntityColumns, TableStorageOutput
from tideglass.project.azure import block, secret_of_output
from tideglass.project.connectors import Described, Properties

_KEYS = (
    *("AccountName", "AccountKey", "Table", "PartitionKey", "RowKey", "BatchSize", "ColumnsToRemove"),
    "AuthenticationMode",
)


def table_output(described: Described) -> TableStorageOutput:
    """The table an output file describes."""
    own = block(described, "TableStorageProperties", _KEYS)
    size = own.whole("BatchSize", MOST_ENTITIES, least=1)
    if size > MOST_ENTITIES:
        described.problems.error(
            described.file,
            f'"BatchSize" is {size}, it must be {MOST_ENTITIES} at most, as the service has it',
        )
    by_identity = (own.optional_text("AuthenticationMode") or "").casefold() == "msi"
    return TableStorageOutput(
        described.name,
        own.text("AccountName"),
        own.text("Table"),
        EntityColumns(own.text("PartitionKey"), own.text("RowKey"), _removed(own)),
        "" if by_identity else secret_of_output(described, own.values.get("AccountKey"), "AccountKey"),
        size,
    )


def _removed(own: Properties) -> tuple[str, ...]:
    """`ColumnsToRemove`: a list of names, or a text of names with commas between."""
    value = own.values.get("ColumnsToRemove", [])
    if isinstance(value, str):
        value = [each.strip() for each in value.split(",") if each.strip()]
    names = cast("list[Any]", value if isinstance(value, list) else [None])
    if not all(isinstance(each, str) for each in names):
        own.problems.error(own.file, '"ColumnsToRemove" must be a list of names of columns')
        return ()
    return tuple(names)
