"""Object stores on this machine: Azurite speaks as Azure Storage does, moto as S3 does."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

import pytest

from support.node_packages import fetched, node_command

AZURITE_VERSION = "3.37.0"
#: Those that Azurite publishes for everybody.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_START_SECONDS = 60


@dataclass(frozen=True)
class StoreOnThisMachine:
    """A running store with one container.

    root: the URI of the container.
    environment: what a process needs to get into it.
    """

    root: str
    environment: Mapping[str, str]


@contextmanager
def azurite(
    folder: Path, account: str = ACCOUNT, container: str | None = None
) -> Generator[StoreOnThisMachine]:
    """Azurite over an empty folder; the tests that ask for it are skipped where it cannot be had.

    account: its one account. container: its one container; None: one with a name of its own.
    """
    try:
        package = fetched("azurite", AZURITE_VERSION)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"AZURE STORAGE IS NOT TESTED: azurite cannot be had: {getattr(error, 'stderr', error)}")
    port = free_port()
    script = str(package / "dist" / "src" / "blob" / "main.js")
    arguments = ("--location", str(folder), "--blobPort", str(port), "--skipApiVersionCheck", "--silent")
    accounts = {"AZURITE_ACCOUNTS": f"{account}:{ACCOUNT_KEY}"}
    with running_server(node_command("node", script, *arguments), port, accounts):
        container = container or _container(port)
        _make_container(port, account, container)
        yield StoreOnThisMachine(
            f"abfs://{container}@{account}.dfs.core.windows.net",
            {
                "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY,
                "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/{account}",
            },
        )


@contextmanager
def azurite_tables(folder: Path) -> Generator[str]:
    """The URL of Azurite's server of tables over an empty folder; skipped where it cannot be had."""
    try:
        package = fetched("azurite", AZURITE_VERSION)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"TABLE STORAGE IS NOT TESTED: azurite cannot be had: {getattr(error, 'stderr', error)}")
    port = free_port()
    script = str(package / "dist" / "src" / "table" / "main.js")
    arguments = ("--location", str(folder), "--tablePort", str(port), "--skipApiVersionCheck", "--silent")
    with running_server(node_command("node", script, *arguments), port):
        yield f"http://127.0.0.1:{port}/{ACCOUNT}"


@contextmanager
def s3_server() -> Generator[StoreOnThisMachine]:
    """moto's server with one bucket."""
    port = free_port()
    script = "import sys; from moto.server import main; main(sys.argv[1:])"
    with running_server([sys.executable, "-c", script, "-H", "127.0.0.1", "-p", str(port)], port):
        container = _container(port)
        request = urllib.request.Request(f"http://127.0.0.1:{port}/{container}", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
        yield StoreOnThisMachine(
            f"s3a://{container}",
            {
                "AWS_ACCESS_KEY_ID": "nobody",
                "AWS_SECRET_ACCESS_KEY": "nothing",
                "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            },
        )


@contextmanager
def running_server(
    command: list[str], port: int, environment: Mapping[str, str] | None = None
) -> Generator[None]:
    own = {**os.environ, **(environment or {})}
    # A file and no pipe: a server that logs its requests would wait for somebody to read them.
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=log, env=own, start_new_session=True
        )
        try:
            limit = time.monotonic() + _START_SECONDS
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > limit:
                    process.kill()
                    log.seek(0)
                    raise AssertionError(f"{command} did not start: {log.read().decode()}")
                time.sleep(0.05)
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _container(port: int) -> str:
    """A name of its own for each server: a process keeps the client of a container it has used."""
    return f"jobs-{port}"


def _make_container(port: int, account: str, container: str) -> None:
    """The one request that obstore has no function for, signed with the shared key."""
    headers = {
        "Content-Type": "application/octet-stream",
        "x-ms-date": formatdate(usegmt=True),
        "x-ms-version": "2021-08-06",
    }
    own = "".join(f"{name}:{headers[name]}\n" for name in ("x-ms-date", "x-ms-version"))
    resource = f"/{account}/{account}/{container}\nrestype:container"
    signed = f"PUT\n\n\n\n\n{headers['Content-Type']}\n\n\n\n\n\n\n{own}{resource}"
    mac = hmac.new(base64.b64decode(ACCOUNT_KEY), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(mac).decode()}"
    url = f"http://127.0.0.1:{port}/{account}/{container}?restype=container"
    request = urllib.request.Request(url, method="PUT", headers=headers, data=b"")
    urllib.request.urlopen(request, timeout=10).close()
