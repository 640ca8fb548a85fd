"""Delta Lake tables in the output files of a project (`asa.md` 6.5).

The service writes one where the serialization of an output to Blob Storage or Data Lake Storage says so:

    "Serialization": {"Type": "Delta", "DeltaTablePath": "folder/table", "PartitionColumns": ["device"]}

A type of our own names any folder: one of the project, or one of an object store by its URI:

    {
      "Name": "hot", "DataSourceType": "Delta Lake",
      "DeltaLakeProperties": {"Path": "../tables/hot", "PartitionColumns": ["device"]}, "ScriptType": "Output"
    }
"""

from __future__ import annotations

from typing import Any, cast

from tideglass.connect.azure.storage_account import StorageAccount
from tideglass.connect.delta.output import DeltaOutput
from tideglass.project.connectors import Described
from tideglass.project.file_reader import text_of
from tideglass.project.keys import canonical, objects_in
from tideglass.storage import StoragePath, storage_path
from tideglass.storage.store_uri import names_store

#: Of the path of a table, as the service has it.
_MOST_SEGMENTS = 254


def delta_output(
    described: Described, container: StoragePath, account: StorageAccount | None = None
) -> DeltaOutput | None:
    """The table that an output of a container, whose serialization is Delta, writes to.

    account: what lets a run into the container. None after a reported problem.
    """
    file, problems = described.file, described.problems
    keys = ("DeltaTablePath", "PartitionColumns")
    own = canonical(objects_in(described.content.get("Serialization")), keys)
    path = text_of(own, "DeltaTablePath", file, problems)
    if path is None:
        return None
    segments = [each for each in path.replace("\\", "/").split("/") if each]
    if not segments or len(segments) > _MOST_SEGMENTS or {".", ".."} & set(segments):
        problems.error(
            file,
            f'"DeltaTablePath" is {path!r}; it must name folders, at most {_MOST_SEGMENTS}, and none by dots',
        )
        return None
    _note_batching(described)
    table = container / "/".join(segments)
    return DeltaOutput(described.name, table, _partition_column(described, own), account)


def delta_table(described: Described) -> DeltaOutput:
    """The table an output of the type `Delta Lake` names."""
    own = described.properties("Path", "PartitionColumns")
    text = own.values.get("Path")
    if isinstance(text, str) and names_store(text):
        path = storage_path(text)
    else:
        path = storage_path(own.path("Path")).resolve()
    return DeltaOutput(described.name, path, _partition_column(described, own.values))


def _partition_column(described: Described, own: Any) -> str | None:
    """The one partition column; None where the file names none, and after a reported problem."""
    value = own.get("PartitionColumns")
    columns = cast("list[Any]", value if isinstance(value, list) else [] if value is None else [value])
    columns = [each for each in columns if each != ""]
    if len(columns) > 1 or not all(isinstance(each, str) for each in columns):
        described.problems.error(
            described.file,
            f'"PartitionColumns" is {value!r}, and must name one column: ["device"]; a key of several '
            "columns is made in the query, with CONCAT",
        )
        return None
    return columns[0] if columns else None


def _note_batching(described: Described) -> None:
    keys = ("MinimumRows", "MaximumTime", "SizeWindow", "TimeWindow")
    named = [each for each in keys if described.content.get(each)]
    if named:
        described.problems.notice(
            described.file,
            f"{' and '.join(named)} of a Delta table: not yet supported; the rows of each batch are "
            "committed with it",
        )
