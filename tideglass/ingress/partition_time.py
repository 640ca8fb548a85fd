"""The state of one input partition at the ingress: its watermark, its newest arrival time, its counters.

A watermark has two sources, and is the later of the two (`asa.md` 1.5); our own policies may add a third,
the times of the events in flight (`ingress.percentile_watermark`):

* its **events**: the newest system timestamp so far, less the out-of-order tolerance. One value for the
  partition, or with OVER one for each substream;
* its **floor**: newest (or, while it is idle, estimated) arrival, less the late tolerance. One value for the
  partition, which floors all of its substreams (A-06), because no later event can get a time before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints
from tideglass.core.documents import Document
from tideglass.core.errors import StateError
from tideglass.core.ipc import from_bytes, to_bytes
from tideglass.core.iso import flat
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.ingress.decisions import Counters
from tideglass.ingress.in_flight import InFlight
from tideglass.operators.progress import Progress

_HEADER = b"tideglass.ingress"
_IN_FLIGHT = b"tideglass.in_flight"
_SCHEMA = pa.schema([pa.field("substream", pa.string()), pa.field("watermark_ticks", pa.int64())])


def _no_keys() -> pa.StringArray:
    return pa.StringArray.from_pandas([], type=pa.string())


def _no_ticks() -> Ints:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _IngressHeader:
    """The fields of an Ingress but its substreams, as they are written."""

    last_arrival_ticks: int
    floor_ticks: int
    event_watermark_ticks: int
    counters: Counters
    percentile_watermark_ticks: int = BEFORE_ALL_TICKS
    early_watermarks_ticks: tuple[int, ...] = ()


_DOCUMENT = Document(_IngressHeader)


@dataclass(frozen=True, slots=True, eq=False)
class Ingress:
    """State of one input partition; BEFORE_ALL_TICKS stands for no event yet.

    last_arrival_ticks: the newest arrival time.
    floor_ticks: the floor of the watermark, for all substreams.
    event_watermark_ticks: the watermark that the events make; not used with OVER.
    substreams: keys whose own watermark is ahead of the floor, each once, in no order. The watermark of any
        other key is the floor, so it is not kept (A-07).
    substream_watermark_ticks: their own watermarks.
    counters: events by decision.
    in_flight: the newest events and their times; none without TIMESTAMP BY.
    percentile_watermark_ticks: the watermark at the percentage of the policies; not used without one.
    early_watermarks_ticks: those of early panes, by percentage; () without.
    """

    last_arrival_ticks: int = BEFORE_ALL_TICKS
    floor_ticks: int = BEFORE_ALL_TICKS
    event_watermark_ticks: int = BEFORE_ALL_TICKS
    substreams: pa.StringArray = field(default_factory=_no_keys)
    substream_watermark_ticks: Ints = field(default_factory=_no_ticks)
    counters: Counters = Counters()
    in_flight: InFlight = InFlight()
    percentile_watermark_ticks: int = BEFORE_ALL_TICKS
    early_watermarks_ticks: tuple[int, ...] = ()

    @property
    def watermark_ticks(self) -> int:
        """The watermark that holds for every later event, of any substream."""
        return max(self.event_watermark_ticks, self.floor_ticks, self.percentile_watermark_ticks)

    @property
    def progress(self) -> Progress:
        """The watermark of the partition and, when there are any, of the substreams ahead of it."""
        if len(self.substreams) == 0:
            return Progress(self.watermark_ticks)
        return Progress(self.watermark_ticks, watermarks(self.substreams, self.substream_watermark_ticks))

    def raised(self, floor_ticks: int) -> Ingress:
        """The same with the floor at least at `floor_ticks`; substreams it reaches are forgotten."""
        if floor_ticks <= self.floor_ticks:
            return self
        keys, own_ticks = ahead(self.substreams, self.substream_watermark_ticks, floor_ticks)
        return replace(self, floor_ticks=floor_ticks, substreams=keys, substream_watermark_ticks=own_ticks)

    def to_bytes(self) -> bytes:
        """An Arrow IPC stream of the substreams; the rest is JSON in its schema's metadata."""
        header = _IngressHeader(
            self.last_arrival_ticks,
            self.floor_ticks,
            self.event_watermark_ticks,
            self.counters,
            self.percentile_watermark_ticks,
            self.early_watermarks_ticks,
        )
        metadata = {_HEADER: _DOCUMENT.body(header)}
        if self.in_flight.seconds:
            metadata[_IN_FLIGHT] = self.in_flight.to_bytes()
        schema = _SCHEMA.with_metadata(metadata)
        columns = [self.substreams, pa.array(self.substream_watermark_ticks)]
        return to_bytes(pa.table(columns, schema=schema))

    @classmethod
    def from_bytes(cls, data: bytes) -> Ingress:
        """The state `to_bytes` wrote. Raises StateError for anything else."""
        try:
            table = from_bytes(data)
            metadata = table.schema.metadata or {}
            header = _DOCUMENT.of_body(metadata[_HEADER])
            in_flight = InFlight.from_bytes(metadata.get(_IN_FLIGHT, b""))
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise StateError(f"the state of an input partition cannot be read: {error}") from error
        return cls(
            last_arrival_ticks=header.last_arrival_ticks,
            floor_ticks=header.floor_ticks,
            event_watermark_ticks=header.event_watermark_ticks,
            substreams=flat(table["substream"]),
            substream_watermark_ticks=table["watermark_ticks"].to_numpy(),
            counters=header.counters,
            in_flight=in_flight,
            percentile_watermark_ticks=header.percentile_watermark_ticks,
            early_watermarks_ticks=header.early_watermarks_ticks,
        )


def ahead(keys: pa.StringArray, own_ticks: Ints, floor_ticks: int) -> tuple[pa.StringArray, Ints]:
    """The substreams whose own watermark is ahead of the floor."""
    held = own_ticks > floor_ticks
    if held.all():
        return keys, own_ticks
    return keys.filter(pa.array(held)), own_ticks[held]


def watermarks(keys: pa.StringArray, own_ticks: Ints) -> pa.Table:
    """The table `Progress` holds: substream string, watermark_ticks int64."""
    return pa.Table.from_arrays([keys, pa.array(own_ticks)], schema=_SCHEMA)
