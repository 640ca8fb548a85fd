"""Blobs as a stream input and as reference data, by what a project says of them (`asa.md` 6.1, 6.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from tideglass.connect.azure.storage_account import StorageAccount
from tideglass.connect.files.file_format import Packing
from tideglass.connect.files.input_pattern import InputPattern
from tideglass.connect.source import InputConnector, StreamInput
from tideglass.core.types import ARRIVAL, BLOB_NAME, PARTITION
from tideglass.storage import StoragePath


@dataclass(frozen=True, slots=True)
class BlobInput(InputConnector):
    """A stream input of Blob Storage or Data Lake Storage Gen2.

    name: in the query.
    account, container: where the blobs are.
    pattern: of their folders.
    format: a name of FORMATS.
    delimiter: of CSV.
    compression: of all blobs; None: by their names.
    """

    name: str
    account: StorageAccount
    container: str
    pattern: InputPattern
    format: str
    delimiter: str = ","
    compression: Packing | None = None

    @property
    def known_columns(self) -> tuple[str, ...]:
        return PARTITION, ARRIVAL, BLOB_NAME

    def as_stream(self) -> StreamInput:
        """Raises StorageError for a container that none can be called so."""
        from tideglass.connect.files.input import FileInput  # reads files, which a check does not
        from tideglass.connect.spec import InputSpec

        return FileInput(
            InputSpec(
                name=self.name,
                path=self.account.container(self.container),
                format=self.format,
                delimiter=cast("Literal[',', ';', ' ', '\t', '|']", self.delimiter),
                finished=False,
                pattern=self.pattern,
                compression=self.compression,
            )
        )

    def storage_settings(self) -> Mapping[str, str]:
        return self.account.settings()

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        return self.as_stream().identity(directory)


@dataclass(frozen=True, slots=True)
class BlobReference:
    """Reference data in blobs.

    account, container: where the blobs are. path: of the one blob, or with {date} and {time}.
    """

    account: StorageAccount
    container: str
    path: str

    def place(self) -> StoragePath:
        """Where the blobs are. Raises StorageError for a container that none can be called so."""
        return self.account.container(self.container) / self.path.strip("/")

    def storage_settings(self) -> Mapping[str, str]:
        return self.account.settings()
