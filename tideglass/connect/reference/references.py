"""The snapshots of all reference inputs of a job, and how many of them are known at a time (`asa.md` 6.3).

Snapshots of an input appear in the order of the times from which they hold, and their list only grows. A
batch says by a number alone how many of them count, which is journaled with it, so a batch that runs
again meets the same snapshots however many have appeared since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tideglass.connect.in_memory import Row
from tideglass.connect.reference.snapshot import ReferenceSnapshot, RowsSnapshot
from tideglass.core.errors import InputError
from tideglass.core.events import Known
from tideglass.core.time import parse_ticks


class References(Protocol):
    """Picklable: it is asked in several processes."""

    def find(self, now_ticks: int | None) -> Known:
        """Look for new snapshots; called by the driver, between batches.

        now_ticks: a snapshot is not looked for before its effective time; None takes all there are.
        """
        ...

    def snapshots(self, name: str, count: int) -> Sequence[ReferenceSnapshot]:
        """The first `count` snapshots of an input, by the time from which they hold."""
        ...


@dataclass(frozen=True, slots=True)
class InlineReferences:
    """Snapshots that are all there from the start."""

    by_name: Mapping[str, tuple[ReferenceSnapshot, ...]]

    def find(self, now_ticks: int | None) -> Known:
        return {name: len(found) for name, found in self.by_name.items()}

    def snapshots(self, name: str, count: int) -> Sequence[ReferenceSnapshot]:
        return self.by_name[name][:count]


NO_REFERENCES = InlineReferences({})

#: Rows of a reference input, or several snapshots of it by the ISO time from which each holds.
InlineRows = Sequence[Row] | Mapping[str, Sequence[Row]]


def inline_rows(names: Sequence[str], rows_by_name: Mapping[str, Any]) -> InlineReferences:
    """Rows in memory as the reference inputs `names`; case does not count.

    Raises InputError for an input without rows, and for a time that is none.
    """
    by_key = {name.casefold(): rows for name, rows in rows_by_name.items()}
    found: dict[str, tuple[ReferenceSnapshot, ...]] = {}
    for name in names:
        if name.casefold() not in by_key:
            known = ", ".join(rows_by_name) or "none"
            raise InputError(
                f"the query joins the reference input {name!r}, but no rows are given for it (given: {known})"
            )
        found[name] = _snapshots(name, by_key[name.casefold()])
    return InlineReferences(found)


def _snapshots(name: str, rows_or_snapshots: InlineRows) -> tuple[RowsSnapshot, ...]:
    if not isinstance(rows_or_snapshots, Mapping):
        return (RowsSnapshot.of(rows_or_snapshots),)
    found: list[RowsSnapshot] = []
    for text, rows in rows_or_snapshots.items():
        ticks = parse_ticks(text)
        if ticks is None:
            raise no_time(name, text)
        found.append(RowsSnapshot.of(rows, ticks))
    return tuple(sorted(found, key=lambda snapshot: snapshot.effective_ticks))


def no_time(name: str, text: str) -> InputError:
    """The error of a snapshot whose time is none."""
    return InputError(
        f"a snapshot of the reference input {name!r} holds from {text!r}; write an ISO time such as "
        "2026-01-01T00:00:00Z"
    )
