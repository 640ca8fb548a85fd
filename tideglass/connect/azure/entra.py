"""Tokens of Entra ID, for services that are reached without a key (`"AuthenticationMode": "Msi"`).

A registered application signs in by `AZURE_TENANT_ID`, `AZURE_CLIENT_ID` and `AZURE_CLIENT_SECRET` (client
credentials, RFC 6749, 4.4). Without these the library azure-identity finds the identity: of a machine, a pod
or a user. A token is asked for again a few minutes before it ends.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tideglass.connect.azure.endpoints import endpoint
from tideglass.connect.environment import resolved
from tideglass.core.errors import ProjectError
from tideglass.core.masking import keep_secret

#: The host that signs in; a stand-in for it answers at the same path.
LOGIN_HOST = "login.microsoftonline.com"

TENANT, CLIENT, SECRET = "AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"
#: A token that ends sooner than this is not used any more.
_RENEWED_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class EntraToken:
    """A token and when it ends.

    text: what goes into `Authorization: Bearer`.
    expires_seconds: since 1970.
    """

    text: str = field(repr=False)
    expires_seconds: float


_kept: dict[tuple[str, str], EntraToken] = {}


def entra_token(scope: str) -> EntraToken:
    """A token for a scope such as `https://database.windows.net/.default`, kept until it nearly ends.

    Raises ProjectError where there is no identity or it is refused, OSError where nobody answers.
    """
    key = (scope, os.environ.get(CLIENT, ""))
    found = _kept.get(key)
    if found is None or found.expires_seconds - time.time() < _RENEWED_SECONDS:
        found = _kept[key] = _asked(scope)
    return found


def token_url(environment: Mapping[str, str]) -> str:
    """Where an application signs in. Raises ProjectError for a tenant that is not set."""
    tenant = resolved(f"${{{TENANT}}}", environment, "the sign-in with Entra ID")
    return f"{endpoint(LOGIN_HOST) or f'https://{LOGIN_HOST}'}/{tenant}/oauth2/v2.0/token"


def has_application(environment: Mapping[str, str]) -> bool:
    """Whether an application of the environment signs in by its secret."""
    return CLIENT in environment and (SECRET in environment or f"{SECRET}_FILE" in environment)


def _asked(scope: str) -> EntraToken:
    if has_application(os.environ):
        return _of_application(scope)
    return _of_library(scope)


def _of_application(scope: str) -> EntraToken:
    import urllib.error
    import urllib.parse
    import urllib.request

    words = {
        "grant_type": "client_credentials",
        "client_id": os.environ[CLIENT],
        "client_secret": resolved(f"${{{SECRET}}}", os.environ, "the sign-in with Entra ID"),
        "scope": scope,
    }
    url = token_url(os.environ)
    request = urllib.request.Request(url, urllib.parse.urlencode(words).encode(), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            found = cast("dict[str, Any]", json.loads(answer.read()))
    except urllib.error.HTTPError as error:
        if error.code >= 500 or error.code == 429:
            raise
        raise ProjectError(
            f"Entra ID refuses the application {os.environ[CLIENT]} ({error.code} from {url})\n"
            f"  hint: look at {TENANT}, {CLIENT} and {SECRET}"
        ) from error
    return EntraToken(
        keep_secret(str(found["access_token"])), time.time() + float(found.get("expires_in", 3600))
    )


def _of_library(scope: str) -> EntraToken:
    credential = _credential()
    try:
        found = credential(scope)
    except Exception as error:  # whatever that library's many ways raise
        raise ProjectError(f"no identity of Entra ID was found: {error}") from error
    return EntraToken(keep_secret(found.token), float(found.expires_on))


def _credential() -> Callable[[str], Any]:
    try:
        from azure.identity import DefaultAzureCredential  # pyright: ignore
    except ImportError as error:
        raise ProjectError(
            f"a managed identity needs azure-identity\n  hint: pip install 'tideglass[azure]', or "
            f"set {TENANT}, {CLIENT} and {SECRET} for a registered application"
        ) from error
    return cast("Any", DefaultAzureCredential()).get_token
