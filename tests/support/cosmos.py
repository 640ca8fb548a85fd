"""Cosmos DB on this machine: a server that knows documents and containers, and one that refuses them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from support.node_packages import fetched, node_command
from support.stores import free_port, running_server

VERSION = "1.0.1"


@contextmanager
def cosmos_server() -> Generator[str]:
    """The URL of an empty server; the tests that ask for it are skipped where it cannot be had."""
    try:
        package = fetched("@vercel/cosmosdb-server", VERSION)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"COSMOS DB IS NOT TESTED: its server cannot be had: {getattr(error, 'stderr', error)}")
    port = free_port()
    script = str(package / "lib" / "cli.js")
    with running_server(node_command("node", script, "-p", str(port), "--no-ssl"), port):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def refusing_cosmos(status: int, **headers: str) -> Generator[str]:
    """The URL of a server whose one container is there, and takes no document."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, {"id": "c", "partitionKey": {"paths": ["/k"], "kind": "Hash"}})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(status, {"code": str(status), "message": "no"}, headers)

        def _answer(self, code: int, body: Any, more: dict[str, str] | None = None) -> None:
            data = json.dumps(body).encode()
            self.send_response(code)
            for name, value in {**(more or {}), "Content-Length": str(len(data))}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
