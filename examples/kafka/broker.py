"""A Kafka broker of one node, its own controller (KRaft), for examples, tests and measurements.

    python examples/kafka/broker.py --folder build/broker        until Ctrl-C; prints its address

It keeps no more than it must in memory and listens on this machine only.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jars import JarsUnavailable, broker_jars

from tideglass.spark.session.java import use_java

_CLUSTER = "dGlkZWdsYXNzLWtyYWZ0MQ"  # any 16 bytes in base64
#: Longest wait for it to be there; it takes some five seconds on a quiet machine.
_START_SECONDS = 120

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={logs}
num.network.threads=1
num.io.threads=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


#: A listener as that of Event Hubs, but without TLS: by passwords, and by tokens where someone signs them.
_SECURED = """\
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},SASL_PLAINTEXT://127.0.0.1:{secured}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{secured}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
sasl.enabled.mechanisms={mechanisms}
listener.name.sasl_plaintext.plain.sasl.jaas.config=\
  org.apache.kafka.common.security.plain.PlainLoginModule required {users};
"""
_TOKENS = """\
listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config=\
  org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class=\
  org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
sasl.oauthbearer.jwks.endpoint.url={keys_url}
sasl.oauthbearer.expected.audience={audience}
"""


@dataclass(frozen=True, slots=True)
class Security:
    """Who may use the secured listener.

    port: of that listener.
    users: passwords by name, for SASL/PLAIN.
    keys_url: where the keys are (JWKS) by which tokens are signed, for SASL/OAUTHBEARER; None: no tokens.
    audience: whom a token must be for.
    """

    port: int
    users: Mapping[str, str]
    keys_url: str | None = None
    audience: str = ""

    def properties(self, port: int, controller: int) -> str:
        users = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        mechanisms = "PLAIN" if self.keys_url is None else "PLAIN,OAUTHBEARER"
        text = _SECURED.format(
            port=port, controller=controller, secured=self.port, mechanisms=mechanisms, users=users
        )
        tokens = _TOKENS.format(keys_url=self.keys_url, audience=self.audience)
        return text if self.keys_url is None else text + tokens


@contextlib.contextmanager
def running_broker(folder: Path, security: Security | None = None) -> Iterator[str]:
    """A broker with its data and log in `folder`, while this lasts; gives the address of its open listener.

    security: a second listener asks who is there.
    Raises JarsUnavailable without its jars, RuntimeError when it does not start.
    """
    classpath = f"{broker_jars()}/*"
    java = str(use_java().home / "bin" / "java")
    port, controller = free_ports(2)
    folder.mkdir(parents=True, exist_ok=True)
    properties = folder / "server.properties"
    text = _PROPERTIES.format(port=port, controller=controller, logs=folder / "data")
    properties.write_text(text + ("" if security is None else security.properties(port, controller)))
    options = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classpath]
    log = folder / "broker.log"
    with log.open("ab") as output:
        storage = ["kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", _CLUSTER, "-c"]
        _run([java, *options, *storage, str(properties)], output.fileno(), log)
        process = subprocess.Popen(
            [java, *options, "kafka.Kafka", str(properties)], stdout=output, stderr=output
        )
        try:
            _wait(process, port, log)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _run(command: Sequence[str], output: int, log: Path) -> None:
    if subprocess.run(command, stdout=output, stderr=output, check=False).returncode:
        raise RuntimeError(f"the broker's storage cannot be formatted: {log.read_text()[-2000:]}")


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    limit = time.monotonic() + _START_SECONDS
    while time.monotonic() < limit:
        if process.poll() is not None:
            raise RuntimeError(f"the broker ended: {log.read_text()[-2000:]}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the broker is not there after {_START_SECONDS} s: {log.read_text()[-2000:]}")


def free_ports(count: int) -> list[int]:
    """Ports of this machine nobody listens on now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a Kafka broker until Ctrl-C.")
    parser.add_argument("--folder", type=Path)
    folder = parser.parse_args().folder or Path(tempfile.mkdtemp(prefix="tideglass-broker-"))
    try:
        with running_broker(folder) as address:
            print(f"{address}   (data and log in {folder})", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except (JarsUnavailable, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
