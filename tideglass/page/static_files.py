"""The files of the page itself, read once: a request is looked up by its whole path, and joined to none."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

INDEX = "index.html"

#: What is served, by suffix; anything else in the folder is not.
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent."""

    body: bytes
    content_type: str
    etag: str

    def response(self, request: Request) -> Response:
        """The file, or that it has not changed since the browser got it."""
        headers = {"etag": self.etag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == self.etag:
            return Response(status_code=304, headers=headers)
        return Response(self.body, headers={**headers, "content-type": self.content_type})


def static_files() -> Mapping[str, StaticFile]:
    """All files of the package's folder `static` by their path below it, with slashes."""
    found: dict[str, StaticFile] = {}
    _collect(resources.files("tideglass.page").joinpath("static"), "", found)
    return found


def _collect(folder: Traversable, prefix: str, found: dict[str, StaticFile]) -> None:
    if not folder.is_dir():
        return
    for each in folder.iterdir():
        name = f"{prefix}{each.name}"
        if each.is_dir():
            _collect(each, f"{name}/", found)
        elif (content_type := CONTENT_TYPES.get(_suffix(each.name))) is not None:
            body = each.read_bytes()
            found[name] = StaticFile(body, content_type, f'"{hashlib.sha256(body).hexdigest()[:16]}"')


def _suffix(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    return f"{dot}{suffix}" if stem else ""
