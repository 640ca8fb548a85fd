"""Which object store a URI means, as Spark and Hadoop spell it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from tideglass.core.errors import StorageError

#: `memory` is a store of this process, for tests: it is gone when the process ends.
StoreKind = Literal["azure", "s3", "gcs", "memory"]

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
_KINDS: dict[str, StoreKind] = {
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), "azure"),
    **dict.fromkeys(("s3", "s3a"), "s3"),
    "gs": "gcs",
    "memory": "memory",
}
SPELLINGS = (
    "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER, s3a://BUCKET/FOLDER, gs://BUCKET/FOLDER, "
    "or a folder of this machine"
)


@dataclass(frozen=True, slots=True)
class StoreUri:
    """A container or bucket of an object store.

    root: the URI of the container itself, without a slash at its end
    container: its name; for S3 and GCS the bucket
    host: `account.dfs.core.windows.net`; empty for stores that are not Azure's
    """

    kind: StoreKind
    root: str
    container: str
    host: str = ""

    @property
    def account(self) -> str:
        """The storage account, empty for stores that are not Azure's."""
        return self.host.partition(".")[0]


def scheme_of(text: str) -> str:
    """The scheme of a URI in small letters, empty for the path of a file.

    >>> scheme_of("s3a://bucket/a"), scheme_of("/a/b"), scheme_of("a:b")
    ('s3a', '', '')
    """
    match = _SCHEME.match(text)
    return match[1].lower() if match else ""


def names_store(text: str) -> bool:
    """Whether a text is a URI of an object store.

    >>> names_store("s3a://bucket/a"), names_store("hdfs://host/a"), names_store("/a")
    (True, False, False)
    """
    return scheme_of(text) in _KINDS


def store_uri(text: str) -> tuple[StoreUri, str]:
    """The store of a URI and the path in it, without a slash at either end.

    Raises StorageError for a URI that names no store we know, and for one that holds a secret.

    >>> store_uri("abfs://jobs@account.dfs.core.windows.net/a/b")[1]
    'a/b'
    """
    scheme = scheme_of(text)
    if scheme not in _KINDS:
        hdfs = "; a mounted HDFS is a folder of this machine" if scheme == "hdfs" else ""
        raise StorageError(
            f"[UNKNOWN_STORAGE] files under {scheme}:// are not yet supported{hdfs}\n  hint: {SPELLINGS}"
        )
    # Names of files may hold characters that separate parts of other URIs; Hadoop takes them as they are.
    authority, _, path = text.partition("://")[2].partition("/")
    if "?" in authority or "#" in authority:
        raise StorageError(
            f"[STORAGE_URI] a {scheme}:// URI has no parameters\n  hint: credentials are for the environment"
        )
    kind = _KINDS[scheme]
    path = "/".join(part for part in path.split("/") if part)
    if any(part in (".", "..") for part in path.split("/")):
        raise StorageError(f"[STORAGE_URI] {text} holds a part that is a dot or two, which no store has")
    if kind != "azure":
        if not authority or "@" in authority or ":" in authority:
            raise StorageError(
                f"[STORAGE_URI] a {scheme}:// URI is {scheme}://BUCKET/FOLDER, without credentials"
                "\n  hint: credentials belong to the environment or to Spark's configuration"
            )
        return StoreUri(kind, f"{scheme}://{authority}", authority), path
    container, _, host = authority.rpartition("@")
    if not container or ":" in container or not host or urlsplit(f"//{host}").username:
        raise StorageError(
            f"[STORAGE_URI] a {scheme}:// URI is {scheme}://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER"
        )
    return StoreUri(kind, f"{scheme}://{authority}", container, host.lower()), path
