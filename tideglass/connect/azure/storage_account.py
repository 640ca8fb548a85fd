"""A storage account of Azure as projects name it: its containers as paths, and what lets a process into them.

A path names a container and no key. The driver resolves the key when a run starts, and hands it on as
settings of the store (`storage.storage_options`), which tasks and executors find in their environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from tideglass.connect.azure.endpoints import endpoint
from tideglass.connect.environment import resolved_secret
from tideglass.core.errors import ProjectError
from tideglass.storage import StoragePath, storage_path

_PUBLIC_DOMAIN = "dfs.core.windows.net"


@dataclass(frozen=True, slots=True)
class StorageAccount:
    """An account of Blob Storage or of Data Lake Storage Gen2.

    name: of the account, or its host.
    key: a reference to its key (`${NAME}`), or the key; empty for an account that is entered by an identity
        of Entra ID. It is no part of what an account is, and does not go with it into another process.
    key_is_optional: the project says nothing of a key, so it is no error where `key` refers to nothing: the
        environment's own variables (`AZURE_STORAGE_ACCOUNT_KEY` …) may let the process in.
    """

    name: str
    key: str = field(default="", repr=False, compare=False)
    key_is_optional: bool = field(default=True, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        return (StorageAccount, (self.name,))

    @property
    def host(self) -> str:
        """The account's host of the DFS endpoint, by which Hadoop names it."""
        account, _, domain = self.name.lower().partition(".")
        return f"{account}.{domain.replace('blob.', 'dfs.', 1) or _PUBLIC_DOMAIN}"

    def container(self, name: str) -> StoragePath:
        """A container; a folder of that name where a folder or another store stands in for the account.

        Raises StorageError for a name that no container has.
        """
        stand_in = self._stand_in()
        if stand_in is not None and not stand_in.startswith(("http://", "https://")):
            return storage_path(stand_in) / name
        return storage_path(f"abfss://{name}@{self.host}")

    def settings(self) -> Mapping[str, str]:
        """What lets a process in, as Hadoop's settings; they hold the key itself, so they are never shown.

        Raises ProjectError for a key that the project refers to and the environment has not.
        """
        found: dict[str, str] = {}
        stand_in = self._stand_in()
        if stand_in is not None:
            scheme, _, rest = stand_in.partition("://")
            if scheme not in ("http", "https"):
                return {}
            found[f"fs.azure.abfs.endpoint.{self.host}"] = rest.partition("/")[0]
            found[f"fs.azure.always.use.https.{self.host}"] = "true" if scheme == "https" else "false"
        if self.key and (key := self._resolved_key()):
            found[f"fs.azure.account.key.{self.host}"] = key
        return found

    def _resolved_key(self) -> str | None:
        try:
            return resolved_secret(self.key, os.environ, f"the storage account {self.name!r}")
        except ProjectError:
            if self.key_is_optional:
                return None
            raise

    def _stand_in(self) -> str | None:
        return endpoint(self.host.replace(".dfs.", ".blob.")) or endpoint(self.host)
