"""One connector for Kafka is named everywhere: in hints, in the docs, in what tests fetch."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import AnalysisException

from tideglass.core.errors import TideglassError
from tideglass.job.query import libraries
from tideglass.spark import connector
from tideglass.spark.connector import CONNECTOR, JARS, no_packages
from tideglass.spark.kafka.input import kafka

ROOT = Path(__file__).parents[2]
COORDINATES = re.compile(r"org\.apache\.[\w.]+:[\w.-]*(?:kafka|pool)[\w.-]*:[\d.]*\d")


def test_the_docs_name_what_the_program_names():
    named = set(COORDINATES.findall((ROOT / "docs/kafka.md").read_text(encoding="utf-8")))
    assert named == set(JARS)


def test_tests_and_the_example_run_with_it():
    sys.path.insert(0, str(ROOT / "examples" / "kafka"))
    from jars import CONNECTORS

    assert JARS in CONNECTORS


def test_the_hint_of_a_session_without_the_connector_names_it():
    class Lacks:
        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: self

        def load(self) -> None:
            raise AnalysisException("Failed to find data source: kafka")

    spark = cast("Any", type("Spark", (), {"readStream": Lacks(), "read": Lacks()})())
    with pytest.raises(TideglassError, match=re.escape(f"spark.jars.packages={CONNECTOR}")):
        kafka(spark, "t", "b:1")


def asked(**options: object) -> Any:
    """What a run over a topic asks Spark to fetch."""
    of_topics = {"topics": {"i": 1}, "outputs": {}, "run_directory": "job"}
    chosen = type("Options", (), {"packages": "", "jars": None, **options})()
    return libraries(cast("Any", type("Job", (), {**of_topics, "options": chosen})()))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Says which Spark is installed; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return lambda version: monkeypatch.setattr(connector, "installed_version", lambda: version)


def test_a_live_run_asks_for_the_connector_of_its_spark_and_then_for_the_tested_one(
    installed: Callable[[str], None],
):
    installed("4.3.0")
    wanted = asked()
    assert wanted.packages == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"
    assert wanted.next().packages == CONNECTOR
    assert wanted.next().next() is None
    assert "hadoop-client-runtime" in wanted.settings()["spark.jars.excludes"]  # Spark has it
    installed("4.2.0")
    assert asked().packages == CONNECTOR
    assert asked().next() is None


def test_what_the_user_chooses_is_all_that_is_asked_for(installed: Callable[[str], None]):
    installed("4.3.0")
    assert asked(jars=Path("jars")).packages == ""
    chosen = asked(packages="a:b:1")
    assert chosen.settings() == {"spark.jars.packages": "a:b:1"}
    assert chosen.next() is None


def test_a_connector_that_nobody_has_is_not_asked_for_again_that_day(installed: Callable[[str], None]):
    installed("4.3.0")
    best = asked().packages
    connector.remember_absent(best)
    assert asked().packages == CONNECTOR
    [remembered] = (Path(os.environ["XDG_CACHE_HOME"]) / "tideglass" / "kafka").iterdir()
    os.utime(remembered, (0, 0))
    assert asked().packages == best
    connector.remember_absent(CONNECTOR)  # which was taken from the start, since `best` is known to be absent
    assert asked().next().packages == CONNECTOR


def test_the_connector_of_another_spark_is_told_of(installed: Callable[[str], None]):
    installed("4.3.0")
    assert connector.stands_in(CONNECTOR) == (
        "nobody has Spark's connector for Kafka of version 4.3.0; 4.2.0 is used, tested with it"
    )
    assert connector.stands_in(asked().packages) is None
    assert connector.stands_in("a:b:1") is None
    installed("4.2.0")
    assert connector.stands_in(CONNECTOR) is None


def test_packages_that_cannot_be_fetched_are_told_with_the_remedy():
    printed = (
        "\t:: org.apache.spark#spark-token-provider;4.2.0: not found\n"
        'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: '
        "org.apache.spark#spark-token-provider;4.2.0: not found]\n\tat org.apache.spark.util.MavenUtils\n"
    )
    told = str(no_packages(CONNECTOR, printed))
    first, hint = told.split("\n")
    assert first == f"Spark cannot fetch {CONNECTOR}: nobody has org.apache.spark#spark-token-provider;4.2.0"
    assert "--jars DIR" in hint
    assert all(jar in hint for jar in JARS)
    assert str(no_packages(CONNECTOR, "")).startswith(f"Spark cannot fetch {CONNECTOR}\n")
