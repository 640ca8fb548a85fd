"""Rows, where an expression looks for its names, and the inputs behind their time policies (`asa.md` 1.5)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from . import watermarks
from .metadata import EVENT_ID, event_id
from .values import (
    LEAST_BIGINT,
    MOST_BIGINT,
    SECOND,
    Instant,
    OracleError,
    Value,
    identity,
    instant_of_text,
    lookup,
)

#: Arrival time of an event that has neither `_arrival` nor an event time: 1970-01-01, the same for all.
UNKNOWN_ARRIVAL = Instant(621_355_968_000_000_000)


@dataclass(eq=False)
class Row:
    """A row of a step: its columns, its System.Timestamp() and its place in the total order.

    `metadata` holds what is readable but not payload (PartitionId); `*` passes it on. `listed` are the
    columns a query or a declared schema names, rather than fields that happen to be in this event.
    `early` is, by percentage of an early pane, the watermark it met when it arrived (11.6).
    """

    values: dict[str, Value]
    time: int = 0
    order: tuple[int, ...] = ()
    metadata: dict[str, Value] = field(default_factory=dict[str, Any])
    listed: frozenset[str] = frozenset()
    early: dict[int, int] = field(default_factory=dict[int, int])

    def find(self, name: str) -> tuple[bool, Value]:
        for record in (self.metadata, self.values):
            found = lookup(record, name)
            if found is not None:
                return True, record[found]
        if name.lower() == "eventprocessedutctime" and "EventEnqueuedUtcTime" in self.metadata:
            return True, self.metadata["EventEnqueuedUtcTime"]  # no input says it: the arrival time stands in
        return False, None


@dataclass(frozen=True)
class SourcePolicy:
    """The watermark policy of an input: the kind of its source, and the percentile it is at (11.2, 11.6)."""

    kind: str = ""
    percentile: int | None = None

    @staticmethod
    def read(text: str) -> SourcePolicy:
        kind, at, percent = text.partition("at percentile ")
        percentile = int(percent) if at else 100 if kind.strip() == "tracking subscription" else None
        return SourcePolicy(kind.strip(), percentile)


@dataclass(frozen=True)
class Settings:
    """Durations in ticks; None is unlimited.

    stamps: what stamps the rows of a step or output (11.4).
    panes: percentages of the early panes of a step or output (11.6).
    watermarks: the policy by input, `*` for all others.
    """

    late: int | None = None
    out_of_order: int = 0
    drop: bool = False
    early: int | None = 300 * SECOND
    level: tuple[int, int] = (1, 2)
    drops_failing_rows: bool = False
    stamps: dict[str, str] = field(default_factory=dict[str, str])
    panes: dict[str, list[int]] = field(default_factory=dict[str, Any])
    watermarks: dict[str, str] = field(default_factory=dict[str, str])

    def of_input(self, name: str) -> SourcePolicy:
        """What is chosen for an input."""
        chosen = {key.lower(): text for key, text in self.watermarks.items()}
        return SourcePolicy.read(chosen.get(name.lower(), chosen.get("*", "")))

    @staticmethod
    def read(given: dict[str, Any] | None) -> Settings:
        given = dict(given or {})
        level = str(given.pop("compatibility_level", "1.2"))
        chosen = given.pop("watermarks", {})
        settings = Settings(
            late=duration(given.pop("late_arrival", "none")),
            out_of_order=duration(given.pop("out_of_order", "0s")) or 0,
            drop={"adjust": False, "drop": True}[given.pop("policy", "adjust").lower()],
            early=duration(given.pop("early_arrival", "300s")),
            level=(int(level[0]), int(level[2])),
            drops_failing_rows={"stop": False, "drop": True}[given.pop("on_error", "stop").lower()],
            panes={name.lower(): percents for name, percents in given.pop("early_panes", {}).items()},
            stamps={name.lower(): text for name, text in given.pop("output_timestamps", {}).items()},
            watermarks={"*": chosen} if isinstance(chosen, str) else chosen,
        )
        for limit in ("javascript_seconds", "javascript_megabytes"):  # of which no row depends
            given.pop(limit, None)
        if given:
            raise OracleError(f"unknown settings: {sorted(given)}")
        return settings


def duration(text: str) -> int | None:
    """Ticks of `5s`, `500ms`, `2m`, `1h`, `1d`; None for `none`."""
    if text.lower() == "none":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)", text.strip().lower())
    if match is None:
        raise OracleError(f"no duration: {text!r}")
    scale = {"ms": SECOND // 1000, "s": SECOND, "m": 60 * SECOND, "min": 60 * SECOND}
    scale |= {"h": 3600 * SECOND, "d": 86_400 * SECOND}
    return round(float(match[1]) * scale[match[2]])


def read_event(event: dict[str, Any], settings: Settings) -> dict[str, Value] | None:
    """The event's fields as values, or None where the deserializer rejects it (5.1, 5.5)."""

    def read(value: Any) -> Value:
        if isinstance(value, bool):
            return value if settings.level >= (1, 2) else int(value)
        if isinstance(value, int) and not LEAST_BIGINT <= value <= MOST_BIGINT:
            raise OverflowError(value)
        if isinstance(value, str) and settings.level == (1, 0):
            return instant_of_text(value) or value
        if isinstance(value, list):
            return [read(item) for item in value]
        if isinstance(value, dict):
            names = [name.lower() if settings.level == (1, 0) else name for name in value]
            if len(set(names)) < len(names):
                raise OverflowError("two fields equal but for case")
            return dict(zip(names, map(read, value.values()), strict=True))
        return value

    try:
        return read({name: item for name, item in event.items() if name not in ("_arrival", "_partition")})
    except OverflowError:
        return None


class Watermark:
    """Late and out-of-order rule of one partition, or of one substream in it."""

    def __init__(self) -> None:
        self.latest = self.watermark = -(10**30)

    def place(
        self, time: int, arrival: int, settings: Settings, percentile: int, counts: Counter[str]
    ) -> int | None:
        """The event's System.Timestamp(), or None when it is dropped. Every comparison is strict.

        percentile: the watermark at a percentile. What is later is late, whatever else it is (11.6); the
            watermark of the events is what it would be without a percentile.
        """
        late = settings.late is not None and arrival - time > settings.late
        if late and not settings.drop:
            time = arrival - (settings.late or 0)
        if late and settings.drop:
            counts["LateInputEvents"] += 1
            return None
        counts["LateInputEvents"] += late or time < percentile
        out_of_order, before = time < self.watermark, self.watermark
        self.latest = max(self.latest, time)
        self.watermark = max(self.watermark, self.latest - settings.out_of_order)
        if time < percentile and settings.drop:
            return None
        counts["DroppedOrAdjustedEvents"] += out_of_order
        if out_of_order and settings.drop:
            return None
        return max(time, before, percentile)

    def rise(self, floor: int) -> None:
        self.watermark = max(self.watermark, floor)


def ingest(
    events: Sequence[dict[str, Any]],
    name: str,
    number: int,
    settings: Settings,
    timestamp: Callable[[Row], Value] | None,
    substream: Callable[[Row], list[Value]] | None,
    accept: Callable[[dict[str, Value]], dict[str, Value] | None],
    counts: Counter[str],
) -> list[Row]:
    """The rows of input `number`: its events in the order listed, each through the policies of 1.5.

    Within a partition arrival never decreases (1.1): an earlier one counts as the newest before it.
    counts: the late and the out-of-order ones are added (9.1).
    """
    source = settings.of_input(name) if timestamp is not None else SourcePolicy()
    if source.kind == "ingress time":
        timestamp = None
    if source.kind == "static set of time-ordered logs":
        settings = replace(settings, late=None, early=None, out_of_order=0)
    if source.kind == "dynamic set of time-ordered logs":
        settings = replace(settings, out_of_order=0)
    if source.kind == "tracking subscription":
        settings = replace(settings, out_of_order=10**30)
    timed: dict[int, list[watermarks.Timed]] = {}
    newest: dict[int, int] = {}
    marks: dict[Any, Watermark] = {}
    floors: dict[int, int] = {}
    offsets: dict[int, int] = {}
    rows: list[Row] = []
    percents = sorted({percent for each in settings.panes.values() for percent in each})
    for place, event in enumerate(events):
        partition = event.get("_partition", 0)
        offset = offsets[partition] = offsets.get(partition, -1) + 1
        values = read_event(event, settings)
        values = None if values is None else accept(values)
        if values is None:
            continue
        given = instant_of_text(event["_arrival"]) if event.get("_arrival") is not None else None
        row = Row(values, metadata={"PartitionId": partition, EVENT_ID: event_id(name, partition, place)})
        if timestamp is None:
            arrival = time = newest[partition] = max(
                (given or UNKNOWN_ARRIVAL).ticks, newest.get(partition, 0)
            )
        else:
            try:
                at = timestamp(row)
                keys = substream(row) if substream else []
            except OracleError:
                if not settings.drops_failing_rows:
                    raise
                continue
            at = instant_of_text(at) if isinstance(at, str) else at
            arrives = given or (at if isinstance(at, Instant) else UNKNOWN_ARRIVAL)
            arrival = newest[partition] = max(arrives.ticks, newest.get(partition, 0))
            early = (
                settings.early is not None and isinstance(at, Instant) and at.ticks - arrival > settings.early
            )
            usable = at.ticks if isinstance(at, Instant) and not early and None not in keys else None
            timed.setdefault(partition, []).append((usable, arrival))
            row.early = {percent: watermarks.at_percentile(timed[partition], percent) for percent in percents}
            if not isinstance(at, Instant) or None in keys:
                continue
            if settings.late is not None:
                floors[partition] = max(floors.get(partition, 0), arrival - settings.late)
            if early:
                continue
            mark = marks.setdefault((partition, *map(identity, keys)), Watermark())
            percentile = -(10**30)
            if source.percentile is not None:
                percentile = watermarks.at_percentile(timed[partition], source.percentile)
            if source.kind.startswith("static") and at.ticks < mark.watermark:
                raise OracleError("a log is not in order")
            time = mark.place(at.ticks, arrival, settings, percentile, counts)
            if time is None:
                continue
            mark.rise(floors.get(partition, mark.watermark))
        row.time, row.order = time, (time, arrival, number, partition, offset)
        row.metadata["EventEnqueuedUtcTime"] = row.metadata["BlobLastModifiedUtcTime"] = Instant(arrival)
        rows.append(row)
    return in_order(rows)


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row.order)
