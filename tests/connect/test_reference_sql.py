"""Reference data of a real PostgreSQL, which these tests start themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.database import Database, running_postgresql
from support.times import ticks_at
from tideglass.bind.catalog import InputInfo
from tideglass.connect.reference import database as sql_module
from tideglass.connect.reference.database import SqlReference
from tideglass.connect.reference.journal import JournaledReferences
from tideglass.connect.reference.snapshot import FileSnapshot
from tideglass.connect.spec import ReferenceSpec
from tideglass.core.errors import InputError
from tideglass.core.events import Fields
from tideglass.core.json_rows import rows_of
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.local import LocalDriver, rows_by_output
from tideglass.project.settings import JobSettings
from tideglass.testing import compile_rows, partition_batches, rows_in_order

#: A table that keeps what it held before, as the service asks of one that is queried for changes.
TABLES = """
DROP TABLE IF EXISTS devices, history;
CREATE TABLE devices (id bigint, model text);
CREATE TABLE history (id bigint, model text, changed timestamptz, _operation_ int);
"""
DELTA = """
SELECT id, model, _operation_ FROM history
WHERE changed >= @deltaStartTime AND changed < @deltaEndTime ORDER BY changed
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_postgresql() as uri:
        yield uri


@pytest.fixture
def database(server: str) -> Iterator[Database]:
    found = Database(server)
    found.run(TABLES)
    yield found
    found.close()


def source(database: Database | str, folder: Path, **sql: Any) -> SqlReference:
    uri = database if isinstance(database, str) else database.uri
    queries = {"connection": uri, "snapshot_query": "SELECT id, model FROM devices ORDER BY id", **sql}
    return SqlReference(ReferenceSpec.model_validate({"name": "r", "sql": queries}), str(folder))


def rows(snapshot: FileSnapshot) -> list[dict[str, Any]]:
    table = snapshot.read("r", Fields((), True), "1.2")
    return sorted(rows_of(table), key=repr)


def test_a_static_table_is_queried_once_and_holds_for_all_times(database: Database, tmp_path: Path) -> None:
    database.run("INSERT INTO devices VALUES (1, 'a')")
    static = source(database, tmp_path)
    (first,) = static.look((), ticks_at(0))
    assert first.effective_ticks == BEFORE_ALL_TICKS
    database.run("INSERT INTO devices VALUES (2, 'b')")
    assert static.look((first,), ticks_at(9999)) == []
    assert rows(first) == [{"id": 1, "model": "a"}]


def test_values_keep_their_types(database: Database, tmp_path: Path) -> None:
    query = """SELECT 1::int AS i, 1.25::numeric(9, 2) AS n, 2.5::float4 AS f, true AS b, 'x'::text AS t,
        '2026-01-01T02:00:00+02'::timestamptz AS at, '2026-01-02'::date AS d, '{"a": 1}'::jsonb AS j,
        '00000000-0000-0000-0000-00000000000a'::uuid AS u, array[1, 2] AS a, NULL::text AS none"""
    (found,) = source(database, tmp_path, snapshot_query=query).look((), ticks_at(0))
    assert rows(found) == [
        {
            "i": 1,
            "n": 1.25,
            "f": 2.5,
            "b": True,
            "t": "x",
            "at": "2026-01-01T00:00:00.0000000Z",
            "d": "2026-01-02T00:00:00.0000000Z",
            "j": '{"a": 1}',
            "u": "00000000-0000-0000-0000-00000000000a",
            "a": [1, 2],
            "none": None,
        }
    ]


def test_a_full_refresh_takes_the_whole_table_at_every_interval(database: Database, tmp_path: Path) -> None:
    database.run("INSERT INTO devices VALUES (1, 'a')")
    full = source(database, tmp_path, refresh="full", interval_seconds=120)
    (first,) = full.look((), ticks_at(0))
    database.run("DELETE FROM devices; INSERT INTO devices VALUES (2, 'b')")
    assert full.look((first,), ticks_at(119.9)) == []
    (second,) = full.look((first,), ticks_at(120))
    assert second.effective_ticks == ticks_at(120)
    assert (rows(first), rows(second)) == ([{"id": 1, "model": "a"}], [{"id": 2, "model": "b"}])


def test_a_snapshot_query_may_ask_for_its_time(database: Database, tmp_path: Path) -> None:
    (found,) = source(database, tmp_path, snapshot_query="SELECT @SnapshotTime AS at").look((), ticks_at(1.5))
    assert rows(found) == [{"at": "2026-01-01T00:00:01.5000000Z"}]


def test_a_delta_refresh_applies_what_has_come_and_what_is_gone(database: Database, tmp_path: Path) -> None:
    database.run("INSERT INTO devices VALUES (1, 'a'), (2, 'b'), (2, 'b'), (3, NULL)")
    delta = source(database, tmp_path, refresh="delta", delta_query=DELTA)
    (first,) = delta.look((), ticks_at(0))
    database.run(
        """INSERT INTO history VALUES
        (1, 'a', '2026-01-01T00:00:10Z', 2), (1, 'a2', '2026-01-01T00:00:10Z', 1),
        (2, 'b', '2026-01-01T00:00:20Z', 2), (3, NULL, '2026-01-01T00:00:20Z', 2),
        (4, 'short', '2026-01-01T00:00:30Z', 1), (4, 'short', '2026-01-01T00:00:40Z', 2),
        (5, 'later', '2026-01-01T00:01:00Z', 1)"""
    )
    (second,) = delta.look((first,), ticks_at(60))
    assert rows(second) == [{"id": 1, "model": "a2"}, {"id": 2, "model": "b"}]
    (third,) = delta.look((first, second), ticks_at(120))
    assert rows(third) == [{"id": 1, "model": "a2"}, {"id": 2, "model": "b"}, {"id": 5, "model": "later"}]
    assert len(rows(first)) == 4


@pytest.mark.parametrize(
    ("delta_query", "words"),
    [
        ("SELECT id, 1 AS _operation_ FROM history", "no column 'model'"),
        ("SELECT id, model FROM history", "no column '_operation_'"),
        ("SELECT 1::bigint AS id, 'x' AS model, 3 AS _operation_", "neither 1"),
        ("SELECT nonsense", "nonsense"),
    ],
)
def test_what_is_wrong_with_a_delta_query_is_said(
    database: Database, tmp_path: Path, delta_query: str, words: str
) -> None:
    delta = source(database, tmp_path, refresh="delta", delta_query=delta_query)
    known = delta.look((), ticks_at(0))
    with pytest.raises(InputError, match=rf"REFERENCE_QUERY(.|\n)*{words}"):
        delta.look(known, ticks_at(60))


def test_a_query_that_takes_too_long_and_a_parameter_it_has_not_are_refused(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_module, "TIMEOUT_MS", 50)
    with pytest.raises(InputError, match="statement timeout"):
        source(database, tmp_path, snapshot_query="SELECT pg_sleep(5)").look((), ticks_at(0))
    with pytest.raises(InputError, match="@deltaEndTime has no value"):
        source(database, tmp_path, snapshot_query="SELECT @deltaEndTime").look((), ticks_at(0))


def test_a_database_that_cannot_be_reached_is_named_with_a_remedy(tmp_path: Path) -> None:
    nobody = source(f"postgresql://nobody@/none?host={tmp_path}", tmp_path)
    with pytest.raises(InputError, match=r"'r' cannot be reached(.|\n)*PGPASSWORD"):
        nobody.look((), ticks_at(0))


def test_a_password_is_written_nowhere(tmp_path: Path) -> None:
    spec = source("postgresql://u:secret@h/d", tmp_path).spec
    assert "secret" not in repr(spec) + str(spec.model_dump(mode="json"))


QUERY = "SELECT x.n, r.model FROM x TIMESTAMP BY t LEFT JOIN r ON x.id = r.id"
EVENTS = [{"t": f"2026-01-01T00:0{n}:30Z", "n": n, "id": 1} for n in range(3)]


def answers(references: JournaledReferences) -> list[Any]:
    """The models the events meet, all read again from the start."""
    known = {"x": InputInfo("x"), "r": InputInfo("r", "reference")}
    topology = compile_rows(QUERY, {"x": EVENTS}, JobSettings(), known_inputs=known).topology
    driver = LocalDriver(topology, references=references)
    messages = driver.run(partition_batches(topology, {"x": EVENTS}), final=True)
    return [row["model"] for row in rows_in_order(rows_by_output(topology, messages)["output"])]


def test_a_replay_meets_the_stored_snapshots_whatever_the_table_holds_now(
    database: Database, tmp_path: Path
) -> None:
    def journaled() -> JournaledReferences:
        full = source(database, tmp_path / "stored", refresh="full")
        return JournaledReferences(str(tmp_path / "journal"), (full,), look_seconds=0.0)

    running = journaled()
    for minute, model in enumerate(("first", "second", "third")):
        database.run(f"DELETE FROM devices; INSERT INTO devices VALUES (1, '{model}')")
        assert running.find(ticks_at(60 * minute)) == {"r": minute + 1}
    database.run("DROP TABLE devices")
    assert answers(journaled()) == ["first", "second", "third"]
