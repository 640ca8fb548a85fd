"""A Delta table as an output: its schema, what it refuses, and every batch once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from support.tables import typed_table
from tideglass.connect.delta import delta_commits
from tideglass.connect.delta.output import DeltaOutput
from tideglass.connect.output import Batch
from tideglass.connect.refused_rows import RefusalKind, RowsRefused
from tideglass.core.errors import OutputError
from tideglass.core.time import parse_ticks
from tideglass.core.types import Type
from tideglass.storage import storage_path

MOMENT = parse_ticks("2019-10-07T00:03:55.1234567Z")


def an_output(path: Path, partition_column: str | None = None) -> DeltaOutput:
    return DeltaOutput("out", storage_path(path), partition_column)


def publish(output: DeltaOutput, batch: int, *parts: pa.Table, generation: int = 1, job: str = "job") -> None:
    staged = [output.stage(rows, str(part)) for part, rows in enumerate(parts)]
    output.publish(Batch(generation, batch, job), staged)


def rows_in(path: Path) -> list[dict[str, Any]]:
    return sorted(DeltaTable(str(path)).to_pyarrow_table().to_pylist(), key=repr)


def numbers_in(path: Path) -> list[int]:
    return [each["n"] for each in DeltaTable(str(path)).to_pyarrow_table().sort_by("n").to_pylist()]


def numbers(*values: int) -> pa.Table:
    return typed_table(n=(list(values), Type.BIGINT))


def refused(output: DeltaOutput, *parts: pa.Table) -> list[tuple[int, int, RefusalKind]]:
    with pytest.raises(RowsRefused) as caught:
        publish(output, 9, *parts)
    return [(each.part, each.row, each.kind) for each in caught.value.rows]


# ---------------------------------------------------------------- schema and values


def test_the_first_rows_make_the_table_with_a_column_of_each_type(tmp_path):
    publish(
        an_output(tmp_path / "t"),
        0,
        typed_table(
            i=([2**63 - 1, None], Type.BIGINT),
            f=([0.1, float("inf")], Type.FLOAT),
            s=(['a"é', None], Type.NVARCHAR),
            t=([MOMENT, -1], Type.DATETIME),
            b=([True, None], Type.BIT),
            r=(['{"x":[1,2.5]}', None], Type.RECORD),
            l=(["[1]", "[]"], Type.ARRAY),
            v=(["i1", "sone"], Type.VARIANT),
            w=(["i1", "f0.5"], Type.VARIANT),
            n=([None, None], Type.NULL),
            payload=(['{"i":5,"z":1}', '{"y":"q"}'], Type.RECORD),
        ),
    )
    table = DeltaTable(str(tmp_path / "t"))
    types = {each.name: each.type.type for each in table.schema().fields}
    wanted = "i long f double s string t timestamp b boolean r string l string v string w double n string"
    wanted += " z long y string"
    assert " ".join(f"{name} {type_}" for name, type_ in types.items()) == wanted
    first, second = table.to_pyarrow_table().to_pylist()
    assert str(first.pop("t")) == "2019-10-07 00:03:55.123456+00:00", "the seventh digit is cut"
    values = [2**63 - 1, 0.1, 'a"é', True, '{"x":[1,2.5]}', "[1]", "1", 1.0, None, 1, None]
    assert list(first.values()) == values
    assert str(second["t"]) == "1969-12-31 23:59:59.999999+00:00", "what is cut lies after the time"
    protocol = table.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert table.metadata().configuration == {"delta.appendOnly": "true"}


def test_further_columns_are_left_out_and_missing_ones_are_null(tmp_path):
    output = an_output(tmp_path)
    publish(output, 0, typed_table(a=([1], Type.BIGINT), b=(["x"], Type.NVARCHAR)))
    publish(output, 1, typed_table(A=([2], Type.BIGINT), c=([3], Type.BIGINT)))
    assert rows_in(tmp_path) == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


def test_files_of_a_partition_column_lie_in_folders_of_its_values(tmp_path):
    output = an_output(tmp_path, "kind")
    publish(output, 0, typed_table(n=([1, 2, 3], Type.BIGINT), kind=(["a", "b/c", None], Type.NVARCHAR)))
    publish(output, 1, typed_table(n=([4], Type.BIGINT), kind=([5], Type.BIGINT)))
    assert sorted((each["n"], each["kind"]) for each in rows_in(tmp_path)) == [
        *((1, "a"), (2, "b/c"), (3, None), (4, "5"))
    ]
    assert DeltaTable(str(tmp_path)).metadata().partition_columns == ["kind"]


def test_a_table_with_other_partitions_ends_the_start(tmp_path):
    publish(an_output(tmp_path, "n"), 0, typed_table(n=([1], Type.BIGINT), m=([1], Type.BIGINT)))
    an_output(tmp_path, "N").prepare()
    with pytest.raises(OutputError, match=r"no partition column.* has the partition column n"):
        an_output(tmp_path).prepare()


def test_values_that_do_not_fit_the_table_are_refused_before_any_row_is_visible(tmp_path):
    schema = pa.schema(
        [
            *(pa.field("small", pa.int8()), pa.field("double", pa.float64()), pa.field("text", pa.string())),
            *(pa.field("at", pa.timestamp("us", "UTC")), pa.field("bit", pa.bool_())),
            pa.field("must", pa.int64(), nullable=False),
            pa.field("shape", pa.struct([("x", pa.int64()), ("l", pa.list_(pa.string()))])),
        ]
    )
    DeltaTable.create(str(tmp_path), schema)
    output = an_output(tmp_path)
    good = typed_table(
        small=(["i127", "f-3.0", "b1", None], Type.VARIANT),
        double=([2**53, 1, 0, None], Type.BIGINT),
        text=(["i5", "f0.5", f"d{MOMENT}", 'r{"a":1}'], Type.VARIANT),
        at=([MOMENT, None, None, None], Type.DATETIME),
        bit=([1, 0, None, None], Type.BIGINT),
        must=([1, 2, 3, 4], Type.BIGINT),
        shape=(['{"x":1,"l":["a"],"more":2}', "{}", None, '{"x":null}'], Type.RECORD),
    )
    publish(output, 0, good)
    found = {each["must"]: each for each in rows_in(tmp_path)}
    assert [found[each]["small"] for each in (1, 2, 3)] == [127, -3, 1]
    assert [found[each]["text"] for each in (1, 2, 3, 4)] == [
        *("5", "0.5", "2019-10-07T00:03:55.1234567Z", '{"a":1}')
    ]
    assert [found[each]["shape"] for each in (1, 4)] == [{"x": 1, "l": ["a"]}, {"x": None, "l": None}]
    bad = typed_table(
        small=(["i128", "f0.5", "sx", "i1", "i1", "i1", "i1"], Type.VARIANT),
        double=([0, 0, 0, 2**53 + 1, 0, 0, 0], Type.BIGINT),
        at=([None] * 7, Type.NULL),
        bit=([0, 1, 0, 1, 2, 0, 0], Type.BIGINT),
        must=([1, 1, 1, 1, 1, None, 1], Type.BIGINT),
        shape=([*[None] * 6, '{"x":"one"}'], Type.RECORD),
    )
    kinds = [RefusalKind.TYPE_CONVERSION_ERROR] * 7
    kinds[5] = RefusalKind.REQUIRED_COLUMN_MISSING
    assert refused(output, good, bad) == [(1, row, kind) for row, kind in enumerate(kinds)]
    assert len(rows_in(tmp_path)) == 4


def test_rows_without_any_column_of_the_table_are_refused(tmp_path):
    output = an_output(tmp_path)
    publish(output, 0, typed_table(a=([1], Type.BIGINT)))
    publish(output, 1, typed_table(a=([None], Type.NULL), b=([1], Type.BIGINT)))
    kind = RefusalKind.TYPE_CONVERSION_ERROR
    payloads = typed_table(payload=(['{"a":1}', '{"b":1}'], Type.RECORD))
    assert refused(output, payloads, typed_table(c=([1], Type.BIGINT))) == [(0, 1, kind), (1, 0, kind)]


def test_a_column_name_that_no_table_can_have_is_refused(tmp_path):
    output = an_output(tmp_path)
    rows = typed_table(n=([1, 2], Type.BIGINT), payload=(['{"a b":1}', "{}"], Type.RECORD))
    assert refused(output, rows) == [(0, 0, RefusalKind.COLUMN_NAME_INVALID)]
    assert not list(tmp_path.iterdir()), "rows that are refused make no table"
    publish(output, 0, rows.slice(1))
    assert numbers_in(tmp_path) == [2]


# ---------------------------------------------------------------- once


def test_a_batch_that_is_repeated_is_there_once_however_it_is_cut_into_parts(tmp_path):
    output = an_output(tmp_path)
    publish(output, 0, numbers(1, 2), numbers(3))
    publish(output, 0, numbers(3), numbers(2), numbers(1))
    assert numbers_in(tmp_path) == [1, 2, 3]


def test_batches_of_a_later_generation_and_of_another_job_are_others(tmp_path):
    output = an_output(tmp_path)
    publish(output, 7, numbers(1))
    publish(output, 0, numbers(2), generation=2)
    publish(output, 7, numbers(3), job="other")
    assert numbers_in(tmp_path) == [1, 2, 3]


@pytest.mark.parametrize(("batch", "generation"), [(3, 1), (2, 1), (0, 1), (9, 0)])
def test_an_older_copy_of_the_job_directory_is_refused_by_name(tmp_path, batch, generation):
    """Its batches have the numbers of those that are there, and other rows."""
    output = an_output(tmp_path)
    publish(output, 3, numbers(1))
    with pytest.raises(OutputError, match="DELTA_BATCH_DIFFERS"):
        publish(output, batch, numbers(1, 2), generation=generation)
    assert numbers_in(tmp_path) == [1]


def test_rows_of_uncommitted_batches_cannot_be_withdrawn_and_that_is_said(tmp_path):
    output = an_output(tmp_path)
    output.withdraw(Batch(1, -1, "job"))
    assert output.newest_batch("job") is None
    publish(output, 3, numbers(1))
    assert (output.newest_batch("job"), output.newest_batch("another job")) == (Batch(1, 3), None)
    output.withdraw(Batch(1, 3, "job"))
    output.withdraw(Batch(1, 1, "another job"))
    with pytest.raises(OutputError, match="DELTA_APPEND_ONLY"):
        output.withdraw(Batch(1, 2, "job"))


def test_a_table_with_rows_is_not_overwritten(tmp_path):
    output = an_output(tmp_path)
    output.check_replaceable()
    publish(output, 0, numbers(1))
    with pytest.raises(OutputError, match="cannot be replaced"):
        output.check_replaceable()


def others_append(path: Path, application: str, version: int, *values: int) -> None:
    transaction = CommitProperties(app_transactions=[Transaction(application, version)])
    write_deltalake(str(path), pa.table({"n": list(values)}), mode="append", commit_properties=transaction)


@pytest.mark.parametrize("written_by", ["nobody of ours", "the same run before it stood still"])
def test_what_others_commit_in_between_is_neither_lost_nor_doubled(tmp_path, monkeypatch, written_by):
    output = an_output(tmp_path)
    publish(output, 0, numbers(1))
    append, interrupted = delta_commits.DeltaCommits.append, list[bool]()

    def interrupted_append(commits: Any, table: Any, batch: Batch, rows: pa.Table) -> bool:
        if not interrupted:
            interrupted.append(True)
            if written_by == "nobody of ours":
                others_append(tmp_path, "another program", 1, 100)
            else:
                publish(output, batch.number, numbers(2))
        return append(commits, table, batch, rows)

    monkeypatch.setattr(delta_commits.DeltaCommits, "append", interrupted_append)
    publish(output, 1, numbers(2))
    assert numbers_in(tmp_path) == ([1, 2, 100] if written_by == "nobody of ours" else [1, 2])


def test_two_who_make_the_table_at_once_have_their_rows_in_one(tmp_path, monkeypatch):
    output, create = an_output(tmp_path), delta_commits.DeltaCommits.create

    def create_second(commits: Any, schema: pa.Schema, partition_column: str | None) -> None:
        if not list(tmp_path.iterdir()):
            others_append(tmp_path, "another program", 1, 100)
        create(commits, schema, partition_column)

    monkeypatch.setattr(delta_commits.DeltaCommits, "create", create_second)
    publish(output, 0, numbers(1))
    assert numbers_in(tmp_path) == [1, 100]
