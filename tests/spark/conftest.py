"""One Spark session for every test here; without any Java they are skipped, and say so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tideglass.spark.java import find_java
from tideglass.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks for a Java starts Spark; the rest of this folder is as fast as any test."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and "java" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def java() -> None:
    if find_java(os.environ) is None:
        pytest.skip("NO SPARK TEST RUNS: there is no Java 17 or newer; see python -m tideglass.spark.java")


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = local_session(2, tmp_path_factory.mktemp("spark") / "spark.log")
    yield session
    session.stop()
