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

from tideglass.engine.ipc import from_bytes, to_bytes
from tideglass.engine.messages import json_body
from tideglass.operators.progress import Progress
from tideglass.operators.state.store import State

_MARKS = "heard"


@dataclass(slots=True)
class SenderWatermarks:
    """The last mark of every sender, by exchange and sender; kept in the state of an operator.

    The watermarks are one small value. Substreams ahead of theirs are a value each, written when they change.
    """

    state: State
    marks: dict[tuple[int, str], Progress]

    @classmethod
    def load(cls, state: State) -> SenderWatermarks:
        saved = state.get(_MARKS)
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

    def take(self, marks: Mapping[tuple[int, str], Progress]) -> None:
        """Replace what was known of the senders that spoke, in the state as well."""
        before = _listed(self.marks)
        for (send, sender), came in marks.items():
            known = self.marks.get((send, sender))
            self.marks[send, sender] = came
            if came.substreams is not None and not _same(known, came):
                self.state.put(_name(send, sender), to_bytes(came.substreams))
        after = _listed(self.marks)
        if after != before:
            self.state.put(_MARKS, json_body(after))


def _listed(marks: Mapping[tuple[int, str], Progress]) -> list[list[Any]]:
    return [
        [send, sender, came.watermark_ticks, came.substreams is not None]
        for (send, sender), came in sorted(marks.items(), key=lambda entry: entry[0])
    ]


def _same(known: Progress | None, came: Progress) -> bool:
    return known is not None and known.substreams is not None and known.substreams.equals(came.substreams)


def _name(send: int, sender: str) -> str:
    return f"{_MARKS} {send} {sender}"


def _ahead(state: State, send: int, sender: str) -> pa.Table | None:
    body = state.get(_name(send, sender))
    return None if body is None else from_bytes(body)
