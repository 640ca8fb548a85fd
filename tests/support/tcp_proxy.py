"""A proxy between a client and a server, which cuts connections when it is told to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_PIECE = 65_536


@dataclass
class TcpProxy:
    """Passes bytes on, from a port of this machine to a server.

    connect: opens a connection to the server.
    lose_answer_to: bytes of a request whose answer is lost, once: the server gets it and answers, the
        client sees the connection cut; None for none.
    once_seen: bytes of a request of any connection before which no answer is lost; None for none.
    cut_after_bytes: of one connection's requests, after which it is cut, once; None for never.
    refuses: whether new connections are cut at once.
    """

    connect: Callable[[], socket.socket]
    lose_answer_to: bytes | None = None
    once_seen: bytes | None = None
    cut_after_bytes: int | None = None
    refuses: bool = False
    lost: int = 0
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _open: list[socket.socket] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self._listener.getsockname()[1]

    def cut(self) -> None:
        """Cut all connections."""
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._open.clear()

    def close(self) -> None:
        self.refuses = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            try:
                server = self.connect()
            except OSError:
                client.close()
                continue
            self._open += [client, server]
            losing = threading.Event()
            for target, ends in ((self._requests, (client, server)), (self._answers, (server, client))):
                threading.Thread(target=target, args=(*ends, losing), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        passed = 0
        with suppress(OSError):
            while piece := client.recv(_PIECE):
                passed += len(piece)
                if self.cut_after_bytes is not None and passed > self.cut_after_bytes:
                    self.cut_after_bytes = None
                    self.lost += 1
                    break
                if self.once_seen is not None and self.once_seen in piece:
                    self.once_seen = None
                lost = self.lose_answer_to if self.once_seen is None else None
                if lost is not None and lost in piece:
                    self.lose_answer_to = None
                    losing.set()
                server.sendall(piece)
        _shut(client, server)

    def _answers(self, server: socket.socket, client: socket.socket, losing: threading.Event) -> None:
        with suppress(OSError):
            while piece := server.recv(_PIECE):
                if losing.is_set():
                    self.lost += 1
                    break
                client.sendall(piece)
        _shut(client, server)


def _shut(*ends: socket.socket) -> None:
    for each in ends:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to_socket(path: str) -> Iterator[TcpProxy]:
    """A proxy to a server that listens on a Unix socket."""

    def connect() -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        server.connect(path)
        return server

    proxy = TcpProxy(connect)
    threading.Thread(target=proxy.serve, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.close()
