"""A broker that is spoken to as Event Hubs is: by a connection string, or a token of Entra ID."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "kafka"))

from broker import Security, free_ports, running_broker

from support.token_server import CLIENT, SECRET, TENANT, TokenServer, running_token_server
from tideglass.connect.azure.endpoints import ENDPOINTS
from tideglass.connect.azure.entra import LOGIN_HOST

HOST, IOT_HOST = "contoso.servicebus.windows.net", "plant.azure-devices.net"
KEY = "c2VjcmV0+key/1="


def connection_string(host: str = HOST, policy: str = "both") -> str:
    return f"Endpoint=sb://{host}/;SharedAccessKeyName={policy};SharedAccessKey={KEY}"


@dataclass(frozen=True)
class Hubs:
    """A namespace of hubs.

    address: of a listener that asks nobody.
    secured: of the one that does.
    tokens: who signs tokens.
    """

    address: str
    secured: str
    tokens: TokenServer

    def environment(self, iot_topic: str = "") -> dict[str, str]:
        """Variables by which a job reaches this namespace."""
        stand_ins = {HOST: f"sasl_plaintext://{self.secured}", LOGIN_HOST: self.tokens.url}
        if iot_topic:
            stand_ins[IOT_HOST] = f"sasl_plaintext://{self.secured}/{iot_topic}"
        return {
            ENDPOINTS: json.dumps(stand_ins),
            "HUB_KEY": KEY,
            "AZURE_TENANT_ID": TENANT,
            "AZURE_CLIENT_ID": CLIENT,
            "AZURE_CLIENT_SECRET": SECRET,
        }


@contextlib.contextmanager
def running_hubs(folder: Path) -> Iterator[Hubs]:
    """The namespace `HOST`, and an IoT hub. Raises JarsUnavailable without the broker's jars."""
    (port,) = free_ports(1)
    with running_token_server() as tokens:
        users = {"$ConnectionString": connection_string()}
        security = Security(port, users, tokens.keys_url, f"https://{HOST}")
        with running_broker(folder, security) as address:
            yield Hubs(address, f"127.0.0.1:{port}", tokens)
