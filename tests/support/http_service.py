"""A service over HTTP on a free port: records requests, and answers, hangs or breaks off as a test says."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Received:
    """A request: its path with the query, its headers in lower case, its body, and who it is from."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    client: tuple[str, int]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Says:
    """An answer; `breaks` after half of its body, or before any of it where `lost`; `hangs` without one."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    breaks: bool = False
    lost: bool = False
    hangs: bool = False

    @property
    def accepts(self) -> bool:
        """Whether the service has taken the request, whatever becomes of the answer."""
        return self.status < 300


@dataclass
class HttpService:
    """What a service has received and will say.

    says: answers a request; the default accepts everything.
    """

    url: str = ""
    says: Callable[[Received], Says] = lambda request: Says()
    requests: list[Received] = field(default_factory=list)
    accepted: list[Received] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def in_turn(self, *answers: Says, then: Says | None = None) -> None:
        """Say these, one for each request; afterwards always `then`."""
        left = iter(answers)
        last = then or Says()
        self.says = lambda request: next(left, last)

    def forget(self) -> None:
        self.requests.clear()
        self.accepted.clear()
        self.says = lambda request: Says()


@contextmanager
def an_http_service() -> Iterator[HttpService]:
    """A running service; stopped at the end."""
    service = HttpService()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Received(self.path, headers, body, self.client_address)
            service.requests.append(request)
            said = service.says(request)
            if said.accepts:
                service.accepted.append(request)
            if said.hangs:
                service.ended.wait(60)
            if said.hangs or said.lost:
                self._cut()
                return
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            if said.breaks:
                self.wfile.write(said.body[: len(said.body) // 2])
                self._cut()
            else:
                self.wfile.write(said.body)

        def _cut(self) -> None:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.ended.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
