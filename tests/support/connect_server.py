"""A Spark Connect server from the wheel of pyspark, in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tideglass.spark.session.java import use_java

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_REPOSITORY = Path(__file__).parents[2]
#: A cold JVM on a loaded machine.
_START_SECONDS = 120
_SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m",
    "spark.log.level": "ERROR",
}


@contextmanager
def running_connect_server(
    folder: Path, settings: Mapping[str, str] | None = None, python: Path | None = None
) -> Generator[str]:
    """The address, `sc://…`, of a server that ends with this context.

    folder: its working directory, which holds its log, warehouse and scratch files.
    settings: of Spark, besides what makes the server small.
    python: of its workers; None: the Python of this process with tideglass.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": str(python or sys.executable),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
    }
    if python is None:
        environment["PYTHONPATH"] = str(_REPOSITORY)
    use_java(environment)
    asked = _SETTINGS | {"spark.connect.grpc.binding.port": str(port)} | dict(settings or {})
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--class", _SERVER]
    for name, value in asked.items():
        command += ["--conf", f"{name}={value}"]
    log = folder / "server.log"
    with log.open("ab") as printed:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=printed, stderr=printed)
    try:
        _wait_until_it_answers(server, port, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_it_answers(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"the Connect server has ended:\n{log.read_text(errors='replace')[-4000:]}")
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(
        f"no Connect server after {_START_SECONDS} s:\n{log.read_text(errors='replace')[-4000:]}"
    )
