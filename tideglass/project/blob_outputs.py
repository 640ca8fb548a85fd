"""Blob Storage and Data Lake Storage Gen2 in the output files of a project (`asa.md` 6.4, 6.5, 10.1).

    {
      "Name": "hot", "DataSourceType": "Blob Storage",
      "BlobStorageProperties": {
        "StorageAccounts": [{"AccountName": "toll", "AccountKey": null}], "Container": "results",
        "PathPattern": "hot/{date}/{time}", "DateFormat": "yyyy/MM/dd", "TimeFormat": "HH",
        "BlobWriteMode": "Append"
      },
      "Serialization": {"Type": "Json", "Encoding": "UTF8", "Format": "LineSeparated"},
      "MinimumRows": null, "MaximumTime": null, "ScriptType": "Output"
    }

The service's interface writes `sizeWindow` and `timeWindow` for the minimum of rows and the maximum time.
Keys that are not known are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tideglass.connect.files.folder_pattern import FolderPattern
from tideglass.connect.files.partitioned_output import PartitionedFileOutput, Waiting
from tideglass.connect.formats.table import formats_that, in_words
from tideglass.connect.output import OutputConnector
from tideglass.core.errors import OutputError
from tideglass.core.time import TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MINUTE, TICKS_PER_SECOND
from tideglass.project.azure import secret_of_output
from tideglass.project.connectors import Described, properties_key
from tideglass.project.file_reader import text_of
from tideglass.project.keys import canonical, objects_in
from tideglass.project.storage_accounts import storage_account

_KEYS = (
    *("StorageAccounts", "Container", "PathPattern", "BlobPathPrefix", "DateFormat", "TimeFormat"),
    *("BlobWriteMode", "WriteMode", "AuthenticationMode"),
)
#: Of the service: what a Parquet file waits for unless its output says otherwise, and the most it may say.
_ROWS, _MOST_ROWS = 2000, 10_000
_TIME_TICKS, _MOST_TIME_TICKS = TICKS_PER_MINUTE, 2 * TICKS_PER_HOUR
#: A time span of .NET.
_SPAN = re.compile(r"(?:(\d+)\.)?(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.0+)?)?")
_CONTAINER = re.compile(r"[a-z0-9](?:-?[a-z0-9]){2,62}|\$root|\$web")


def blob_output(described: Described) -> OutputConnector | None:
    """What a file describes; None after a note or a reported problem.

    A file that the tools have just made names neither an account nor a container.
    """
    file, problems = described.file, described.problems
    block = _block(described)
    container = text_of(block, "Container", file, problems, required=False)
    if not (block.get("StorageAccounts") and container):
        problems.notice(
            file,
            f"writing to {described.type} needs a storage account and a container, which the file does not "
            f"name; the rows of {described.name!r} go to files on this machine",
        )
        return None
    account = storage_account(block, described, secret_of_output)
    if account is not None and described.format == "delta":
        from tideglass.project.delta import delta_output

        return delta_output(described, account.container(container), account)
    file_format = _format(described)
    pattern = _pattern(block, described)
    if "{" in container:
        problems.error(
            file,
            f'"Container" is {container!r}; a container that depends on a column is not yet supported: name '
            "one, and write the column into the path pattern",
        )
    elif not _CONTAINER.fullmatch(container):
        problems.error(file, f'"Container" is {container!r}, which is no name of a container')
    elif account is not None and pattern is not None and file_format is not None:
        try:
            return PartitionedFileOutput(
                described.name,
                account.container(container) / pattern.root,
                FolderPattern(pattern.below_root, pattern.date_format, pattern.time_format),
                file_format,
                described.delimiter,
                _is_array(described),
                _waiting(block, described, file_format, pattern),
                account,
            )
        except OutputError as error:
            problems.error(file, str(error))
    return None


def _block(described: Described) -> Mapping[str, Any]:
    """The object that describes the container, whatever the tools have called it."""
    names = ("BlobStorageProperties", properties_key(described.type))
    found = (described.content.get(name) for name in names)
    return canonical(next((objects_in(each) for each in found if each), {}), _KEYS)


def _pattern(block: Mapping[str, Any], described: Described) -> FolderPattern | None:
    file, problems = described.file, described.problems

    def text(key: str) -> str:
        return text_of(block, key, file, problems, required=False) or ""

    whole = "/".join(filter(None, (text("BlobPathPrefix"), text("PathPattern"))))
    try:
        return FolderPattern(whole, text("DateFormat") or "yyyy/MM/dd", text("TimeFormat") or "HH")
    except OutputError as error:
        problems.error(file, str(error))
        return None


def _format(described: Described) -> str | None:
    file, problems, known = described.file, described.problems, formats_that("write")
    encoding = str(objects_in(described.content.get("Serialization")).get("Encoding") or "UTF8")
    if encoding.lower().replace("-", "") != "utf8":
        problems.error(file, f'"Encoding" is {encoding!r}; files are written in UTF-8')
    if described.format not in known:
        problems.notice(
            file, f"writing {described.format!r} files is not yet supported; use {in_words(known)}"
        )
        return None
    return described.format


def _is_array(described: Described) -> bool:
    text = str(objects_in(described.content.get("Serialization")).get("Format") or "LineSeparated")
    name = text.lower().replace(" ", "")
    if described.format == "json" and name not in ("array", "lineseparated"):
        described.problems.error(
            described.file, f'"Format" is {text!r}, it must be "LineSeparated" or "Array"'
        )
    return described.format == "json" and name == "array"


def _waiting(
    block: Mapping[str, Any], described: Described, file_format: str, pattern: FolderPattern
) -> Waiting | None:
    """When rows become visible; None: with their batch."""
    mode = str(block.get("BlobWriteMode") or block.get("WriteMode") or "Append")
    word = mode.strip().lower().partition(" ")[0]
    if word not in ("append", "once"):
        known = 'it must be "Append" or "Once"'
        described.problems.error(described.file, f'"BlobWriteMode" is {mode!r}, {known}')
    if word == "once":
        return Waiting(once=True)
    rows, time_ticks = _minimum_rows(described), _maximum_ticks(described)
    if rows is None and time_ticks is None and file_format != "parquet":
        return None
    if time_ticks is None:
        time_ticks = min(_TIME_TICKS, pattern.unit_ticks or _TIME_TICKS)
    return Waiting(_ROWS if rows is None else rows, time_ticks)


def _minimum_rows(described: Described) -> int | None:
    content = described.content
    key = next((each for each in ("MinimumRows", "SizeWindow") if content.get(each) not in (None, "")), None)
    if key is None:
        return None
    text = str(content[key]).strip()
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_ROWS:
        described.problems.error(
            described.file, f'"{key}" is {content[key]!r}, it must be a whole number from 1 to {_MOST_ROWS}'
        )
        return None
    return int(text)


def _maximum_ticks(described: Described) -> int | None:
    content = described.content
    key = next((each for each in ("MaximumTime", "TimeWindow") if content.get(each) not in (None, "")), None)
    if key is None:
        return None
    found = _SPAN.fullmatch(str(content[key]).strip())
    units = (TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MINUTE, TICKS_PER_SECOND)
    numbers = [int(each or 0) for each in found.groups()] if found else [0] * len(units)
    ticks = sum(number * unit for number, unit in zip(numbers, units, strict=True))
    if not 0 < ticks <= _MOST_TIME_TICKS:
        described.problems.error(
            described.file,
            f'"{key}" is {content[key]!r}, it must be a time up to two hours, such as "00:01:00"',
        )
        return None
    return ticks
