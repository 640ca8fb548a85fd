"""Rows in a PostgreSQL, each exactly once, whatever breaks in between."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.database import Database, PostgresServer, postgresql_server
from support.sql_tables import batch, rows, sorted_rows, table_output
from support.tcp_proxy import TcpProxy, proxy_to_socket
from tideglass.connect.refused_rows import RefusalKind, RowsRefused
from tideglass.connect.sql.output import SqlOutput
from tideglass.connect.sql.postgres import PostgresSession
from tideglass.core.errors import OutputError, OutputUnavailable

pytestmark = pytest.mark.long

MANY = [{"i": number, "t": f"text {number}"} for number in range(3000)]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgresql_server() as found:
        yield found


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[TcpProxy]:
    with proxy_to_socket(server.socket) as found:
        yield found


@pytest.fixture
def database(server: PostgresServer) -> Iterator[Database]:
    found = Database(server.uri)
    yield found
    found.close()


@pytest.fixture
def table(database: Database) -> str:
    """The name of a table of its own, `(i bigint, t text)`."""
    name = f"t{uuid.uuid4().hex[:10]}"
    database.run(f"CREATE TABLE {name} (i bigint, t text)")
    return name


def test_a_batch_that_is_published_again_is_there_once(proxy: TcpProxy, database: Database, table: str):
    output = table_output(proxy.port, table)
    output.prepare()
    for number in (0, 0, 1, 1, 1):
        output.publish(batch(number), [rows({"i": number, "t": "a"}), rows({"i": number, "t": "b"})])
    assert sorted_rows(database, table) == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]


def test_another_run_of_the_job_knows_what_is_there(proxy: TcpProxy, database: Database, table: str):
    for _ in range(2):
        output = table_output(proxy.port, table)
        output.prepare()
        output.publish(batch(0), [rows({"i": 1})])
    assert sorted_rows(database, table) == [(1, None)]


def test_a_new_generation_and_another_job_count_for_themselves(
    proxy: TcpProxy, database: Database, table: str
):
    output = table_output(proxy.port, table)
    output.publish(batch(7), [rows({"i": 1})])
    output.publish(batch(0, generation=2), [rows({"i": 2})])
    output.publish(batch(0, job="another"), [rows({"i": 3})])
    assert sorted_rows(database, table) == [(1, None), (2, None), (3, None)]


def test_an_older_copy_of_a_job_is_refused(proxy: TcpProxy, database: Database, table: str):
    output = table_output(proxy.port, table)
    output.publish(batch(7), [rows({"i": 1})])
    with pytest.raises(OutputError, match=r"has batch 7 of generation 1 .* is an older copy"):
        output.publish(batch(6), [rows({"i": 2})])
    assert sorted_rows(database, table) == [(1, None)]


def test_the_newest_batch_is_known_to_a_start(proxy: TcpProxy, table: str):
    output = table_output(proxy.port, table)
    assert output.newest_batch("job") is None
    for generation, number in ((1, 0), (1, 3), (2, 1)):
        output.publish(batch(number, generation), [rows({"i": 1})])
        found = table_output(proxy.port, table).newest_batch("job")
        assert found == batch(number, generation)
    assert output.newest_batch("another") is None


def test_an_answer_that_is_lost_after_the_commit_is_recognised(
    proxy: TcpProxy, database: Database, table: str
):
    output = table_output(proxy.port, table)
    output.prepare()
    proxy.lose_answer_to = b"COMMIT"
    with pytest.raises(OutputUnavailable):
        output.publish(batch(0), [rows(*MANY)])
    assert proxy.lost == 1
    assert database.rows(f"SELECT count(*) FROM {table}") == [(len(MANY),)]
    output.publish(batch(0), [rows(*MANY)])
    assert database.rows(f"SELECT count(*) FROM {table}") == [(len(MANY),)]


def test_a_connection_that_is_cut_within_a_batch_leaves_nothing(
    proxy: TcpProxy, database: Database, table: str
):
    output = table_output(proxy.port, table)
    output.prepare()
    proxy.cut_after_bytes = 40_000
    with pytest.raises(OutputUnavailable):
        output.publish(batch(0), [rows(*MANY)])
    assert proxy.lost >= 1
    assert sorted_rows(database, table) == []
    output.publish(batch(0), [rows(*MANY)])
    assert sorted_rows(database, table) == sorted([(each["i"], each["t"]) for each in MANY], key=repr)


def test_a_connection_that_was_lost_between_batches_is_made_anew(
    proxy: TcpProxy, database: Database, table: str
):
    output = table_output(proxy.port, table)
    output.publish(batch(0), [rows({"i": 0})])
    proxy.cut()
    output.publish(batch(1), [rows({"i": 1})])
    assert sorted_rows(database, table) == [(0, None), (1, None)]


class Killed(BaseException):
    """What happens to a driver."""


STEPS = ("target", "make_batches", "lock", "insert", "record", "commit")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_driver_killed_at_any_step_leaves_a_batch_wholly_or_not_at_all(
    step: str,
    after: bool,
    proxy: TcpProxy,
    database: Database,
    table: str,
    monkeypatch: pytest.MonkeyPatch,
):
    table_output(proxy.port, table).publish(batch(0), [rows({"i": 0})])
    with monkeypatch.context() as patched:
        patched.setattr(PostgresSession, step, _dying(getattr(PostgresSession, step), proxy, after))
        with pytest.raises(Killed):
            table_output(proxy.port, table).publish(batch(1), [rows(*MANY)])
    there = database.rows(f"SELECT count(*) FROM {table}")[0][0]
    assert there == (1 + len(MANY) if (step, after) == ("commit", True) and there > 1 else 1)
    for number, given_rows in ((1, rows(*MANY)), (2, rows({"i": 2}))):
        table_output(proxy.port, table).publish(batch(number), [given_rows])
    assert database.rows(f"SELECT count(*) FROM {table}") == [(len(MANY) + 2,)]


def _dying(call: Callable[..., object], proxy: TcpProxy, after: bool) -> Callable[..., object]:
    def dies(*given_: object) -> object:
        if after:
            call(*given_)
        proxy.cut()  # as the kernel does for a process that is killed
        raise Killed

    return dies


EVENTS = st.lists(
    st.sampled_from(["next", "again", "new run", "cut", "lose answer", "kill", "new generation"]),
    min_size=1,
    max_size=12,
)


@given(EVENTS, st.lists(st.integers(1, 4), min_size=12, max_size=12), st.integers(1, 3))
def test_what_a_reader_sees_does_not_depend_on_what_breaks(
    server: PostgresServer, events: list[str], sizes: list[int], most_rows: int
):
    with proxy_to_socket(server.socket) as proxy:
        database = Database(server.uri)
        name = f"t{uuid.uuid4().hex[:10]}"
        database.run(f"CREATE TABLE {name} (i bigint, t text)")
        expected: list[tuple[int, str]] = []
        output, generation, number = table_output(proxy.port, name, most_rows=most_rows), 1, -1
        given_rows = rows({"i": 0, "t": "x"})
        for turn, event in enumerate(events):
            if event == "new run":
                output = table_output(proxy.port, name, most_rows=most_rows)
                output.prepare()
            elif event == "new generation":
                generation, number = generation + 1, -1
            elif event == "cut":
                proxy.cut()
            elif event == "again" and number >= 0:
                _until_published(output, generation, number, given_rows)
            else:
                number += 1
                content = [{"i": turn, "t": str(each)} for each in range(sizes[turn])]
                given_rows = rows(*content)
                expected += [(each["i"], each["t"]) for each in content]
                proxy.lose_answer_to = b"COMMIT" if event == "lose answer" else None
                proxy.cut_after_bytes = 1500 if event == "kill" else None
                _until_published(output, generation, number, given_rows)
        assert sorted_rows(database, name) == sorted(expected, key=repr)
        database.close()


def _until_published(output: SqlOutput, generation: int, number: int, given_rows: object) -> None:
    for _ in range(4):
        try:
            output.publish(batch(number, generation), [given_rows])  # type: ignore[list-item]
            return
        except OutputUnavailable:
            pass
    raise AssertionError("the output does not come back")


def test_of_two_drivers_the_older_one_is_fenced_off(proxy: TcpProxy, database: Database, table: str):
    older, newer = table_output(proxy.port, table), table_output(proxy.port, table)
    older.prepare()
    older.publish(batch(0), [rows({"i": 0})])
    newer.prepare()
    newer.publish(batch(1), [rows({"i": 1})])
    for number in (1, 2):
        with pytest.raises(OutputError, match="another run of this job writes to"):
            older.publish(batch(number), [rows({"i": 99})])
    newer.publish(batch(2), [rows({"i": 2})])
    assert sorted_rows(database, table) == [(0, None), (1, None), (2, None)]


def test_a_database_that_is_stopped_and_started_loses_and_doubles_nothing():
    with postgresql_server() as own, proxy_to_socket(own.socket) as proxy:
        Database(own.uri).run("CREATE TABLE t (i bigint)")
        output = table_output(proxy.port, "t")
        output.publish(batch(0), [rows({"i": 0})])
        own.stop()
        for _ in range(2):
            with pytest.raises(OutputUnavailable):
                output.publish(batch(1), [rows({"i": 1})])
        own.start()
        output.publish(batch(1), [rows({"i": 1})])
        assert sorted_rows(Database(own.uri), "t") == [(0,), (1,)]


def test_a_row_with_a_key_that_is_there_is_skipped(proxy: TcpProxy, database: Database, table: str):
    database.run(f"ALTER TABLE {table} ADD PRIMARY KEY (i); INSERT INTO {table} VALUES (1, 'first')")
    output = table_output(proxy.port, table, most_rows=2)
    given_rows = [{"i": 1, "t": "a"}, {"i": 2, "t": "b"}, {"i": 2, "t": "c"}, {"i": 3, "t": "d"}]
    output.publish(batch(0), [rows(*given_rows)])
    assert sorted_rows(database, table) == [(1, "first"), (2, "b"), (3, "d")]


def test_a_row_replaces_the_one_of_its_key(proxy: TcpProxy, database: Database, table: str):
    database.run(f"CREATE UNIQUE INDEX ON {table} (i); INSERT INTO {table} VALUES (1, 'first')")
    output = table_output(proxy.port, table, keys=["I"], most_rows=2)
    given_rows = [{"i": 1, "t": "a"}, {"i": 2, "t": "b"}, {"i": 2, "t": "c"}, {"i": 2, "t": "d"}]
    output.publish(batch(0), [rows(*given_rows)])
    output.publish(batch(0), [rows(*given_rows)])
    assert sorted_rows(database, table) == [(1, "a"), (2, "d")]


def test_upserting_needs_a_unique_key_and_says_how_to_make_one(proxy: TcpProxy, table: str):
    with pytest.raises(OutputError, match=rf"hint: CREATE UNIQUE INDEX ON public\.{table} \(i\)"):
        table_output(proxy.port, table, keys=["i"]).prepare()


def test_a_key_that_upserting_does_not_know_is_a_duplicate(proxy: TcpProxy, database: Database, table: str):
    database.run(f"CREATE UNIQUE INDEX ON {table} (i); CREATE UNIQUE INDEX ON {table} (t)")
    output = table_output(proxy.port, table, keys=["i"])
    output.publish(batch(0), [rows({"i": 1, "t": "same"}), rows({"i": 2, "t": "other"})])
    with pytest.raises(RowsRefused) as refused:
        output.publish(batch(1), [rows({"i": 4, "t": "same"})])
    assert [(each.part, each.row, each.kind) for each in refused.value.rows] == [
        (0, 0, RefusalKind.DUPLICATE_KEY)
    ]


def test_rows_that_a_constraint_refuses_are_found_and_nothing_is_written(
    proxy: TcpProxy, database: Database, table: str
):
    database.run(f"ALTER TABLE {table} ADD CHECK (i < 100)")
    output = table_output(proxy.port, table, most_rows=100)
    parts = [rows(*({"i": each} for each in range(50))), rows({"i": 500}, {"i": 5}, {"i": 501})]
    with pytest.raises(RowsRefused, match="violates check constraint") as refused:
        output.publish(batch(0), parts)
    assert [(each.part, each.row, each.kind) for each in refused.value.rows] == [
        (1, 0, RefusalKind.TYPE_CONVERSION_ERROR),
        (1, 2, RefusalKind.TYPE_CONVERSION_ERROR),
    ]
    assert sorted_rows(database, table) == []
    output.publish(batch(0), [parts[0], rows({"i": 5})])
    assert database.rows(f"SELECT count(*) FROM {table}") == [(51,)]


def test_what_is_refused_is_said_of_each_row_before_anything_is_written(
    proxy: TcpProxy, database: Database, table: str
):
    output = table_output(proxy.port, table)
    parts = [
        rows({"i": 1, "t": "good"}),
        rows({"i": "one", "t": "bad"}, {"i": 2, "t": "good"}, {"i": 2.5, "t": "bad"}),
        rows({"i": 1, "I": 2}),
        rows({"i": 1, "u": 5}, {"i": 2, "u": None}),
    ]
    with pytest.raises(RowsRefused) as refused:
        output.publish(batch(0), parts)
    said = [(each.part, each.row, each.kind.value, each.reason) for each in refused.value.rows]
    here = f"public.{table}"
    no_integer = f"does not go into the column 'i' (bigint) of {here}: "
    no_integer += "it takes no nvarchar(max); it holds integers"
    assert said == [
        (1, 0, "TypeConversionError", f"'one' {no_integer}"),
        (1, 2, "TypeConversionError", f"2.5 {no_integer}"),
        (2, 0, "DuplicateKey", f"another field of the row goes to the column 'i' of {here}, too"),
        (3, 0, "ColumnNameInvalid", f"the table {here} has no column 'u'"),
        (3, 1, "ColumnNameInvalid", f"the table {here} has no column 'u'"),
    ]
    assert sorted_rows(database, table) == []


def test_a_column_that_must_have_a_value_gets_its_default_or_the_row_is_refused(
    proxy: TcpProxy, database: Database, table: str
):
    database.run(
        f"ALTER TABLE {table} ADD COLUMN d bigint NOT NULL DEFAULT 7, ADD COLUMN "
        f"g bigint GENERATED ALWAYS AS IDENTITY, ALTER COLUMN t SET NOT NULL"
    )
    output = table_output(proxy.port, table)
    output.publish(
        batch(0), [rows({"i": 1, "t": "a"}), rows({"i": 2, "t": "b", "d": None}, {"t": "c", "d": 8})]
    )
    assert sorted_rows(database, table) == [(1, "a", 7, 1), (2, "b", 7, 2), (None, "c", 8, 3)]
    with pytest.raises(RowsRefused) as refused:
        output.publish(
            batch(1), [rows({"i": 1}), rows({"i": 1, "t": None}), rows({"i": 1, "t": "a", "g": 1})]
        )
    assert [each.kind for each in refused.value.rows] == [
        RefusalKind.REQUIRED_COLUMN_MISSING,
        RefusalKind.TYPE_CONVERSION_ERROR,
        RefusalKind.COLUMN_NAME_INVALID,
    ]


def test_payloads_are_spread_and_what_a_row_lacks_is_null(proxy: TcpProxy, database: Database, table: str):
    output = table_output(proxy.port, table)
    database.run(f'ALTER TABLE {table} ADD "$1" text')
    payloads = rows({"$payload": {"i": 1, "$1": "a"}}, {"$payload": {"t": "x"}}, {"$payload": {}})
    output.publish(batch(0), [payloads])
    assert sorted_rows(database, table) == [
        (1, None, "a"),
        (None, "x", None),
        (None, None, None),
    ]
    with pytest.raises(RowsRefused) as refused:
        output.publish(batch(1), [rows({"$payload": {"i": 1}}, {"$payload": {"more": 1}})])
    assert [(each.row, each.kind) for each in refused.value.rows] == [(1, RefusalKind.COLUMN_NAME_INVALID)]


NASTY = ['a"b', "x'; DROP TABLE t; --", "a$1", "%s", "\\", "ü😀", "c0", "n"]


@pytest.mark.parametrize("name", NASTY)
def test_names_and_values_never_become_sql(name: str, proxy: TcpProxy, database: Database):
    quoted = '"' + name.replace('"', '""') + '"'
    table = f"t {name}"
    with database._connection.cursor() as cursor:
        cursor.execute(
            f'CREATE TABLE "t {name.replace(chr(34), chr(34) * 2)}" (i bigint UNIQUE, {quoted} text)'
        )
    for keys in ((), ("i",)):
        output = table_output(proxy.port, table, keys=keys)
        output.publish(batch(len(keys)), [rows({"i": len(keys), name: name})])
    found = database.rows(f'SELECT * FROM "t {name.replace(chr(34), chr(34) * 2)}" ORDER BY 1')
    assert found == [(0, name), (1, name)]


def test_a_missing_table_is_an_error_of_the_start(proxy: TcpProxy):
    with pytest.raises(OutputError, match="which is not there or hidden") as error:
        table_output(proxy.port, "nowhere").prepare()
    assert not isinstance(error.value, OutputUnavailable)


def test_a_server_that_does_not_answer_may_come_back(proxy: TcpProxy, table: str):
    proxy.refuses = True
    with pytest.raises(OutputUnavailable):
        table_output(proxy.port, table).prepare()


def test_a_refused_sign_in_is_an_error_of_the_start(proxy: TcpProxy, table: str):
    with pytest.raises(OutputError, match="hint: look at Server, Database, User and Password") as error:
        table_output(proxy.port, table, user="nobody").prepare()
    assert not isinstance(error.value, OutputUnavailable)


def test_a_user_who_may_create_no_table_is_told_what_to_run(proxy: TcpProxy, database: Database):
    database.run(
        "CREATE ROLE writer LOGIN; CREATE SCHEMA closed; CREATE TABLE closed.t (i bigint); "
        "GRANT USAGE ON SCHEMA closed TO writer; GRANT SELECT, INSERT ON closed.t TO writer"
    )
    made = table_output(proxy.port, "t", user="writer")
    output = replace(made, address=replace(made.address, schema="closed"))
    with pytest.raises(OutputError, match="CREATE TABLE IF NOT EXISTS") as error:
        output.prepare()
    database.run(str(error.value)[str(error.value).rindex("CREATE TABLE") :])
    database.run("GRANT SELECT, INSERT, UPDATE ON closed.tideglass_batches TO writer")
    output.prepare()
    output.publish(batch(0), [rows({"i": 1})])
    assert database.rows("SELECT * FROM closed.t") == [(1,)]


def test_rows_of_an_unfinished_batch_stay_where_a_unique_key_tells_them(
    proxy: TcpProxy, database: Database, table: str
):
    output = table_output(proxy.port, table)
    for number in (0, 1):
        output.publish(batch(number), [rows({"i": number})])
    output.withdraw(batch(1))
    with pytest.raises(OutputError, match="would write them twice"):
        output.withdraw(batch(0))
    output.withdraw(batch(0, generation=2))
    database.run(f"CREATE UNIQUE INDEX ON {table} (i)")
    again = table_output(proxy.port, table)
    again.withdraw(batch(0))
    again.publish(batch(0, generation=2), [rows({"i": 1})])
    assert sorted_rows(database, table) == [(0, None), (1, None)]


def test_rows_of_others_are_not_removed(proxy: TcpProxy, database: Database, table: str):
    output = table_output(proxy.port, table)
    output.check_replaceable()
    database.run(f"INSERT INTO {table} VALUES (1, 'x')")
    with pytest.raises(OutputError, match=f"TRUNCATE TABLE public.{table}"):
        output.check_replaceable()
    output.clear(rows=True)
    assert sorted_rows(database, table) == [(1, "x")]


def test_a_task_gets_the_output_without_its_connection(proxy: TcpProxy, table: str):
    output = table_output(proxy.port, table)
    output.prepare()
    sent = pickle.loads(pickle.dumps(output))
    assert sent == output
    assert sent._held.session is None
