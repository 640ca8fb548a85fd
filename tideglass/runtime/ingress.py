"""The ingress of one input whose events come from a stream that is not ours: chunks in, messages out.

A source of our own runs the scan where it reads (`spark.source`). Other streams spread the rows of a
partition over tasks, so they are brought together first: here, in the state of one stateful operator,
each partition's rows are put into order and scanned. The scan's state travels with the operator's, so a
batch that runs again starts from where the last one ended.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tideglass.connect.inputs.frame import ALONE, FrameChunk, in_order
from tideglass.connect.reference.references import NO_REFERENCES, Known, References
from tideglass.core.errors import StateError
from tideglass.core.time import TICKS_PER_MILLISECOND
from tideglass.plan.topology import Topology, check_partitions
from tideglass.runtime.exchange import Exchange, Sink
from tideglass.runtime.message import Kind, Message, json_body
from tideglass.runtime.peers import Watermarks
from tideglass.runtime.scan import Scan, ScanState, Silence
from tideglass.temporal.state import State

_RECORD = "record"


@dataclass(frozen=True, slots=True)
class Seen:
    """A partition that has given something: its number, when it last did, the offset to come."""

    number: int
    since_ms: int
    next_offset: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """What an ingress remembers besides the states of its scans.

    ended: the input has. known: how many snapshots of each reference input count, as it was last told.
    """

    partitions: dict[str, Seen] = field(default_factory=dict[str, Seen])
    ended: bool = False
    known: Known = field(default_factory=dict[str, int])

    @classmethod
    def of_plain(cls, saved: Mapping[str, Any]) -> Record:
        partitions = {name: Seen(**each) for name, each in saved["partitions"].items()}
        return cls(partitions, saved.get("ended", False), saved.get("known", {}))


class IngressTask:
    """Scans one input. Made once per worker; holds no rows between runs.

    job: names what the state belongs to; another job's state is refused. known: how many snapshots of each
    reference input count where no message says so. share: which of several ingresses of the input this is,
    each of which has the partitions whose numbers leave the same rest; 0 where it is the only one.
    """

    def __init__(
        self,
        topology: Topology,
        input_name: str,
        sink: Sink,
        job: str,
        references: References = NO_REFERENCES,
        known: Known | None = None,
        share: int = 0,
    ) -> None:
        self.topology = topology
        self.share = share
        self.input_name = input_name
        self.sink = sink
        self.job = job
        self._known = known or {}
        self._scan = Scan(topology, input_name, references)

    @property
    def idles(self) -> bool:
        """Whether silence moves a watermark of this input at all (A-04)."""
        return any(reader.policies.floor_lag_ticks is not None for reader in self._scan.readers)

    def run(
        self,
        messages: Iterable[Message],
        state: State,
        now_ms: int | None = None,
        elsewhere: Callable[[], Watermarks] | None = None,
    ) -> list[Message]:
        """Scan a batch of every partition known, also of those that gave nothing.

        now_ms: the time of the batch, the same when it runs again; None: silence is not told. elsewhere: how
        far all partitions of the input had come before the batch; None: all of them are scanned here.
        """
        record = self._load(state)
        if record.ended:  # what comes behind the end is no part of the run
            return []
        seen = dict(record.partitions)
        given: dict[str, list[FrameChunk]] = {}
        told = dict(record.known)
        final = False
        for message in messages:
            final = final or message.kind is Kind.END
            if message.kind is Kind.KNOWN:
                told |= message.json()
            if message.kind is Kind.CHUNK:
                given.setdefault(message.sender, []).append(
                    FrameChunk.from_bytes(message.sender, message.body)
                )
        fresh = sorted(given.keys() - seen.keys())
        others: Watermarks = {}
        if elsewhere is not None and (fresh or (final and not seen)):
            others = elsewhere()
        if final and not (seen or fresh or others or self.share):  # somebody must tell the stages of the end
            fresh = [ALONE]
        check_partitions(self.topology.readers, self.input_name, len({*seen, *fresh, *others}))
        bodies = {name: state.get(_name(name)) for name in seen}
        before = {
            name: ScanState() if body is None else ScanState.from_bytes(body) for name, body in bodies.items()
        }
        start = ScanState.above(list(others.values())) if others else ScanState.beside(list(before.values()))
        taken = {each.number for each in seen.values()}
        for name in fresh:
            number = int(name) if name.isdigit() and int(name) not in taken else _first_free(taken)
            taken.add(number)
            seen[name] = Seen(number, now_ms or 0)
            before[name] = start
        result: list[Message] = []
        for name, each in sorted(seen.items(), key=lambda entry: entry[1].number):
            chunks, next_offset = in_order(given.get(name, []), each.next_offset)
            sent, after = self._scan.run(
                each.number,
                name,
                chunks,
                before[name],
                Exchange(self.topology, 0, f"{self.input_name}/{name}", self.sink),
                silence=None if chunks or now_ms is None else _silence(each, now_ms),
                final=final,
                known={**self._known, **told},
            )
            result += sent
            if chunks:
                since_ms = each.since_ms if now_ms is None else now_ms
                seen[name] = replace(each, since_ms=since_ms, next_offset=next_offset)
            body = after.to_bytes()
            if body != bodies.get(name):
                state.put(_name(name), body)
        self._save(state, Record(seen, final, told))
        return result

    def _load(self, state: State) -> Record:
        body = state.get(_RECORD)
        if body is None:
            return Record()
        saved: dict[str, Any] = json.loads(body)
        if saved["job"] != self.job:
            raise StateError(
                "the checkpoint belongs to another job: the query, the settings, the columns of an input or "
                "the number of key groups differ\n"
                "  hint: undo the change, or start with a new checkpointLocation"
            )
        return Record.of_plain(saved)

    def _save(self, state: State, record: Record) -> None:
        body = json_body({"job": self.job, **asdict(record)})
        if body != state.get(_RECORD):
            state.put(_RECORD, body)


def _silence(each: Seen, now_ms: int) -> Silence | None:
    silent_ms = now_ms - each.since_ms
    if silent_ms <= 0:
        return None
    return Silence(silent_ms * TICKS_PER_MILLISECOND, each.since_ms * TICKS_PER_MILLISECOND)


def _first_free(taken: set[int]) -> int:
    return next(number for number in itertools.count() if number not in taken)


def _name(partition: str) -> str:
    return f"partition {partition}"
