"""Stand-ins for services of the cloud: the address that is used where a project means a host of Azure.

The variable `TIDEGLASS_ENDPOINTS` holds them as a JSON object, a URL for each host; `--endpoint HOST=URL` of
`run` adds to it. They are of the machine a job runs on, so no file of a project can name any.

    {"toll.servicebus.windows.net": "sasl_plaintext://127.0.0.1:9093",
     "devstoreaccount1.blob.core.windows.net": "http://127.0.0.1:11000/devstoreaccount1"}
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, cast

from tideglass.core.errors import ProjectError

#: The variable of the environment.
ENDPOINTS = "TIDEGLASS_ENDPOINTS"


def endpoint(host: str) -> str | None:
    """The URL that stands in for a host, without a slash at its end; None where the host itself is meant.

    Raises ProjectError for a variable that holds no such object.
    """
    return endpoints_in(os.environ).get(host.lower())


def endpoints_in(environment: Mapping[str, str]) -> dict[str, str]:
    """All stand-ins, by the host in lower case. Raises ProjectError.

    >>> endpoints_in({"TIDEGLASS_ENDPOINTS": '{"Toll.servicebus.windows.net": "http://127.0.0.1:80/"}'})
    {'toll.servicebus.windows.net': 'http://127.0.0.1:80'}
    """
    text = environment.get(ENDPOINTS, "").strip()
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ProjectError(f"{ENDPOINTS} is not JSON: {error}\n{_HINT}") from error
    if not isinstance(found, dict):
        raise ProjectError(f"{ENDPOINTS} is no JSON object\n{_HINT}")
    urls = cast("dict[str, Any]", found)
    return {host.lower(): _checked(host, url, ENDPOINTS) for host, url in urls.items()}


def with_endpoints(texts: Iterable[str], environment: Mapping[str, str]) -> str:
    """The value of the variable with `HOST=URL` texts added; a later one of a host replaces the earlier.

    Raises ProjectError for a text that is none.
    """
    found = endpoints_in(environment)
    for text in texts:
        host, equals, url = text.partition("=")
        if not (host and equals):
            raise ProjectError(f"--endpoint {text!r} is not HOST=URL")
        found[host.lower()] = _checked(host, url, f"--endpoint {text!r}")
    return json.dumps(found, sort_keys=True)


def _checked(host: str, url: object, source: str) -> str:
    if "/" in host or ":" in host:
        raise ProjectError(f"{source}: {host!r} is no host; leave scheme, port and path out of it")
    scheme, found, rest = url.partition("://") if isinstance(url, str) else ("", "", "")
    if not (scheme and found and rest):
        raise ProjectError(f"{source}: the endpoint of {host} is {url!r}, which is no URL\n{_HINT}")
    return f"{scheme.lower()}://{rest.rstrip('/')}"


_HINT = (
    "  hint: it is an object with a URL for each host, such as "
    '{"toll.servicebus.windows.net": "sasl_plaintext://127.0.0.1:9093"}'
)
