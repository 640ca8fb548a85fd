"""Queries over DataFrames through a real server of Spark Connect give the rows a classic session gives."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import tideglass
from support.connect_server import running_connect_server
from support.frame_streams import (
    COLUMNS,
    LIMITS,
    LOOKUPS,
    QUERY,
    SCHEMA,
    SETTINGS,
    ZONES,
    Stream,
    accounting,
    collected,
    ended,
    events,
    kit,
    looked_up,
    sorted_texts,
)
from support.project_on_disk import OnDisk, write
from tideglass.core.errors import EvaluationError, InputError, TideglassError
from tideglass.spark import server_interpreter
from tideglass.spark.dataframes import shared_snapshots
from tideglass.spark.dataframes.listener import QueryEvent, add_listener
from tideglass.spark.session.session_kind import default_parallelism, is_connect
from tideglass.spark.session.spark_settings import LOCAL_CHECKPOINTS
from tideglass.testing import run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SESSION = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": LOCAL_CHECKPOINTS,
    "spark.sql.adaptive.enabled": "false",
}
_SERVER = {
    "spark.python.daemon.module": "tideglass.spark.session.worker_daemon",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture(scope="module")
def remote(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A client of a server whose workers have tideglass; the settings are those that save time."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    with (
        running_connect_server(tmp_path_factory.mktemp("connect"), _SERVER) as address,
        pytest.MonkeyPatch.context() as patch,
    ):
        # `builder.remote(...)` sets it, but refuses a process that has a classic session, as this one may.
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        session: Any = RemoteSession.builder.remote(address).create()
        try:
            for name, value in _SESSION.items():
                session.conf.set(name, value)
            yield session
        finally:
            session.stop()


@pytest.fixture
def streaming(remote: SparkSession) -> SparkSession:
    """The client with the state store that streams need."""
    remote.conf.set(_STATE_STORE, _ROCKS_DB)
    return remote


def finished_events(remote: SparkSession) -> DataFrame:
    rows = [{**row, "arrived": datetime.fromisoformat(row["arrived"])} for row in reversed(events())]
    columns = ("device", "v", "t", "arrived", "p")
    return remote.createDataFrame([tuple(row[c] for c in columns) for row in rows], SCHEMA)


def test_a_client_knows_what_it_is_and_how_many_tasks_its_server_makes(remote: SparkSession) -> None:
    assert is_connect(remote)
    assert is_connect(remote.range(1))
    assert default_parallelism(remote) == 2  # the server's local[2]


def test_a_stream_whose_state_is_not_in_rocksdb_is_told_how_to_set_it(
    remote: SparkSession, tmp_path: Path
) -> None:
    remote.conf.unset(_STATE_STORE)
    stream = Stream(remote, tmp_path / "in")
    with pytest.raises(TideglassError, match="must live in RocksDB"):
        tideglass.query(remote, QUERY, {"events": (stream.df, COLUMNS)}, SETTINGS)


def test_a_finished_dataframe_gives_what_the_kit_gives_and_its_accounting_after_an_action(
    remote: SparkSession,
) -> None:
    outputs = tideglass.query(remote, QUERY, {"events": (finished_events(remote), COLUMNS)}, SETTINGS)
    with pytest.raises(TideglassError, match="has no metrics yet"):
        tideglass.metrics(outputs["counts"])
    expected = kit(events())
    for name, output in outputs.items():
        assert collected(output) == expected[name]
    assert tideglass.metrics(outputs["counts"]).events == len(events())


def test_a_join_in_time_gives_what_the_kit_gives(remote: SparkSession) -> None:
    query = """
    SELECT a.device, a.v, b.v AS other, System.Timestamp() AS at INTO pairs
    FROM events a TIMESTAMP BY t JOIN events b TIMESTAMP BY t
    ON a.device = b.device AND DATEDIFF(second, a, b) BETWEEN 1 AND 4
    """
    given = [
        {k: row[k] for k in ("device", "v", "t")} | {"_arrival": row["arrived"], "_partition": row["p"]}
        for row in events()
    ]
    expected = sorted_texts(run(query, {"events": given}, settings=SETTINGS)["pairs"])
    output = tideglass.query(remote, query, {"events": (finished_events(remote), COLUMNS)}, SETTINGS)["pairs"]
    assert len(expected) > 20
    assert collected(output) == expected


def test_a_stream_started_again_from_its_checkpoint_gives_rows_and_accounting_of_the_kit(
    streaming: SparkSession, tmp_path: Path
) -> None:
    rows = events()
    expected = kit(rows)["counts"]
    stream = Stream(streaming, tmp_path / "in")
    heard: list[QueryEvent] = []
    found: list[list[str]] = []
    end_listening = add_listener(streaming, heard.append)
    try:
        for part in (rows[:150], rows[150:]):
            stream.put(part)
            output = tideglass.query(streaming, QUERY, {"events": (stream.df, COLUMNS)}, SETTINGS)["counts"]
            query = ended(output, tmp_path, "counts")
            found.append(collected(streaming.read.parquet(str(tmp_path / "counts"))))
        wait_until(lambda: sum(each.ended for each in heard) == 2)
    finally:
        end_listening()
    assert 0 < len(found[0]) < len(expected)
    assert found[1] == expected
    counted = {**accounting(rows), "InputEventBytes": 0}
    assert {**tideglass.metrics(query).by_api_name(), "InputEventBytes": 0} == counted
    batches = {each.batch: each.observed for each in heard if each.batch is not None and each.observed}
    assert batches.keys() == {0, 1}
    assert batches[1]["events"].counters.metrics()["LateInputEvents"] == counted["LateInputEvents"] > 0


def wait_until(happened: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)


def test_more_reference_data_than_is_sent_to_a_server_is_refused_with_a_remedy(
    remote: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_snapshots, "MOST_BYTES_TO_SERVER", 1 << 20)
    df = remote.range(1).selectExpr("id AS v", "current_timestamp() AS t")
    table = remote.range(1 << 15).selectExpr("id AS v", "sha2(string(id), 256) AS w")
    query = "SELECT e.v, r.w INTO o FROM e TIMESTAMP BY t JOIN r ON e.v = r.v"
    with pytest.raises(InputError, match=r"more than the 1 MiB that are sent\n  hint: write 'r' to a file"):
        tideglass.query(remote, query, {"e": df}, reference={"r": table})


def test_outputs_joined_with_reference_data_are_written_together_on_the_server(
    streaming: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(streaming, tmp_path / "in")
    stream.put(events())
    write(tmp_path / "limits.json", LIMITS)
    schema = "device STRING, zone STRING, level INT"
    zones = {
        moment: streaming.createDataFrame([tuple(row.values()) for row in part], schema)
        for moment, part in ZONES.items()
    }
    limits = {min(ZONES): LIMITS, max(ZONES): tmp_path / "limits.json"}
    outputs = tideglass.query(
        streaming,
        LOOKUPS,
        {"events": (stream.df, COLUMNS)},
        SETTINGS,
        reference={"zones": zones, "limits": limits},
    )

    def writing(folder: str) -> Callable[[DataFrame, int], None]:
        return lambda rows, batch: rows.write.mode("overwrite").parquet(f"{folder}/batch={batch}")

    writers = {name: writing(str(tmp_path / name)) for name in outputs}
    query = tideglass.start(outputs, writers, tmp_path / "checkpoint", trigger={"availableNow": True})
    assert tideglass.await_termination(query)
    for name, expected in looked_up(events()).items():
        assert collected(streaming.read.parquet(str(tmp_path / name)).drop("batch")) == expected


def test_types_functions_and_frames_of_pandas_go_through_a_server(remote: SparkSession) -> None:
    rows = pd.DataFrame(
        {
            "t": ["2026-01-01T00:00:01Z"],
            "amount": [Decimal("12345678901234567890.123456789")],
            "r": [{"x": 1, "d": Decimal("1.50")}],
        }
    )
    factors = {"twice": 2}

    def twice(value: int) -> int:
        return factors["twice"] * value

    output = tideglass.query(
        remote,
        "SELECT amount, r, r.d AS d, UDF.twice(r.x) AS w INTO o FROM e TIMESTAMP BY t",
        {"e": rows},
        functions={"twice": twice},
    )["o"]
    assert output.dtypes == [
        ("amount", "decimal(29,9)"),
        ("r", "struct<x:bigint,d:decimal(3,2)>"),
        ("d", "decimal(3,2)"),
        ("w", "bigint"),
    ]
    (row,) = output.collect()
    assert row.asDict(recursive=True) == {
        "amount": rows["amount"][0],
        "r": rows["r"][0],
        "d": Decimal("1.50"),
        "w": 2,
    }


def test_a_row_that_fails_is_told_in_the_sentence_it_has_in_a_classic_session(
    streaming: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(streaming, tmp_path / "in")
    stream.put(events()[:5])
    query = "SELECT CAST(device AS bigint) AS n INTO o FROM events TIMESTAMP BY t"
    output = tideglass.query(streaming, query, {"events": (stream.df, COLUMNS)}, SETTINGS)["o"]
    started = output.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(EvaluationError, match="Cannot cast value of type") as caught:
        tideglass.await_termination(started.trigger(availableNow=True).start())
    assert "Traceback" not in str(caught.value)


def test_a_server_whose_workers_lack_a_package_is_told_of_before_anything_runs(
    remote: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanting = server_interpreter._LOOK.replace("'duckdb'", "'no_such_package'")
    assert wanting != server_interpreter._LOOK
    monkeypatch.setattr(server_interpreter, "_LOOK", wanting)
    monkeypatch.setattr(server_interpreter, "_seen", set[object]())
    with pytest.raises(TideglassError) as caught:
        tideglass.query(remote, QUERY, {"events": (finished_events(remote), COLUMNS)}, SETTINGS)
    where = f"{sys.executable} on {socket.gethostname()}"
    assert f"cannot run a query: {where} has no package no_such_package." in str(caught.value)
    assert "hint: install tideglass" in str(caught.value)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("ModuleNotFoundError: No module named 'pyarrow'", "it has no package pyarrow."),
        ("Python in worker has different version: 3.9 than that in driver: 3.11", "it is Python 3.9."),
        ('Cannot run program "python3": error=2', "it is python3, which cannot be started."),
        ("[UNAVAILABLE] connection refused\nmore", "Spark's server runs no Python: [UNAVAILABLE] connection"),
    ],
)
def test_what_spark_says_of_a_servers_workers_becomes_one_sentence(said: str, told: str) -> None:
    class Failing:
        def range(self, *_: int) -> None:
            raise RuntimeError(said)

    with pytest.raises(TideglassError) as caught:
        server_interpreter.see_server(Failing())  # type: ignore[arg-type]
    assert told in str(caught.value)


def test_a_topic_without_sparks_connector_is_told_of_when_it_is_named(remote: SparkSession) -> None:
    with pytest.raises(TideglassError, match="does not have Spark's connector for Kafka"):
        tideglass.kafka(remote, "topic", "127.0.0.1:1")


def test_a_project_is_refused_before_anything_is_written(remote: SparkSession, tmp_path: Path) -> None:
    project = OnDisk(tmp_path / "project", remote).make()
    before = set(project.folder.rglob("*"))
    with pytest.raises(TideglassError, match="a project cannot run through Spark Connect") as caught:
        tideglass.Job.load(project.folder, once=True).run(spark=remote)
    assert "hint: run it where the driver is" in str(caught.value)
    assert set(project.folder.rglob("*")) == before
