"""One connector for Kafka is named everywhere: in hints, in the docs, in what tests fetch."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import AnalysisException

from tideglass.core.errors import TideglassError
from tideglass.job.query import libraries
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

    assert CONNECTORS[-1] == JARS


def test_the_hint_of_a_session_without_the_connector_names_it():
    class Lacks:
        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: self

        def load(self) -> None:
            raise AnalysisException("Failed to find data source: kafka")

    spark = cast("Any", type("Spark", (), {"readStream": Lacks(), "read": Lacks()})())
    with pytest.raises(TideglassError, match=re.escape(f"spark.jars.packages={CONNECTOR}")):
        kafka(spark, "t", "b:1")


def test_a_live_run_asks_for_it_unless_jars_are_named():
    def asked(**options: object) -> object:
        of_topics = {"topics": {"i": 1}, "outputs": {}}
        chosen = type("Options", (), {"packages": "", "jars": None, **options})()
        return libraries(cast("Any", type("Job", (), {**of_topics, "options": chosen})()))

    assert cast("Any", asked()).packages == CONNECTOR
    assert cast("Any", asked(jars=Path("jars"))).packages == ""


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
