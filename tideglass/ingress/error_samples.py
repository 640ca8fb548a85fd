"""Events the time policies moved or dropped, by kind, with the first of each kind in a batch (`asa.md` 9.2).

Work is done per chunk and kind, not per event, and only for kinds a chunk has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, Mask
from tideglass.core.events import Rejected
from tideglass.core.json_rows import rows_of
from tideglass.core.time import format_ticks
from tideglass.core.types import OFFSET, PAYLOAD
from tideglass.ingress.decisions import Decision
from tideglass.ingress.policies import Decided
from tideglass.plan.policy_settings import Policies

#: Of the text of an event.
_MOST_CHARACTERS = 500

#: The service's name of each kind, and the decisions it stands for. An event that was late and out of order
#: counts in both kinds, as in the service's metrics.
_KINDS: Mapping[str, tuple[Decision, ...]] = {
    "LateInputEvent": (Decision.ADJUSTED_LATE, Decision.ADJUSTED_BOTH, Decision.DROPPED_LATE),
    "EarlyInputEvent": (Decision.DROPPED_EARLY,),
    "OutOfOrderEvent": (
        Decision.ADJUSTED_OUT_OF_ORDER,
        Decision.ADJUSTED_BOTH,
        Decision.DROPPED_OUT_OF_ORDER,
    ),
    "InvalidInputTimeStamp": (Decision.DROPPED_BAD_TIMESTAMP,),
    "InvalidInputTimeStampKey": (Decision.DROPPED_NULL_KEY,),
}
_REASONS = {
    "LateInputEvent": "was sent later than configured tolerance",
    "EarlyInputEvent": "was sent earlier than configured tolerance",
    "OutOfOrderEvent": "was received out of order, beyond the configured tolerance",
    "InvalidInputTimeStamp": "has no timestamp that is a datetime",
    "InvalidInputTimeStampKey": "has no value of the key of OVER",
}


@dataclass(slots=True)
class OffendingEvents:
    """Collects them over a batch of one partition, for one of its readers.

    found: by kind; the place of the first is its offset.
    """

    found: dict[str, Rejected] = field(default_factory=dict[str, Rejected])

    def take(
        self, policies: Policies, decided: Decided, table: pa.Table, event_time_ticks: Ints | None
    ) -> None:
        """Take in a chunk: what was decided of its events, they, and their times; None: the arrivals."""
        counts = np.bincount(decided.decision, minlength=len(Decision))
        if counts[Decision.ACCEPTED] == len(decided.decision):
            return
        for kind, decisions in _KINDS.items():
            count = int(counts[list(decisions)].sum())
            if not count:
                continue
            before = self.found.get(kind)
            if before is not None:
                self.found[kind] = replace(before, count=before.count + count)
                continue
            mask: Mask = np.isin(decided.decision, decisions)
            place = int(np.argmax(mask))
            arrival_ticks = int(decided.arrival_time_ticks[place])
            event_ticks = None if event_time_ticks is None else int(event_time_ticks[place])
            self.found[kind] = Rejected(
                kind,
                count,
                _message(kind, event_ticks, arrival_ticks, policies),
                (event_text(table.slice(place, 1)),),
                table[OFFSET][place].as_py(),
            )


def _message(kind: str, event_ticks: int | None, arrival_ticks: int, policies: Policies) -> str:
    """What the service says of the first event of a kind; it knows no watermark at a percentile."""
    arrival = f"arrival time '{format_ticks(arrival_ticks)}'"
    if kind == "InvalidInputTimeStamp" or event_ticks is None:
        times = arrival
    else:
        times = f"application timestamp '{format_ticks(event_ticks)}' and {arrival}"
    reason = _REASONS[kind]
    if kind == "LateInputEvent" and event_ticks is not None and policies.percentile is not None:
        late_ticks = policies.late_ticks
        if late_ticks is None or arrival_ticks - event_ticks <= late_ticks:
            reason = f"was sent later than the watermark at percentile {policies.percentile}"
    return f"Input event with {times} {reason}."


def event_text(row: pa.Table) -> str:
    """The fields the query reads of the only row of a table, as JSON cut to a readable length."""
    prefix = f"{PAYLOAD}."
    names = [name.removeprefix(prefix) if name.startswith(prefix) else name for name in row.column_names]
    text = json.dumps(rows_of(row.rename_columns(names))[0], default=str)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"
