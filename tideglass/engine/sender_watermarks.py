"""What a receiver last heard from each sender: for exchanges whose senders are silent in some batches.

An input that is not ours gives nothing in a batch without rows, so whoever waits for several inputs must
remember how far each had come. A sender never heard from is not listed: its exchange has no watermark
until it speaks (`asa.md` 1.6).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tideglass.core.ipc import from_bytes, to_bytes
from tideglass.engine.messages import json_body
from tideglass.operators.progress import Progress
from tideglass.operators.state.store import State

_WATERMARKS = "heard"


@dataclass(slots=True)
class SenderWatermarks:
    """The last mark of every sender, by exchange and sender; kept in the state of an operator.

    The watermarks are one small value. Substreams ahead of theirs are a value each, written when they change.
    """

    state: State
    watermarks: dict[tuple[int, str], Progress]

    @classmethod
    def load(cls, state: State) -> SenderWatermarks:
        saved = state.get(_WATERMARKS)
        if saved is None:
            return cls(state, {})
        entries: list[list[Any]] = json.loads(saved)
        return cls(
            state,
            {
                (send, sender): Progress(ticks, _ahead(state, send, sender) if is_ahead else None)
                for send, sender, ticks, is_ahead in entries
            },
        )

    def take(self, watermarks: Mapping[tuple[int, str], Progress]) -> None:
        """Replace what was known of the senders that spoke, in the state as well."""
        before = _listed(self.watermarks)
        for (send, sender), sender_progress in watermarks.items():
            known = self.watermarks.get((send, sender))
            self.watermarks[send, sender] = sender_progress
            if sender_progress.substreams is not None and not _same(known, sender_progress):
                self.state.put(_name(send, sender), to_bytes(sender_progress.substreams))
        after = _listed(self.watermarks)
        if after != before:
            self.state.put(_WATERMARKS, json_body(after))


def _listed(watermarks: Mapping[tuple[int, str], Progress]) -> list[list[Any]]:
    return [
        [send, sender, sender_progress.watermark_ticks, sender_progress.substreams is not None]
        for (send, sender), sender_progress in sorted(watermarks.items(), key=lambda entry: entry[0])
    ]


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
