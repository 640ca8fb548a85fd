"""Keys a query is partitioned by and does not project: handed on to a reader that partitions by them again.

`WITH s AS (SELECT a FROM x PARTITION BY PartitionId) SELECT ... FROM s PARTITION BY PartitionId` means the
partitions of x (`asa.md` 8.1). Such a key is a column that only a reader with that PARTITION BY sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from tideglass.lang import nodes as tree

#: Stands before the name of a key in its column; no name of a query begins so.
HANDED = "$by."

#: Keys by their name (case-folded).
Keys = Mapping[str, tree.Expr]
NONE: Keys = MappingProxyType({})


def partition_keys(relation: tree.FromItem) -> Keys:
    """The keys of PARTITION BY of a source that are columns."""
    exprs = relation.partition_by.exprs if relation.partition_by is not None else ()
    return {expr.path[-1].text.casefold(): expr for expr in exprs if isinstance(expr, tree.Column)}


def asked_of_steps(script: tree.Script) -> dict[str, frozenset[str]]:
    """Names of the keys by which the readers of each step partition it, by the step's name (case-folded)."""
    asked: dict[str, frozenset[str]] = {}
    for relation in tree.parts(script, tree.FromItem):
        if relation.name is not None:
            key = relation.name.text.casefold()
            asked[key] = asked.get(key, frozenset()) | partition_keys(relation).keys()
    return asked


def handed_on(selects: Sequence[tree.Select], asked: Iterable[str]) -> frozenset[str]:
    """The keys asked for by which every SELECT of a union is partitioned."""
    return frozenset(name for name in asked if all(name in _own(select) for select in selects))


def _own(select: tree.Select) -> Keys:
    """The keys a SELECT is partitioned by: a row of a group has one value of a key it is grouped by only."""
    keys = partition_keys(select.source) if select.match is None else {}
    if not select.group_by:
        return keys
    grouped = {key.path[-1].text.casefold() for key in select.group_by if isinstance(key, tree.Column)}
    return {name: expr for name, expr in keys.items() if name in grouped}


def handed_columns(columns: Iterable[str]) -> frozenset[str]:
    """The keys among the columns of a query."""
    return frozenset(column.removeprefix(HANDED) for column in columns if column.startswith(HANDED))
