"""Blob Storage and Data Lake Storage Gen2 in the input files of a project (`asa.md` 6.1, 6.3, 10.1).

    {
      "Name": "logs", "Type": "Data Stream", "DataSourceType": "Blob Storage",
      "BlobStorageProperties": {
        "StorageAccounts": [{"AccountName": "toll", "AccountKey": null}], "Container": "events",
        "PathPattern": "logs/{date}/{time}", "DateFormat": "yyyy/MM/dd", "TimeFormat": "HH",
        "SourcePartitionCount": 1
      },
      "Serialization": {"Type": "Json", "Encoding": "UTF8"}, "CompresssionType": "None", "ScriptType": "Input"
    }

Reference data has `"BlobReferenceProperties"` with the same keys. Keys that are not known are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tideglass.connect.azure.storage_account import StorageAccount
from tideglass.connect.files.blob_input import BlobInput, BlobReference
from tideglass.connect.files.file_format import Packing
from tideglass.connect.files.input_pattern import InputPattern
from tideglass.connect.formats.table import FORMATS, in_words
from tideglass.core.errors import InputError, ProjectError
from tideglass.project.azure import secret_of_input
from tideglass.project.connectors import Described
from tideglass.project.file_reader import text_of
from tideglass.project.keys import canonical, objects_in
from tideglass.project.reference import path_formats
from tideglass.project.storage_accounts import storage_account

_STREAM, _REFERENCE = "BlobStorageProperties", "BlobReferenceProperties"
_KEYS = (
    *("StorageAccounts", "Container", "PathPattern", "DateFormat", "TimeFormat", "SourcePartitionCount"),
    *("SourcePartition", "AuthenticationMode"),
)
_MOST_PARTITIONS = 1024
#: What the service compresses, and how each is called here.
_PACKINGS: Mapping[str, Packing | None] = {"": None, "none": None, "gzip": "gzip", "deflate": "deflate"}


def blob_input(described: Described) -> BlobInput:
    """The stream input a file describes. Raises ProjectError after reported problems."""
    file, problems, block = described.file, described.problems, _block(described, _STREAM)
    account, container = _account(block, described), text_of(block, "Container", file, problems)
    file_format = described.format
    if file_format not in FORMATS:
        problems.error(
            file, f"blobs in the format {file_format!r} are not known here; use {in_words(tuple(FORMATS))}"
        )
    packing = packing_of_input(described)
    if packing is not None and file_format in ("avro", "parquet"):
        problems.error(file, f"{file_format.capitalize()} is compressed in itself; leave CompressionType out")
    pattern = _pattern(block, described)
    if account is None or container is None or pattern is None:
        raise ProjectError("the blobs of the input are not known")
    return BlobInput(described.name, account, container, pattern, file_format, described.delimiter, packing)


def blob_reference(described: Described) -> BlobReference | None:
    """The reference data a file describes; None where it does not say where the blobs are."""
    block = _block(described, _REFERENCE)
    path = text_of(block, "PathPattern", described.file, described.problems, required=False)
    container = text_of(block, "Container", described.file, described.problems, required=False)
    if not (path and container and block.get("StorageAccounts")):
        return None
    account = _account(block, described)
    return None if account is None else BlobReference(account, container, path)


def packing_of_input(described: Described) -> Packing | None:
    """How the service is told that events are compressed; its own spelling has three letters s."""
    keys = ("CompresssionType", "CompressionType", "Compression")
    value = next((described.content[key] for key in keys if described.content.get(key)), None)
    if isinstance(value, dict):  # of the service's interface
        value = canonical(objects_in(value), ("Type",)).get("Type")
    word = str(value or "").strip().lower()
    if word not in _PACKINGS:
        described.problems.error(
            described.file, f"the compression {value!r} is not known; it is None, GZip or Deflate"
        )
    return _PACKINGS.get(word)


def _block(described: Described, key: str) -> dict[str, Any]:
    return canonical(objects_in(described.content.get(key)), _KEYS)


def _account(block: Mapping[str, Any], described: Described) -> StorageAccount | None:
    return storage_account(block, described, secret_of_input)


def _pattern(block: Mapping[str, Any], described: Described) -> InputPattern | None:
    file, problems = described.file, described.problems
    text = text_of(block, "PathPattern", file, problems, required=False) or ""
    count = block.get("SourcePartitionCount") or 1
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST_PARTITIONS:
        problems.error(
            file, f'"SourcePartitionCount" is {count!r}, it must be a number from 1 to {_MOST_PARTITIONS}'
        )
        return None
    try:
        return InputPattern(text, **path_formats(block), partition_count=count)
    except InputError as error:
        problems.error(file, f'"PathPattern": {error}')
        return None
