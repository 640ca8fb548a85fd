"""The broker that is spoken to where another one stands in for that of a project."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tideglass.connect.azure.endpoints import endpoint
from tideglass.connect.azure.entra import LOGIN_HOST
from tideglass.core.errors import ProjectError

_SERVERS, _PROTOCOL = "kafka.bootstrap.servers", "kafka.security.protocol"
_JAAS = "kafka.sasl.jaas.config"
#: The option for where tokens are from.
TOKEN_URL = "kafka.sasl.oauthbearer.token.endpoint.url"
#: A key that is a whole connection string, as the portal gives it out.
_WHOLE = re.compile(r'password="[^"]*;SharedAccessKey=(Endpoint=[^"]*)"', re.IGNORECASE)
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_IOT_HUB = ".azure-devices.net"


def at_stand_in(options: Mapping[str, str]) -> dict[str, str]:
    """Options of Spark's connector, its brokers replaced by those that stand in for them.

    Raises ProjectError for a stand-in that is no broker, and for an IoT Hub whose broker nobody knows.
    """
    found = dict(options)
    login = endpoint(LOGIN_HOST)
    if TOKEN_URL in found and login is not None:
        found[TOKEN_URL] = found[TOKEN_URL].replace(f"https://{LOGIN_HOST}", login)
    if _JAAS in found:
        found[_JAAS] = _WHOLE.sub(lambda whole: f'password="{whole[1]}"', found[_JAAS])
    servers: list[str] = []
    for server in options[_SERVERS].split(","):
        host = server.strip().rpartition(":")[0] or server.strip()
        url = endpoint(host)
        if url is None and host.lower().endswith(_IOT_HUB):
            name = host.partition(".")[0]
            raise ProjectError(
                f"the address of the broker of the IoT Hub {name} is not known\n"
                f"  hint: the portal shows it under Built-in endpoints; say --endpoint "
                f"{host}=sasl_ssl://NAMESPACE.servicebus.windows.net:9093/ENTITY_PATH"
            )
        if url is None:
            servers.append(server.strip())
            continue
        scheme, _, place = url.partition("://")
        address, _, _ = place.partition("/")
        if scheme not in _PROTOCOLS:
            raise ProjectError(
                f"the endpoint of {host} is {url}, which is no broker's; it must begin with one of "
                f"{', '.join(f'{each}://' for each in _PROTOCOLS)}"
            )
        found[_PROTOCOL] = scheme.upper()
        if _JAAS in found and address.lower().rpartition(":")[0].endswith(".servicebus.windows.net"):
            found[_JAAS] = found[_JAAS].replace(f"sb://{host}/", f"sb://{address.rpartition(':')[0]}/")
        servers.append(address)
    found[_SERVERS] = ",".join(servers)
    return found


def topic_at_stand_in(topic: str, servers: str) -> str:
    """The topic, or that which the path of the stand-in names in its place."""
    host = servers.partition(",")[0].strip().rpartition(":")[0]
    url = endpoint(host) if host else None
    return ((url or "").partition("://")[2].partition("/")[2]) or topic
