"""Who may ask the page, and what a browser may do with an answer (`docs/page.md`, "Who may see it").

A request is refused before anything of it is looked at: by its method, its Host header, and, beyond this
machine, its token. Every answer gets the headers that keep a browser to this server.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Sent with every answer. `default-src 'self'` leaves no inline script or style and no other server.
SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
#: Probes have no token; their answers then name no job.
OPEN_PATHS = frozenset(("/livez", "/readyz"))
TOKEN = "token"
COOKIE = "tideglass-token"


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask.

    token: what a request has to know; None on this machine alone.
    local: the server listens on this machine alone, so a request names it by a loopback name.
    allowed_hosts: host names the server is reached by besides its own.
    posts: paths that take POST; all others take GET only.
    """

    token: str | None = None
    local: bool = True
    allowed_hosts: frozenset[str] = frozenset()
    posts: frozenset[str] = frozenset()

    def admits_host(self, header: str) -> bool:
        """Whether a Host header names this server, whatever its port (a tunnel has another).

        A page of another site can have its own name lead here, but it cannot choose an address for a name.

        >>> [Access().admits_host(host) for host in ("localhost:8470", "127.0.0.1", "[::1]:80", "evil.org")]
        [True, True, True, False]
        """
        name = _host_name(header)
        if name == "localhost" or name in self.allowed_hosts:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return not self.local and name == socket.gethostname().lower()
        return address.is_loopback or not self.local

    def admits_token(self, shown: str) -> bool:
        """Whether it is the token; takes as long for a wrong one as for the right one."""
        return self.token is None or hmac.compare_digest(shown.encode(), self.token.encode())


def _host_name(header: str) -> str:
    """The name of a Host header, in lower case, without port and brackets.

    >>> _host_name("LOCALHOST:8470"), _host_name("[::1]:8470"), _host_name("10.0.0.1")
    ('localhost', '::1', '10.0.0.1')
    """
    name = header.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]


@dataclass(frozen=True, slots=True)
class _Refusal:
    status: int
    code: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class Guard:
    """Refuses what `Access` does not admit, and adds the headers to every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # a WebSocket: there is none
            await send({"type": "websocket.close", "code": 1008})
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                named = {name.decode().lower() for name, _ in message.get("headers", ())}
                message["headers"] = [
                    *message.get("headers", ()),
                    *_encoded({n: v for n, v in SECURITY_HEADERS.items() if n not in named}),
                    *([] if "cache-control" in named else [(b"cache-control", b"no-store")]),
                ]
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _answer(sending, refusal.status, _error(refusal), refusal.headers)
        elif (location := self._without_token(scope)) is not None:
            cookie = f"{COOKIE}={self._access.token}; Path=/; HttpOnly; SameSite=Lax"
            await _answer(sending, 303, b"", {"location": location, "set-cookie": cookie})
        else:
            scope["tideglass.admitted"] = self._admitted(scope, headers)
            await self._app(scope, receive, sending)

    def _refusal(self, scope: Scope, headers: Headers) -> _Refusal | None:
        method, path = scope["method"], scope["path"]
        allowed = "POST" if path in self._access.posts else "GET"
        if method != allowed:
            return _Refusal(405, "METHOD_NOT_ALLOWED", f"{path} takes {allowed} only", {"allow": allowed})
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._access.admits_host(hosts[0]):
            words = "the request names a host that is not this server; see --allow-host"
            return _Refusal(421, "UNKNOWN_HOST", words)
        if method == "POST":
            foreign = _foreign(headers, hosts[0])
            if foreign is not None:
                return foreign
        if path not in OPEN_PATHS and not self._admitted(scope, headers):
            return _Refusal(
                401,
                "TOKEN_NEEDED",
                "this page needs its token: open the address with ?token=..., or send it as a Bearer token",
                {"www-authenticate": "Bearer"},
            )
        return None

    def _admitted(self, scope: Scope, headers: Headers) -> bool:
        if self._access.token is None:
            return True
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        shown = [bearer.strip()] if scheme.lower() == "bearer" else []
        shown += [text for name, text in _parameters(scope) if name == TOKEN]
        shown += _cookies(headers)
        return any(self._access.admits_token(text) for text in shown)

    def _without_token(self, scope: Scope) -> str | None:
        """Where a request that shows the token in its address is sent, so that the address can be shared.

        None for a request without one.
        """
        parameters = _parameters(scope)
        if self._access.token is None or not any(name == TOKEN for name, _ in parameters):
            return None
        rest = urlencode([(name, text) for name, text in parameters if name != TOKEN])
        path = (scope.get("raw_path") or scope["path"].encode()).decode("ascii", "replace").partition("?")[0]
        # Two slashes at the beginning would name another server.
        return "/" + path.lstrip("/\\") + (f"?{rest}" if rest else "")


def _foreign(headers: Headers, host: str) -> _Refusal | None:
    """The refusal of a POST that another site's page sends; None for one of our own, or of no page."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != host.strip().lower():
        return _Refusal(403, "FOREIGN_ORIGIN", "a page of another site may not ask this")
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return _Refusal(403, "FOREIGN_ORIGIN", "a page of another site may not ask this")
    # A form of another site cannot have this type, and a script of one would have to ask first.
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return _Refusal(415, "NOT_JSON", "send application/json")
    return None


def _parameters(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)


def _cookies(headers: Headers) -> list[str]:
    found: list[str] = []
    for header in headers.getlist("cookie"):
        try:
            cookies: SimpleCookie = SimpleCookie(header)
        except CookieError:
            continue
        if COOKIE in cookies:
            found.append(cookies[COOKIE].value)
    return found


def _error(refusal: _Refusal) -> bytes:
    content: dict[str, Any] = {"error": {"code": refusal.code, "message": refusal.message, "hint": ""}}
    return json.dumps(content).encode()


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), text.encode("latin-1")) for name, text in headers.items()]


async def _answer(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    own = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    await send({"type": "http.response.start", "status": status, "headers": _encoded(own)})
    await send({"type": "http.response.body", "body": body})
