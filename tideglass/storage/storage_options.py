"""How a process gets into an object store: from its environment and from Spark's configuration.

Everybody's variables (`AZURE_STORAGE_ACCOUNT_KEY`, `AWS_ACCESS_KEY_ID`, …) are read by the library of the
store itself. What Spark's configuration says (`fs.azure.account.key.…`, `fs.s3a.access.key`, …) is known to
the driver; it goes on to the processes it starts, and to executors, as one variable of their environment,
`TIDEGLASS_STORAGE_SETTINGS`. So neither a path nor a plan nor a file of a job holds a secret: a process
finds the options where it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, NoReturn

from tideglass.core.errors import StorageError
from tideglass.storage.store_uri import StoreUri

#: The variable with Hadoop's settings of file systems, a JSON object.
VARIABLE = "TIDEGLASS_STORAGE_SETTINGS"

_FILE_SYSTEMS = ("fs.azure.", "fs.s3a.", "fs.gs.")
_OF_SPARK = "spark.hadoop."
_PUBLIC_AZURE = "dfs.core.windows.net"
_AZURE_KEYS = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY")
_AZURE_ENDPOINTS = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
_AWS_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


@dataclass(frozen=True, slots=True, repr=False)
class StorageOptions:
    """Hadoop's settings of object stores, which may hold secrets: never shown and never pickled.

    settings: pairs of Hadoop's name (`fs.s3a.endpoint`) and value, in the order of their names
    """

    settings: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of_spark(configuration: Mapping[str, str]) -> StorageOptions:
        """What Spark's configuration (`spark.hadoop.fs.…`) or Hadoop's (`fs.…`) says of stores."""
        found = {name.removeprefix(_OF_SPARK): value for name, value in configuration.items()}
        return StorageOptions(
            tuple(sorted(each for each in found.items() if each[0].startswith(_FILE_SYSTEMS)))
        )

    @staticmethod
    def of_environment(environment: Mapping[str, str] | None = None) -> StorageOptions:
        """What the driver has put into the environment of this process.

        Raises StorageError for a variable that holds no JSON object.
        """
        text = (os.environ if environment is None else environment).get(VARIABLE, "")
        if not text:
            return StorageOptions()
        try:
            found: Any = json.loads(text)
            return StorageOptions.of_spark({str(name): str(value) for name, value in found.items()})
        except (ValueError, AttributeError):  # without its cause, which would show the text
            raise StorageError(f"[STORAGE_SETTINGS] the variable {VARIABLE} holds no JSON object") from None

    def put_into(self, environment: MutableMapping[str, str]) -> None:
        """Make processes with this environment use these options, over those that are in it."""
        merged = dict(StorageOptions.of_environment(environment).settings) | dict(self.settings)
        if merged:
            environment[VARIABLE] = json.dumps(merged, sort_keys=True)

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(name for name, _ in self.settings)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("storage options hold secrets: a process takes them from its environment")


def store_config(uri: StoreUri, options: StorageOptions, environment: Mapping[str, str]) -> dict[str, Any]:
    """The keyword arguments for the store's class in obstore, which reads the environment itself."""
    settings = dict(options.settings)
    match uri.kind:
        case "azure":
            found = _azure(uri, settings, environment)
            endpoint = found.get("endpoint") or _first(environment, _AZURE_ENDPOINTS) or ""
        case "s3":
            found = _s3(settings)
            endpoint = found.get("endpoint") or _first(environment, _AWS_ENDPOINTS) or ""
            if not found.get("region") and not _first(environment, ("AWS_REGION", "AWS_DEFAULT_REGION")):
                found["region"] = "us-east-1"  # obstore asks for one; S3-compatible stores have none
        case "gcs":
            key_file = settings.get("fs.gs.auth.service.account.json.keyfile")
            found, endpoint = {"service_account": key_file} if key_file else {}, ""
        case "memory":
            found, endpoint = {}, ""
    return found | ({"client_options": {"allow_http": True}} if endpoint.startswith("http://") else {})


def hadoop_settings(uri: StoreUri, environment: Mapping[str, str]) -> dict[str, str]:
    """What Hadoop needs to get into a store that only the environment describes.

    S3 is not among them: Hadoop's driver reads the same variables.
    """
    found: dict[str, str] = {}
    if uri.kind == "azure":
        if key := _first(environment, _AZURE_KEYS):
            for host in (uri.host, uri.host.replace(".dfs.", ".blob.")):
                found[f"fs.azure.account.key.{host}"] = key
        endpoint = _first(environment, _AZURE_ENDPOINTS)
        if endpoint and endpoint.startswith("http://"):
            found |= _azure_over_http(endpoint.removeprefix("http://").partition("/")[0])
    elif uri.kind == "s3" and (endpoint := _first(environment, _AWS_ENDPOINTS)):
        found["fs.s3a.endpoint"] = endpoint
        found["fs.s3a.path.style.access"] = "true"
        if endpoint.startswith("http://"):
            found["fs.s3a.connection.ssl.enabled"] = "false"
    return found


def _azure_over_http(host: str) -> dict[str, str]:
    """A store without folders and TLS, such as Azurite; Hadoop's usual client asks for TLS."""
    return {
        "fs.azure.abfs.endpoint": host,
        "fs.azure.always.use.https": "false",
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.fns.account.service.type": "BLOB",
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
    }


def _azure(uri: StoreUri, settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    def setting(name: str) -> str | None:
        """Of the container's account, else of all accounts."""
        hosts = (uri.host, uri.host.replace(".dfs.", ".blob."), uri.host.replace(".blob.", ".dfs."))
        return _first(settings, (*(f"{name}.{host}" for host in hosts), name))

    found: dict[str, Any] = {"account_name": uri.account}
    suffix = uri.host.partition(".")[2].replace("blob.", "dfs.", 1)
    if suffix.endswith("fabric.microsoft.com"):
        found["use_fabric_endpoint"] = True
    elif suffix and suffix != _PUBLIC_AZURE:
        found["endpoint"] = f"https://{uri.account}.{suffix.replace('dfs.', 'blob.', 1)}"
    if host := setting("fs.azure.abfs.endpoint"):
        protocol = "http" if setting("fs.azure.always.use.https") == "false" else "https"
        found["endpoint"] = f"{protocol}://{host}/{uri.account}"
    elif endpoint := _first(environment, _AZURE_ENDPOINTS):
        found["endpoint"] = endpoint
    login = setting("fs.azure.account.oauth2.client.endpoint") or ""
    found |= {
        "account_key": setting("fs.azure.account.key"),
        "sas_key": setting("fs.azure.sas.fixed.token"),
        "client_id": setting("fs.azure.account.oauth2.client.id"),
        "client_secret": setting("fs.azure.account.oauth2.client.secret"),
        "tenant_id": login.partition("://")[2].partition("/")[2].partition("/")[0] or None,
    }
    return {name: value for name, value in found.items() if value}


def _s3(settings: Mapping[str, str]) -> dict[str, Any]:
    endpoint = settings.get("fs.s3a.endpoint", "")
    if endpoint and "://" not in endpoint:
        insecure = settings.get("fs.s3a.connection.ssl.enabled") == "false"
        endpoint = f"{'http' if insecure else 'https'}://{endpoint}"
    found = {
        "access_key_id": settings.get("fs.s3a.access.key"),
        "secret_access_key": settings.get("fs.s3a.secret.key"),
        "session_token": settings.get("fs.s3a.session.token"),
        "endpoint": endpoint,
        "region": settings.get("fs.s3a.endpoint.region"),
    }
    return {name: value for name, value in found.items() if value}


def _first(values: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((values[name] for name in names if values.get(name)), None)
