"""JSON as the page sends it."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response


def body_of(content: Any) -> bytes:
    """Values as JSON without blanks. NaN is none of JSON's: a value that has it is a mistake of ours."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()


def json_response(content: Any, status: int = 200) -> Response:
    """An answer of the page."""
    return Response(body_of(content), status_code=status, media_type="application/json")
