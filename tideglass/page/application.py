"""The page as a starlette application: a table of addresses, and who answers each.

Endpoints that read files are plain functions, which starlette runs in threads; the event loop only sends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from tideglass.job.directory import JobDirectory
from tideglass.job.report.status import Status
from tideglass.page.answers import (
    NoAnswer,
    jobs_answer,
    profile_answer,
    query_answer,
    runs_answer,
    why_answer,
)
from tideglass.page.guard import Access, Guard
from tideglass.page.health import health_answer, liveness, readiness
from tideglass.page.history_samples import history_answer
from tideglass.page.job_table import JobTable
from tideglass.page.json_response import json_response
from tideglass.page.playground_routes import PLAY_INDEX, playground_routes
from tideglass.page.static_files import INDEX, static_files
from tideglass.page.status_feed import StatusCache, StatusFeed, TooManyListeners
from tideglass.play.player import Player, TooManyAttempts

#: Of a history, unless more or fewer are asked for: a chart has no more columns.
_MOST_SAMPLES = 1500


@dataclass(slots=True)
class Page:
    """What a page serves.

    table: the jobs.
    run: the directory of the run in whose process the page is; None beside the jobs.
    feed: pushes statuses.
    player: of the playground; None without one.
    newest: the statuses as they are sent.
    started_seconds: when the page began, seconds of the epoch.
    """

    table: JobTable
    run: JobDirectory | None = None
    player: Player | None = None
    newest: StatusCache = field(default_factory=StatusCache)
    feed: StatusFeed = field(init=False)
    started_seconds: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.feed = StatusFeed(self.newest)

    def directory(self, request: Request) -> JobDirectory:
        """The job an address names. Raises NoAnswer for an unknown one."""
        name = request.path_params["name"]
        directory = self.table.jobs().get(name)
        if directory is None:
            known = ", ".join(self.table.jobs()) or "none yet"
            raise NoAnswer("NO_JOB", f"there is no job {name!r}", f"there are: {known}")
        return directory


def application(page: Page, access: Access) -> ASGIApp:
    """The page, behind its guard: what is refused, or fails, has its headers too."""
    files = static_files()

    def index(request: Request) -> Response:
        return static(request, PLAY_INDEX if page.player is not None else INDEX)

    def job_page(request: Request) -> Response:
        page.directory(request)
        return static(request, INDEX)

    def static(request: Request, path: str | None = None) -> Response:
        found = files.get(path or request.path_params["path"])
        if found is None:
            raise NoAnswer("NO_FILE", "the page has no such file")
        return found.response(request)

    def jobs(_: Request) -> Response:
        return json_response(
            jobs_answer(
                page.table.jobs(),
                many=page.table.many,
                play=page.player is not None,
                status_of=page.newest.status,
            )
        )

    def status(request: Request) -> Response:
        return Response(page.newest.body(page.directory(request)), media_type="application/json")

    def of_job(answer: Callable[[JobDirectory], Any]) -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            return json_response(answer(page.directory(request)))

        return endpoint

    def history(request: Request) -> Response:
        since_ms, most = _number(request, "since_ms"), _number(request, "most")
        return json_response(
            history_answer(
                page.directory(request),
                after_ms=None if since_ms is None else int(since_ms),
                most=_MOST_SAMPLES if most is None else int(most),
            )
        )

    def why(request: Request) -> Response:
        return json_response(why_answer(page.directory(request), request.query_params.get("output")))

    async def events(request: Request) -> Response:
        directory = page.directory(request)
        page.feed.admit()
        return StreamingResponse(page.feed.frames(directory), media_type="text/event-stream")

    def livez(request: Request) -> Response:
        return health(request, liveness(page.run, page.started_seconds))

    def readyz(request: Request) -> Response:
        return health(request, readiness(page.run))

    def metrics(_: Request) -> Response:
        from tideglass.telemetry.prometheus import CONTENT_TYPE, exposition

        return Response(exposition(*statuses(page)), headers={"content-type": CONTENT_TYPE})

    def health(request: Request, checks: Any) -> Response:
        code, content = health_answer(checks, named=request.scope["tideglass.admitted"])
        return json_response(content, code)

    routes = [
        Route("/", index),
        Route("/job/{name}", job_page),
        Route("/static/{path:path}", static),
        Route("/livez", livez),
        Route("/readyz", readyz),
        Route("/metrics", metrics),
        Route("/api/jobs", jobs),
        Route("/api/job/{name}/status", status),
        Route("/api/job/{name}/history", history),
        Route("/api/job/{name}/why", why),
        Route("/api/job/{name}/query", of_job(query_answer)),
        Route("/api/job/{name}/runs", of_job(runs_answer)),
        Route("/api/job/{name}/profile", of_job(profile_answer)),
        Route("/api/job/{name}/events", events),
    ]
    if page.player is not None:
        routes += playground_routes(page.player, lambda request: static(request, PLAY_INDEX))
    app = Starlette(
        routes=routes,
        exception_handlers={
            NoAnswer: _no_answer,
            TooManyListeners: _too_many,
            TooManyAttempts: _too_many,
            HTTPException: _refused,
            Exception: _failed,
        },
    )
    return Guard(app, access)


def statuses(page: Page) -> Iterator[Status]:
    """The newest status of every job, under the name its addresses have where there are many."""
    for name, directory in page.table.jobs().items():
        status = page.newest.status(directory)
        if status is not None:
            yield replace(status, job=name) if page.table.many else status


def _number(request: Request, name: str) -> float | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        found = float(text)
        if 0 <= found < 1e15:
            return found
    except ValueError:
        pass
    raise NoAnswer("NO_NUMBER", f"{name} is {text[:40]!r}; it has to be a number from 0 on", status=400)


async def _no_answer(_: Request, error: Exception) -> Response:
    assert isinstance(error, NoAnswer)
    return json_response(error.content, error.status)


async def _too_many(_: Request, error: Exception) -> Response:
    code = "TOO_MANY_LISTENERS" if isinstance(error, TooManyListeners) else "TOO_MANY_ATTEMPTS"
    return json_response(NoAnswer(code, str(error)).content, 503)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return json_response(NoAnswer("NO_ADDRESS", "the page has no such address").content, error.status_code)


async def _failed(_: Request, error: Exception) -> Response:
    """A fault of the page itself. What it is, is for the log of the process, not for whoever asks."""
    return json_response(NoAnswer("FAULT", f"the page failed: {type(error).__name__}").content, 500)
