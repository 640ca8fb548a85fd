"""An HTTP endpoint in the process of a run that Prometheus scrapes, without a page."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, start_http_server

from tideglass.core.errors import TideglassError
from tideglass.job.report.status import Status
from tideglass.telemetry.prometheus import StatusCollector

#: Nobody but this machine sees the metrics unless the user names another address.
LOCALHOST = "127.0.0.1"


@dataclass(slots=True)
class NewestStatus:
    """Keeps the newest status of a run; called with every status of it."""

    found: list[Status] = field(default_factory=list[Status])

    def all(self) -> list[Status]:
        """The newest status; none before the first."""
        return self.found

    def __call__(self, status: Status) -> None:
        self.found = [status]


@contextmanager
def serving(statuses: Callable[[], Iterable[Status]], port: int, host: str = LOCALHOST) -> Generator[int]:
    """While this lasts, answer scrapes with the newest statuses. Yields the port, which is chosen for port 0.

    Raises TideglassError where nobody can listen there.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(statuses))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise TideglassError(
            f"metrics cannot be served at {host}:{port}: {error.strerror or error}\n"
            "  hint: choose another --metrics-port; 0 takes a free one"
        ) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
