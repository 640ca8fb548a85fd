"""A stand-in for Entra ID: an application signs in, tokens are signed, and their keys are shown (JWKS)."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

TENANT, CLIENT, SECRET = "tenant-1", "app-1", "s3cret&=+"


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass
class TokenServer:
    """Where it is, and how often it was asked with and without success."""

    url: str = ""
    given: int = 0
    refused: int = 0
    key: rsa.RSAPrivateKey = field(
        default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )

    @property
    def keys_url(self) -> str:
        return f"{self.url}/keys"

    def keys(self) -> dict[str, Any]:
        numbers = self.key.public_key().public_numbers()
        parts = {"n": numbers.n, "e": numbers.e}
        found = {name: base64url(n.to_bytes((n.bit_length() + 7) // 8, "big")) for name, n in parts.items()}
        return {"keys": [{"kty": "RSA", "kid": "1", "use": "sig", "alg": "RS256", **found}]}

    def token(self, audience: str) -> str:
        now = int(time.time())
        claims = {"sub": CLIENT, "aud": audience, "iat": now, "exp": now + 3600, "scope": "hubs"}
        head = {"alg": "RS256", "kid": "1", "typ": "JWT"}
        text = ".".join(base64url(json.dumps(each).encode()) for each in (head, claims))
        return f"{text}.{base64url(self.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


@contextlib.contextmanager
def running_token_server() -> Iterator[TokenServer]:
    state = TokenServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(200, state.keys())

        def do_POST(self) -> None:
            words = dict(
                urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode())
            )
            sign_in = (words.get("client_id"), words.get("client_secret"))
            basic = self.headers.get("Authorization", "")
            if basic.startswith("Basic "):
                name, _, secret = base64.b64decode(basic[6:]).decode().partition(":")
                sign_in = (name, secret)
            if self.path != f"/{TENANT}/oauth2/v2.0/token" or sign_in != (CLIENT, SECRET):
                state.refused += 1
                self.answer(401, {"error": "invalid_client"})
                return
            state.given += 1
            audience = words.get("scope", "").removesuffix("/.default")
            self.answer(
                200, {"access_token": state.token(audience), "expires_in": 3600, "token_type": "Bearer"}
            )

        def answer(self, status: int, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the test's output is its own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
