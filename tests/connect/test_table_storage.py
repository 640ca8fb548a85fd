"""A table of Table storage as an output: keys, types, limits, crashes and refusals, on Azurite."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pyarrow as pa
import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import TableClient, TableServiceClient
from hypothesis import given, settings
from hypothesis import strategies as st

from support.stores import ACCOUNT, ACCOUNT_KEY, azurite_tables
from support.tables import typed_table
from tideglass.connect.azure.endpoints import ENDPOINTS
from tideglass.connect.output import Batch
from tideglass.connect.refused_rows import RefusalKind, RowsRefused
from tideglass.connect.tables.entities import entities, transactions
from tideglass.connect.tables.output import EntityColumns, TableStorageOutput
from tideglass.core.errors import OutputError, OutputUnavailable
from tideglass.core.time import parse_ticks
from tideglass.core.types import Type

pytestmark = pytest.mark.long
HOST = f"{ACCOUNT}.table.core.windows.net"
MOMENT = parse_ticks("2019-10-07T00:03:55.1234567Z")


@pytest.fixture(scope="module")
def account(tmp_path_factory) -> Generator[TableServiceClient]:
    folder = tmp_path_factory.mktemp("tables")
    with azurite_tables(folder) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENDPOINTS, json.dumps({HOST: url}))
        yield TableServiceClient(url, credential=AzureNamedKeyCredential(ACCOUNT, ACCOUNT_KEY))


@pytest.fixture
def table(account) -> str:
    return f"hot{len(list(account.list_tables()))}"


def an_output(table: str, *removed: str, batch_size: int = 100, key: str = ACCOUNT_KEY) -> TableStorageOutput:
    columns = EntityColumns("device", "at", removed)
    return TableStorageOutput("out", ACCOUNT, table, columns, key, batch_size)


def table_of(*rows: dict[str, Any]) -> pa.Table:
    """A row for each object, a second apart."""
    found = typed_table(payload=([json.dumps(row) for row in rows], Type.RECORD))
    return found.append_column("$ts", pa.array(range(len(rows)), pa.int64()))


def publish(output: TableStorageOutput, batch: int, *rows: dict[str, Any]) -> None:
    output.publish(Batch(1, batch, "job"), [output.stage(table_of(*rows), "0")])


def in_table(account: TableServiceClient, table: str) -> list[dict[str, Any]]:
    return [dict(each) for each in account.get_table_client(table).list_entities()]


def refused(output: TableStorageOutput, *rows: dict[str, Any]) -> list[tuple[int, RefusalKind]]:
    with pytest.raises(RowsRefused) as caught:
        publish(output, 9, *rows)
    return [(each.row, each.kind) for each in caught.value.rows]


def test_a_start_makes_the_table_and_rows_become_typed_entities(account, table):
    output = an_output(table, "Gone", "at")
    output.prepare()
    output.prepare()
    rows = typed_table(
        device=(["a", "b"], Type.NVARCHAR),
        at=([MOMENT, 0], Type.DATETIME),
        i=([2**63 - 1, None], Type.BIGINT),
        f=([1.5, float("nan")], Type.FLOAT),
        b=([True, None], Type.BIT),
        r=(['{"x":[1]}', None], Type.RECORD),
        v=(["i1", f"d{MOMENT}"], Type.VARIANT),
        gone=([1, 2], Type.BIGINT),
        n=([None, None], Type.NULL),
    )
    output.publish(Batch(1, 0, "job"), [output.stage(rows, "0")])
    first, second = in_table(account, table)
    keys = (first.pop("PartitionKey"), first.pop("RowKey"))
    assert keys == ("a", "2019-10-07T00:03:55.1234567Z")
    assert first.pop("i").value == 2**63 - 1
    assert first.pop("v").value == 1
    assert first == {"device": "a", "f": 1.5, "b": True, "r": '{"x":[1]}'}
    assert second["v"].tables_service_value == "2019-10-07T00:03:55.1234567Z", "all seven digits"
    assert set(second) == {"PartitionKey", "RowKey", "device", "f", "v"}


def test_entities_are_replaced_and_the_last_row_of_a_batch_counts(account, table):
    output = an_output(table)
    output.prepare()
    publish(output, 0, {"device": "a", "at": 1, "old": "x"}, {"device": "a", "at": 2, "v": "y"})
    publish(output, 1, {"device": "a", "at": 1, "v": "1"}, {"device": "a", "at": 1, "v": "2"})
    found = {each["RowKey"]: each for each in in_table(account, table)}
    assert (found["1"]["v"], found["2"]["v"]) == ("2", "y")
    assert "old" not in found["1"], "replaced, and not merged"


def test_a_transaction_has_one_partition_key_and_at_most_a_hundred_entities(account, table):
    output = an_output(table)
    output.prepare()
    rows = [{"device": f"d{n % 3}", "at": n} for n in range(700)]
    made = transactions(entities([table_of(*rows)], output.columns), 100)
    assert all(len({each.keys[0] for each in one}) == 1 for one in made)
    assert sorted(map(len, made)) == [33, 33, 34, *[100] * 6]
    publish(output, 0, *rows)
    assert len(in_table(account, table)) == 700
    large = [{"device": "a", "at": n, **{f"t{k}": "x" * 30_000 for k in range(15)}} for n in range(6)]
    assert len(transactions(entities([table_of(*large)], output.columns), 100)) == 2, "of 4 MB at most"
    publish(output, 1, *large)


def test_rows_that_no_entity_can_be_made_of_are_refused_before_any_is_written(account, table):
    output = an_output(table)
    output.prepare()
    key = {"device": "a", "at": 1}
    large, unfit = RefusalKind.RECORD_EXCEEDED_SIZE_LIMIT, RefusalKind.TYPE_CONVERSION_ERROR
    bad: list[tuple[dict[str, Any], RefusalKind]] = [
        ({"device": "a"}, RefusalKind.REQUIRED_COLUMN_MISSING),
        ({"device": "a", "at": None}, RefusalKind.REQUIRED_COLUMN_MISSING),
        ({"device": "a/b", "at": 1}, unfit),
        ({"device": [1], "at": 1}, unfit),
        ({"device": "é" * 513, "at": 1}, large),
        ({**key, "a-b": 1}, RefusalKind.COLUMN_NAME_INVALID),
        ({**key, "s": "x" * (32 * 1024 + 1)}, large),
        ({**key, **{f"c{n}": 1 for n in range(253)}}, large),
        ({**key, **{f"c{n}": "x" * 30_000 for n in range(20)}}, large),
    ]
    found = refused(output, key, *(row for row, _ in bad))
    assert found == [(row + 1, kind) for row, (_, kind) in enumerate(bad)]
    assert in_table(account, table) == []


def test_a_key_that_is_refused_ends_the_start_and_a_service_that_is_away_is_unavailable(
    monkeypatch, account, table
):
    with pytest.raises(OutputError, match="look at the account's key") as caught:
        an_output(table, key="AAAA").prepare()
    assert not isinstance(caught.value, OutputUnavailable)
    with pytest.raises(OutputError, match="deleted while the job ran"):
        publish(an_output("nowhere"), 0, {"device": "a", "at": 1})
    monkeypatch.setenv(ENDPOINTS, json.dumps({"away.table.core.windows.net": "http://127.0.0.1:9/away"}))
    with pytest.raises(OutputUnavailable):
        TableStorageOutput("out", "away", table, EntityColumns("a", "b"), ACCOUNT_KEY).prepare()
    assert ACCOUNT_KEY not in repr(an_output(table))


def test_what_the_service_refuses_is_a_refused_row(monkeypatch, account, table):
    """Our own limits are lifted, so that the service meets what is too large for it."""
    output = an_output(table)
    output.prepare()
    monkeypatch.setattr("tideglass.connect.tables.entities._MOST_TEXT_BYTES", 1 << 30)
    rows = [{"device": "a", "at": n, "s": "x" * (70_000 if n == 1 else 1)} for n in range(3)]
    assert refused(output, *rows) == [(1, RefusalKind.RECORD_EXCEEDED_SIZE_LIMIT)]
    publish(output, 9, rows[0], rows[2])
    assert len(in_table(account, table)) == 2


class Killed(Exception):
    """The run dies here."""


ROWS = st.lists(
    st.fixed_dictionaries(
        {"device": st.sampled_from("ab"), "at": st.integers(0, 3), "v": st.integers(0, 3)},
        optional={"w": st.just("x")},
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=8)
@given(batches=st.lists(st.tuples(ROWS, st.lists(st.integers(0, 4), max_size=2)), max_size=4))
def test_entities_are_those_of_an_undisturbed_run_wherever_a_publication_dies(account, batches):
    number = len(list(account.list_tables()))
    plain, killed = (an_output(f"hot{number + each}", batch_size=2) for each in (0, 1))
    for output in (plain, killed):
        output.prepare()
    for at, (rows, deaths) in enumerate(batches):
        publish(plain, at, *rows)
        for after in deaths:
            with pytest.MonkeyPatch.context() as patch:
                dying_after(patch, after)
                try:
                    publish(killed, at, *rows)
                except Killed:
                    continue
        publish(killed, at, *rows)
    assert in_table(account, killed.table) == in_table(account, plain.table)


def dying_after(patch: pytest.MonkeyPatch, transactions: int) -> None:
    """Let that many transactions through, and die then."""
    left, original = [transactions], TableClient.submit_transaction

    def dying(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return original(*arguments, **options)

    patch.setattr(TableClient, "submit_transaction", dying)
