"""How rows find their key group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tideglass.core import sql
from tideglass.core.arrays import Ints
from tideglass.core.columns import coded_text
from tideglass.core.profile import measured


@measured("routing by key")
def key_groups_of(table: pa.Table, keys: Sequence[str], key_groups: int) -> Ints:
    """The key group of every row, an int64 below `key_groups`; rows with equal keys share one.

    It is md5 of the key's canonical text, so it depends on the values only: not on the process,
    the chunk, or the type the rest of the column happens to have.
    """
    if not keys or key_groups == 1:
        return np.zeros(table.num_rows, dtype=np.int64)
    codes, texts = coded_text(table, keys)
    groups = sql.query(
        f"SELECT CAST(md5_number_lower(text) % {key_groups} AS BIGINT) AS key_group FROM texts",
        texts=pa.table({"text": texts}),
    )["key_group"].to_numpy()
    return groups[codes]


def partition_groups_of(table: pa.Table, partition: str, key_groups: int) -> Ints:
    """The key group of every row by its partition's number, so that all have about as many partitions."""
    return table[partition].to_numpy().astype(np.int64) % key_groups


def split(table: pa.Table, groups: Ints, key_groups: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each key group, in their order. groups: of every row."""
    if table.num_rows == 0:
        return
    if (groups == groups[0]).all():
        yield int(groups[0]), table
        return
    order = np.argsort(groups, kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(key_groups + 1))
    ordered = table.take(pa.array(order))
    for key_group in range(key_groups):
        first, last = int(bounds[key_group]), int(bounds[key_group + 1])
        if first < last:
            yield key_group, ordered.slice(first, last - first)
