"""The playground's addresses: its page, what it begins with, and the one address that takes POST.

An attempt is text that is computed in a process of its own (`play.player`); nothing is written, and no
file is read for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tideglass.core.documents import of_plain, to_plain
from tideglass.page.answers import NoAnswer
from tideglass.page.epoch_times import with_epoch_times
from tideglass.page.json_response import json_response
from tideglass.play.attempt import (
    MOST_EVENT_CHARACTERS,
    MOST_EVENTS,
    MOST_QUERY_CHARACTERS,
    Attempt,
)
from tideglass.play.player import Player

PLAY_INDEX = "play.html"
PLAY_PATH = "/api/play"
#: Of a request: a query and events as long as they may be, in UTF-8.
_MOST_BYTES = 4 * (MOST_QUERY_CHARACTERS + MOST_EVENT_CHARACTERS)


def playground_routes(player: Player, page: Callable[[Request], Response]) -> list[Route]:
    """The routes of a playground. page: answers with its page."""

    def beginning(_: Request) -> Response:
        playground = player.playground
        return json_response(
            {
                "name": playground.name,
                "attempt": to_plain(playground.attempt),
                "inputs": playground.inputs,
                "functions": list(playground.functions),
                "most_events": MOST_EVENTS,
            }
        )

    async def play(request: Request) -> Response:
        attempt = _attempt(await _body(request))
        outcome = await run_in_threadpool(player.play, attempt)
        return json_response(with_epoch_times(to_plain(outcome)))

    return [
        Route("/play", page),
        Route("/api/playground", beginning),
        Route(PLAY_PATH, play, methods=["POST"]),
    ]


async def _body(request: Request) -> bytes:
    """The body of a request, no more of it than there may be. Raises NoAnswer for a longer one."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > _MOST_BYTES:
            raise NoAnswer("TOO_LONG", f"an attempt has at most {_MOST_BYTES:,} bytes", status=413)
    return bytes(found)


def _attempt(body: bytes) -> Attempt:
    """The attempt a request asks for. Raises NoAnswer for what is none."""
    try:
        content: Any = json.loads(body)
        return of_plain(Attempt, content)
    except (ValueError, RecursionError) as error:
        raise NoAnswer("NO_ATTEMPT", f"this is no attempt: {error}"[:500], status=400) from error
