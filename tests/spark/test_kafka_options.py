"""Which options Spark's connector and Kafka's own client are given; no broker and no Spark is needed."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tideglass.connect.kafka.topic import MOST_MESSAGES, TopicInput
from tideglass.core.errors import TideglassError
from tideglass.spark.kafka.input import source_options, starting_options
from tideglass.spark.kafka.offsets import client_settings
from tideglass.spark.session.libraries import KAFKA_CLASSES, Libraries

#: What topics refer to, and what every connector is given of it.
HERE = {"TOPIC": "t", "BROKER": "b:9092"}
B = {"kafka.bootstrap.servers": "b:9092"}


def topic(starting: str | None = None, **options: str) -> TopicInput:
    return TopicInput("toll", "${BROKER}", "${TOPIC}", starting=starting, options=options)


def test_a_run_begins_where_the_project_says() -> None:
    assert starting_options(topic(), HERE, None, finished=True) == B | {"startingOffsets": "earliest"}
    assert starting_options(topic(), HERE, None, finished=False) == B | {"startingOffsets": "latest"}
    given = topic("earliest", startingTimestamp="5")
    assert starting_options(given, HERE, None, finished=False) == B | {
        "startingOffsets": "earliest",
        "startingTimestamp": "5",
    }


def test_offsets_stand_before_all_the_project_says() -> None:
    given = topic("latest", STARTINGTIMESTAMP="5", startingOffsetsByTimestamp="{}", failOnDataLoss="false")
    assert starting_options(given, HERE, {"0": 4, "1": 0}, finished=False) == B | {
        "failOnDataLoss": "false",
        "startingOffsets": '{"t": {"0": 4, "1": 0}}',
    }


def test_headers_are_fetched_for_queries_that_ask_for_them_and_projects_that_say_so() -> None:
    def options(given: TopicInput, *, headers: bool) -> dict[str, str]:
        return source_options(given, HERE, None, finished=True, limited=True, headers=headers)

    assert options(topic(), headers=False) == B | {
        "includeHeaders": "false",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(MOST_MESSAGES),
    }
    assert options(topic(), headers=True)["includeHeaders"] == "true"
    assert options(topic(includeHeaders="true"), headers=False)["includeHeaders"] == "true"


def test_kafkas_client_is_given_what_the_connector_would_give_it() -> None:
    given = topic(**{"kafka.security.protocol": "SASL_SSL", "kafka.sasl.jaas.config": "${JAAS}", "rows": "1"})
    assert client_settings(given, {"BROKER": "b:9092", "JAAS": "secret"}) == {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": "secret",
    }


def jar(folder: Path, name: str, *classes: str) -> None:
    with zipfile.ZipFile(folder / name, "w") as archive:
        for each in classes:
            archive.writestr(each, b"")


def test_jars_that_lack_a_part_of_the_connector_are_refused_in_one_sentence(tmp_path: Path) -> None:
    classes = list(KAFKA_CLASSES)
    jar(tmp_path, "connector.jar", classes[0])
    with pytest.raises(TideglassError) as refused:
        Libraries(jars=tmp_path).settings()
    told, hint = str(refused.value).split("\n")
    assert told.startswith(f"[KAFKA_JARS] the jars in {tmp_path} lack kafka-clients (Kafka's client), ")
    assert "--packages" in hint
    jar(tmp_path, "rest.jar", *classes[1:])
    assert Libraries(jars=tmp_path).settings()["spark.jars"].count(".jar") == 2
    (tmp_path / "rest.jar").write_bytes(b"no jar")
    with pytest.raises(TideglassError, match=r"rest\.jar cannot be read as a jar"):
        Libraries(jars=tmp_path).settings()
