"""The server of the page: in a thread beside a run, or as the only work of a process."""

from __future__ import annotations

import errno
import ipaddress
import re
import secrets
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

import uvicorn

from tideglass.core.errors import TideglassError
from tideglass.job.directory import JobDirectory
from tideglass.page.application import Page, application
from tideglass.page.guard import TOKEN, Access
from tideglass.page.job_table import JobTable
from tideglass.page.playground_routes import PLAY_PATH

#: How long a thread may take to start listening, and connections to end.
_START_SECONDS, _END_SECONDS = 10.0, 3
#: Fit for an address and a cookie as they are, and not to be guessed.
_TOKEN = re.compile(r"[A-Za-z0-9_.~-]{16,}")


@dataclass(frozen=True, slots=True)
class Address:
    """Where the page listens, and who may ask it.

    host: an address of this machine, or a name of one.
    port: 0 for any that is free.
    token: what a request has to know; None: nothing on this machine alone, beyond it one that is generated.
    allowed_hosts: host names the page is reached by besides this machine's own.
    """

    host: str = "127.0.0.1"
    port: int = 8470
    token: str | None = None
    allowed_hosts: Sequence[str] = ()

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def chosen_token(self) -> str | None:
        """The token to be demanded. Raises TideglassError for one that can be guessed or fits no address."""
        if self.token is None:
            return None if self.is_local else secrets.token_urlsafe(24)
        if not _TOKEN.fullmatch(self.token):
            raise TideglassError(
                "[PAGE_TOKEN] the token has to have at least 16 characters, letters, digits and -_.~ only\n"
                "  hint: leave it out, and one is generated"
            )
        return self.token


class PageServer:
    """The page on an address. `with` runs it in a thread; `serve` runs it here.

    The port is taken when this is made, so that one that is not free is reported before anything else starts.
    Raises TideglassError for a port that is taken, an address that is not of this machine, and a bad token.
    """

    def __init__(self, page: Page, address: Address) -> None:
        self._token = address.chosen_token()
        self._socket = _bound(address)
        self._page = page
        access = Access(
            token=self._token,
            local=address.is_local,
            allowed_hosts=frozenset(each.lower() for each in address.allowed_hosts),
            posts=frozenset() if page.player is None else frozenset((PLAY_PATH,)),
        )
        config = uvicorn.Config(
            application(page, access),
            log_level="warning",
            access_log=False,  # an address may have the token in it
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="off",
            timeout_graceful_shutdown=_END_SECONDS,
        )
        self._server = _Server(config, page)
        self._thread = threading.Thread(target=self._run, name="page", daemon=True)
        self._host = address.host

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._socket.getsockname()[1]

    @property
    def url(self) -> str:
        """Where a browser on this machine finds it; with the token, if there is one."""
        return self.bare_url + (f"?{TOKEN}={self._token}" if self._token else "")

    @property
    def bare_url(self) -> str:
        """The same without the token, for what others may see."""
        host = "127.0.0.1" if self._host in ("0.0.0.0", "::", "") else self._host
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.port}/"

    def serve(self) -> None:
        """Serve until SIGINT or SIGTERM."""
        try:
            self._run()
        except KeyboardInterrupt:  # uvicorn has ended everything and raises the signal again
            return

    def __enter__(self) -> PageServer:
        self._thread.start()
        if not self._server.listening.wait(_START_SECONDS):
            raise TideglassError("the page has not started to listen; see the log")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(2 * _END_SECONDS)

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


class _Server(uvicorn.Server):
    """Says when it listens, and ends the streams before it waits for connections to end."""

    def __init__(self, config: uvicorn.Config, page: Page) -> None:
        super().__init__(config)
        self.listening = threading.Event()
        self._page = page

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._page.feed.close()
        await super().shutdown(sockets)


def _bound(address: Address) -> socket.socket:
    """A socket that has the port. Raises TideglassError where it cannot be had."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address.host or "0.0.0.0", address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(place)
        found.listen(100)  # only then is the port ours
    except (OSError, OverflowError) as error:
        raise _refused(address, error) from error
    return found


def _refused(address: Address, error: Exception) -> TideglassError:
    place = f"{address.host}:{address.port}"
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EADDRINUSE:
        return TideglassError(
            f"[PORT_TAKEN] the page cannot listen on {place}: another program does\n"
            "  hint: name another port, or 0 for any that is free"
        )
    return TideglassError(f"[PAGE_ADDRESS] the page cannot listen on {place}: {error}")


def page_of_run(directory: JobDirectory) -> Page:
    """The page inside the process of a run."""
    return Page(JobTable(directory=directory), run=directory)
