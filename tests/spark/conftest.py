"""One Spark session for every test here, and one Kafka broker; without a Java, or the jars, tests are
skipped, and say so."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.cluster import Cluster, machine_with_others, running_cluster
from support.hubs import Hubs, running_hubs
from tideglass.spark.session.java import find_java
from tideglass.spark.session.spark_session import local_session

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "kafka"))

from jars import JarsUnavailable, broker_jars, connector_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks for a Java starts Spark; the rest of this folder is as fast as any test."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and "java" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


def pytest_collection_finish(session: pytest.Session) -> None:
    """The JVM has the connector from its start, whichever test starts it: no session can add it later."""
    chosen = any(item.get_closest_marker("spark") for item in session.items)
    if not chosen or session.config.option.collectonly or find_java(os.environ) is None:
        return
    try:
        jars = sorted(connector_jars().glob("*.jar"))
    except JarsUnavailable:  # the fixture `broker` tells why
        return
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, jars))} pyspark-shell"


@pytest.fixture(scope="session")
def java() -> None:
    if find_java(os.environ) is None:
        pytest.skip("NO SPARK TEST RUNS: no Java 17 or newer; see python -m tideglass.spark.session.java")


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = local_session(2, tmp_path_factory.mktemp("spark") / "spark.log")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def hubs(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hubs]:
    """A real broker that is spoken to as Event Hubs is, which the session has the connector for."""
    try:
        connector_jars()
        broker_jars()
    except JarsUnavailable as error:
        pytest.skip(f"NO KAFKA TEST RUNS: {error}")
    with running_hubs(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture(scope="session")
def broker(hubs: Hubs) -> str:
    """The address of a listener of that broker which asks nobody who is there."""
    return hubs.address


@pytest.fixture(scope="session")
def cluster(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of two workers of one core, which all tests share; whoever ends a worker starts it again."""
    folder = tmp_path_factory.mktemp("cluster")
    with running_cluster(folder, [machine_with_others(folder / name) for name in "ab"]) as started:
        yield started
