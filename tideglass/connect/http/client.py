"""The one HTTP client of outputs: connections that are kept, time-outs, TLS that is verified, proxies.

What the environment says of proxies (`HTTPS_PROXY`, `NO_PROXY` …) and certificates (`SSL_CERT_FILE`) holds.
A redirect is not followed: a request with a key goes where the project says, nowhere else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

import httpx

from tideglass.core.errors import OutputError, OutputUnavailable
from tideglass.core.masking import masked

#: Of an answer's body, for people and for the few answers that are read.
_MOST_BYTES_OF_ANSWER = 1 << 20
_CONNECT_SECONDS = 10.0
#: Longer waits than this are not made, whatever `Retry-After` asks for.
_MOST_RETRY_SECONDS = 3600.0
#: Status codes of a service that is there and cannot now.
_LATER = frozenset({408, 425, 429, *range(500, 600)})


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer to a request.

    status: of HTTP.
    body: its first megabyte.
    retry_after_seconds: how long the service asks to be left alone; None where it does not say.
    """

    status: int
    body: bytes = b""
    retry_after_seconds: float | None = None

    @property
    def excerpt(self) -> str:
        """The beginning of the body, on one line, without secrets: a service may answer with what it got."""
        text = masked(" ".join(self.body.decode("utf-8", "replace").split()))
        return text if len(text) <= 300 else f"{text[:300]} …"


def post(url: str, body: bytes, headers: Mapping[str, str], timeout_seconds: float = 100.0) -> HttpAnswer:
    """Send a request and read its answer, whatever its status.

    timeout_seconds: for all of it. Raises OutputUnavailable where no whole answer arrives: the service may
    have taken the request, or not.
    """
    until = time.monotonic() + timeout_seconds
    timeout = httpx.Timeout(timeout_seconds, connect=min(_CONNECT_SECONDS, timeout_seconds))
    try:
        with _client(os.getpid()).stream(
            "POST", url, content=body, headers=dict(headers), timeout=timeout
        ) as answer:
            held = bytearray()
            for part in answer.iter_bytes():
                held += part
                if time.monotonic() > until:
                    raise httpx.ReadTimeout("the answer does not end")
                if len(held) > _MOST_BYTES_OF_ANSWER:
                    break
            return HttpAnswer(
                answer.status_code,
                bytes(held[:_MOST_BYTES_OF_ANSWER]),
                retry_after_seconds(answer.headers.get("retry-after")),
            )
    except httpx.TimeoutException as error:
        raise OutputUnavailable(f"{_host(url)} has not answered within {timeout_seconds:g} s") from error
    except httpx.InvalidURL as error:
        raise OutputError(f"{url!r} is no URL: {error}") from error
    except httpx.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise OutputUnavailable(f"{_host(url)} cannot be reached: {reason}") from error


def raise_for(answer: HttpAnswer, target: str, *, refused: str) -> None:
    """Raise what an answer that is no success means; return where the table here says nothing of it.

    target: what was called, in words. refused: what to look at where access is refused.
    Raises OutputUnavailable for a service that cannot now, OutputError for one that never will.
    """
    if answer.status in _LATER:
        raise OutputUnavailable(
            f"{target} has answered {answer.status}: {answer.excerpt or 'without a text'}",
            retry_after_seconds=answer.retry_after_seconds,
        )
    if answer.status in (401, 403):
        raise OutputError(
            f"{target} refuses access ({answer.status}): {answer.excerpt or 'without a text'}\n"
            f"  hint: {refused}"
        )
    if answer.status in (404, 410):
        raise OutputError(f"{target} is not there ({answer.status}): {answer.excerpt or 'without a text'}")


def bearer(scope: str) -> str:
    """`Authorization` of an identity of Entra ID. Raises OutputUnavailable; ProjectError without one."""
    from tideglass.connect.azure.entra import entra_token

    try:
        return f"Bearer {entra_token(scope).text}"
    except OSError as error:
        raise OutputUnavailable(f"Entra ID cannot be reached: {error}") from error


def retry_after_seconds(text: str | None, now: datetime | None = None) -> float | None:
    """What a header `Retry-After` asks for (RFC 9110, 10.2.3): seconds, or a date; None for anything else.

    >>> retry_after_seconds("7"), retry_after_seconds("soon")
    (7.0, None)
    """
    if text is None:
        return None
    if text.strip().isascii() and text.strip().isdigit():
        return min(float(text), _MOST_RETRY_SECONDS)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    seconds = (at - (now or datetime.now(UTC))).total_seconds()
    return min(max(seconds, 0.0), _MOST_RETRY_SECONDS)


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]


@lru_cache(maxsize=1)
def _client(process: int) -> httpx.Client:
    """The client of a process; one that is forked makes its own."""
    return httpx.Client(follow_redirects=False, headers={"User-Agent": "tideglass"})
