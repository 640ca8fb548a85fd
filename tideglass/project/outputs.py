"""The outputs of a project: what its files describe, and what stands in for an output that is not live.

`OUTPUTS` is the one table of types. An output of a type that is not in it is understood and not supported:
files stand in for it, as they do for every output of a run that is not live.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tideglass.connect.formats.table import FORMATS, formats_that
from tideglass.connect.output import OutputConnector
from tideglass.core.file_names import folder_name
from tideglass.project.connectors import OUTPUT_GROUP, Connectors, Described, by_name, properties_key
from tideglass.project.file_reader import Problems, text_of
from tideglass.project.inputs import checked_format, delimiter_of
from tideglass.project.keys import OUTPUT, objects_in, warn_of_misspelt

_BLOB = by_name("blob_outputs.blob_output")
_SQL_SERVER, _SYNAPSE, _POSTGRES = (
    by_name(f"database_tables.{name}") for name in ("sql_server_output", "synapse_output", "postgres_output")
)
#: The types of outputs that a live run writes to.
OUTPUTS: Connectors[OutputConnector] = Connectors(
    "output",
    OUTPUT_GROUP,
    {
        "kafka": by_name("kafka.topic_output"),
        "event hub": by_name("event_hub.event_hub_output"),
        **dict.fromkeys(("blob storage", "blob storage/adls gen2", "adls gen2"), _BLOB),
        **dict.fromkeys(("data lake storage gen2", "azure data lake storage gen2"), _BLOB),
        "delta lake": by_name("delta.delta_table"),
        "documentdb": by_name("cosmos.cosmos_output"),
        "cosmos db": by_name("cosmos.cosmos_output"),
        "azure cosmos db": by_name("cosmos.cosmos_output"),
        "table storage": by_name("table_storage.table_output"),
        "azure table storage": by_name("table_storage.table_output"),
        "service bus queue": by_name("service_outputs.queue_output"),
        "service bus topic": by_name("service_outputs.topic_of_service_bus"),
        "azure function": by_name("service_outputs.function_output"),
        "azure data explorer": by_name("service_outputs.table_of_data_explorer"),
        "power bi": by_name("service_outputs.power_bi"),
        **dict.fromkeys(("sql database", "azure sql database", "sql server"), _SQL_SERVER),
        **dict.fromkeys(("synapse", "azure synapse analytics"), _SYNAPSE),
        **dict.fromkeys(("sql data warehouse", "azure sql data warehouse"), _SYNAPSE),
        **dict.fromkeys(("postgresql", "azure postgresql", "postgresql database"), _POSTGRES),
        **dict.fromkeys(("azure postgresql database", "azure database for postgresql"), _POSTGRES),
    },
)


@dataclass(frozen=True, slots=True)
class ProjectOutput:
    """An output as the project describes it; the run decides where its rows go.

    name: as the query spells it.
    origin: its type, in the words of the file.
    file_format: of the files that stand in for it.
    connector: where the rows of a live run go; None for files as well.
    not_live: why a live run cannot write there, for a type that it writes to; else None.
    """

    name: str
    origin: str
    file_format: str = "json"
    connector: OutputConnector | None = None
    not_live: str | None = None


def read_output(content: dict[str, Any], file: Path, problems: Problems) -> ProjectOutput:
    """The output a file describes. content: what the file holds, in the form of the tools' files."""
    name = text_of(content, "Name", file, problems, required="Name" in content) or file.stem
    origin = text_of(content, "DataSourceType", file, problems, required=False) or "output"
    serialization = objects_in(content.get("Serialization"))
    warn_of_misspelt(content, (*OUTPUT, properties_key(origin)), file, problems)
    if OUTPUTS.makes(origin):
        delimiter = delimiter_of(serialization.get("FieldDelimiter"), file, problems)
        described = Described(name, origin, content, delimiter, file, problems)
        noted = len(problems.notices)
        connector = OUTPUTS.make(described)
        not_live = "; ".join(problems.notices[noted:]) if connector is None else None
        # Files stand in for topics as JSON, whatever their messages hold.
        named = None if origin.lower() == "kafka" else str(serialization.get("Type") or "").strip().lower()
        stands_in = named if named in formats_that("write") else "json"
        return ProjectOutput(name, origin, stands_in, connector, not_live)
    file_format = checked_format(serialization.get("Type"), file, problems) or "json"
    problems.notice(
        file,
        f"writing to {origin} is understood, not yet supported; "
        f"the rows of {name!r} go to LocalRunOutputs/{folder_name(name)}, or where --output {name}=PATH says",
    )
    return ProjectOutput(name, origin, _written(file_format, file, problems))


def _written(file_format: str, file: Path, problems: Problems) -> str:
    """The format of the files that stand in for an output."""
    if FORMATS[file_format].write is not None:
        return file_format
    named = file_format.capitalize()
    problems.notice(file, f"the format {named!r} is not yet supported for files; rows are written as JSON")
    return "json"


def local_output(name: str, target: Path | str, file_format: str) -> OutputConnector:
    """What takes the rows of an output in place of a live one.

    target: `console`, or a folder of files, also in an object store.
    """
    if target == "console":
        from tideglass.connect.console import ConsoleOutput

        return ConsoleOutput(name)
    from tideglass.connect.files.output import FileOutput
    from tideglass.storage import storage_path

    return FileOutput(name, storage_path(target).resolve(), file_format)
