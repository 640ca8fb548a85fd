"""How a library of table formats gets into the store of a path: the options of Rust's object_store."""

from __future__ import annotations

import os
from typing import Any, cast

from tideglass.storage.storage_options import StorageOptions, store_config
from tideglass.storage.storage_path import StoragePath
from tideglass.storage.store_uri import store_uri

#: A run that waits for minutes says nothing meanwhile; it tries again by itself.
_PATIENCE = {"timeout": "30s", "connect_timeout": "5s", "max_retries": "4", "retry_timeout": "30s"}


def table_options(path: StoragePath) -> dict[str, str]:
    """What `deltalake` takes as storage options; may hold secrets. Nothing for a path of this machine.

    The environment's own variables are read by the library itself. Raises StorageError.
    """
    if path.is_local:
        return {}
    uri, _ = store_uri(path.uri)
    config: dict[str, Any] = store_config(uri, StorageOptions.of_environment(), os.environ)
    client = cast("dict[str, Any]", config.pop("client_options", {}))
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in {**config, **client, **_PATIENCE}.items()
    }
