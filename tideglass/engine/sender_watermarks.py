"""The last known watermark of each sender: for exchanges whose senders send nothing in some batches.

An input that Spark reads sends nothing in a batch without rows, so a receiver that waits for several inputs
must remember the watermark of each. A sender that has sent nothing yet is not listed: its exchange has no
watermark until it does (`asa.md` 1.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from tideglass.core.documents import Plain
from tideglass.core.ipc import from_bytes, to_bytes
from tideglass.operators.progress import Progress
from tideglass.operators.state.store import State

_WATERMARKS = "heard"


class _Entry(NamedTuple):
    """The last known watermark of a sender at an exchange, as it is kept in the state.

    send: id of the SendOp.
    sender: its name.
    watermark_ticks: for all its rows.
    has_substreams: substreams ahead of that are kept as a value of their own.
    """

    send: int
    sender: str
    watermark_ticks: int
    has_substreams: bool


class _EarlyEntry(NamedTuple):
    """The last known watermarks of a sender at percentages of the events in flight.

    send: id of the SendOp.
    sender: its name.
    early_ticks: pairs of a percentage and a watermark.
    """

    send: int
    sender: str
    early_ticks: tuple[tuple[int, int], ...]


_ENTRIES: Plain[tuple[_Entry, ...]] = Plain(tuple[_Entry, ...])
_EARLY = "early"
_EARLY_ENTRIES: Plain[tuple[_EarlyEntry, ...]] = Plain(tuple[_EarlyEntry, ...])


@dataclass(slots=True)
class SenderWatermarks:
    """The last known watermark of every sender, by exchange and sender; kept in the state of an operator.

    The watermarks are one small value. Substreams ahead of theirs are a value each, written when they change.
    """

    state: State
    watermarks: dict[tuple[int, str], Progress]

    @classmethod
    def load(cls, state: State) -> SenderWatermarks:
        saved = state.get(_WATERMARKS)
        if saved is None:
            return cls(state, {})
        early = state.get(_EARLY)
        early_ticks = {
            (each.send, each.sender): each.early_ticks
            for each in (() if early is None else _EARLY_ENTRIES.of_body(early))
        }
        watermarks = {
            (each.send, each.sender): Progress(
                each.watermark_ticks,
                _ahead(state, each.send, each.sender) if each.has_substreams else None,
                early_ticks.get((each.send, each.sender), ()),
            )
            for each in _ENTRIES.of_body(saved)
        }
        return cls(state, watermarks)

    def take(self, watermarks: Mapping[tuple[int, str], Progress]) -> None:
        """Replace what was known of these senders, in the state as well."""
        before, early_before = _listed(self.watermarks), _listed_early(self.watermarks)
        for (send, sender), sender_progress in watermarks.items():
            known = self.watermarks.get((send, sender))
            self.watermarks[send, sender] = sender_progress
            if sender_progress.substreams is not None and not _same(known, sender_progress):
                self.state.put(_name(send, sender), to_bytes(sender_progress.substreams))
        after = _listed(self.watermarks)
        if after != before:
            self.state.put(_WATERMARKS, _ENTRIES.body(after))
        early = _listed_early(self.watermarks)
        if early != early_before:
            self.state.put(_EARLY, _EARLY_ENTRIES.body(early))


def _listed_early(watermarks: Mapping[tuple[int, str], Progress]) -> tuple[_EarlyEntry, ...]:
    return tuple(
        _EarlyEntry(send, sender, progress.early_ticks)
        for (send, sender), progress in sorted(watermarks.items(), key=lambda entry: entry[0])
        if progress.early_ticks
    )


def _listed(watermarks: Mapping[tuple[int, str], Progress]) -> tuple[_Entry, ...]:
    return tuple(
        _Entry(send, sender, progress.watermark_ticks, progress.substreams is not None)
        for (send, sender), progress in sorted(watermarks.items(), key=lambda entry: entry[0])
    )


def _same(known: Progress | None, sender_progress: Progress) -> bool:
    return (
        known is not None
        and known.substreams is not None
        and known.substreams.equals(sender_progress.substreams)
    )


def _name(send: int, sender: str) -> str:
    return f"{_WATERMARKS} {send} {sender}"


def _ahead(state: State, send: int, sender: str) -> pa.Table | None:
    body = state.get(_name(send, sender))
    return None if body is None else from_bytes(body)
