"""Ids of rows: the same when a batch is run again, another for every row."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideglass.connect.output import Batch
from tideglass.connect.refused_rows import RefusalKind, RefusedRow, RowsRefused
from tideglass.connect.row_ids import row_ids
from tideglass.core.types import Type, field

SCHEMA = pa.schema([field("n", Type.BIGINT)])
BATCH = Batch(1, 7, "a job")


def rows(*values: int) -> pa.Table:
    return pa.table([list(values)], schema=SCHEMA)


@given(values=st.lists(st.integers(0, 3), max_size=12), data=st.data())
def test_ids_belong_to_rows_however_they_are_cut_and_ordered(values: list[int], data: st.DataObject) -> None:
    whole = row_ids("o", BATCH, rows(*values))
    assert len(set(whole)) == len(values)
    shuffled = data.draw(st.permutations(values))
    cut = data.draw(st.integers(0, len(values)))
    again = row_ids("o", BATCH, [rows(*shuffled[:cut]), rows(*shuffled[cut:])])
    assert sorted(zip(shuffled, again, strict=True)) == sorted(zip(values, whole, strict=True))


@pytest.mark.parametrize(
    ("output", "batch"),
    [("p", BATCH), *[("o", each) for each in (Batch(2, 7, "a job"), Batch(1, 8, "a job"), Batch(1, 7, "b"))]],
)
def test_another_output_batch_generation_or_job_has_other_ids(output: str, batch: Batch) -> None:
    assert row_ids(output, batch, rows(1)) != row_ids("o", BATCH, rows(1))


def test_an_id_is_what_it_was_in_earlier_versions() -> None:
    assert row_ids("o", BATCH, rows(1, 1)) == [
        "10d2f91ec5da95c65d9c91098ce6eed3",
        "2a761b5cfd416e23bfe16c6dc3b38aca",
    ]


def test_refused_rows_are_named_in_the_message() -> None:
    refused = [RefusedRow(0, row, RefusalKind.DUPLICATE_KEY, "the key 5 is there") for row in range(3)]
    assert str(RowsRefused(refused)) == "a row is refused, DuplicateKey: the key 5 is there (and 2 others)"
    with pytest.raises(ValueError, match="names no row"):
        RowsRefused([])
