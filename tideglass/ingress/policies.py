"""The three event-ordering policies, applied to a chunk of one input partition at once (`asa.md` 1.4, 1.5).

By the rule of `asa.md` 1.5 every event moves the watermark of the next one, but only through two running
maxima: that of the times which count (less the tolerance: the watermark the events make) and that of
the arrivals (less the late tolerance: the floor). So a chunk is two prefix scans and no loop:

    floor_i     = max(floor_{i-1}, arrival_i - late)                  one for all substreams
    counted_i   = max(event_i, arrival_i - late)                      unless dropped as early or late
    events_i    = max(events_{i-1}, counted_i - out_of_order)         one a substream
    watermark_i = max(events_i, floor_i)
    timestamp_i = max(counted_i, watermark_{i-1})                     or dropped, if that raises it

Our own policies (`plan.source_watermarks`) may raise the watermark to a percentile of the events in flight
before an event (`ingress.percentile_watermark`); a tracking subscription has that in place of events_i.
An event before that percentile is late (`asa.md` 11.6), one before the other two is out of order.

An event the out-of-order policy drops or raises may stay in the second scan: it is earlier than the
watermark, so less the tolerance it cannot move it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Bytes, Ints, Mask, pc
from tideglass.core.time import BEFORE_ALL_TICKS, LAST_TICKS, ORIGIN_TICKS
from tideglass.ingress.decisions import Counters, Decision
from tideglass.ingress.partition_time import Ingress, ahead
from tideglass.ingress.percentile_watermark import Arrivals, early_watermarks, watermark_at_percentile
from tideglass.plan.policy_settings import Policies, SourceKind


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The watermark before and after each event; of its substream, if there are any.

    event_watermark_*: the part that the events make, without the floor.
    BEFORE_ALL_TICKS stands for none yet.
    """

    watermark_before_ticks: Ints
    watermark_after_ticks: Ints
    event_watermark_before_ticks: Ints
    event_watermark_after_ticks: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """A chunk after the policies: one entry per event, in the order of the chunk.

    system_timestamp_ticks: BEFORE_ALL_TICKS where the event was dropped.
    arrival_time_ticks: the arrivals, raised where they ran backwards.
    decision: of each event.
    counters: of the chunk.
    ingress: the state after the chunk; its counters include those of the chunk.
    trace: the watermarks around each event, where they were asked for.
    early_watermarks_ticks: a row for each percentage of early panes: the watermark that each event met; None
        without early panes, or without events.
    """

    system_timestamp_ticks: Ints
    arrival_time_ticks: Ints
    decision: Bytes
    counters: Counters
    ingress: Ingress
    trace: Trace | None = None
    early_watermarks_ticks: Ints | None = None

    @property
    def kept(self) -> Mask:
        """True where the event is passed on."""
        return self.decision < Decision.DROPPED_EARLY


class UnorderedLog(Exception):
    """An event of a log that is promised to ascend is earlier than one before it.

    place: in the chunk.
    event_time_ticks: its time.
    newest_ticks: the newest time before it.
    """

    def __init__(self, place: int, event_time_ticks: int, newest_ticks: int) -> None:
        super().__init__(f"event {place} has the time {event_time_ticks}, after one of {newest_ticks}")
        self.place = place
        self.event_time_ticks = event_time_ticks
        self.newest_ticks = newest_ticks


def apply_policies(
    policies: Policies,
    ingress: Ingress,
    arrival_time_ticks: Ints,
    event_time_ticks: Ints | None = None,
    *,
    valid: Mask | None = None,
    substreams: pa.DictionaryArray | None = None,
    trace: bool = False,
) -> Decided:
    """Give every event of a chunk its system timestamp, or drop it, and move the watermark on.

    The events are of one partition and follow those of `ingress`; how they are cut into chunks does not
    matter. An arrival that runs backwards is raised to the newest before it, and counted.

    valid: False where TIMESTAMP BY gave NULL or no datetime. Such an event, as one outside the years
    1 to 9999 or with a NULL key, is dropped, but its arrival counts, as that of an early one does (A-03).
    substreams: the OVER key of each event as canonical text; None without OVER.
    trace: keep the watermark before and after each event.

    Without TIMESTAMP BY an event is stamped with its arrival. It is raised to the watermark, and counted as
    out of order, only if it arrived earlier than estimated in an idle period.

    Raises ValueError for arrays that do not fit each other or arrivals no datetime can name, UnorderedLog for
    an event that is out of order in a static set of time-ordered logs.
    """
    _check(policies, arrival_time_ticks, event_time_ticks, valid, substreams)
    arrival = np.maximum(np.maximum.accumulate(arrival_time_ticks), ingress.last_arrival_ticks)
    if policies.application_time and event_time_ticks is not None:
        event = event_time_ticks
        good = (event >= ORIGIN_TICKS) & (event <= LAST_TICKS)
        if valid is not None:
            good &= valid
        event = np.where(good, event, arrival)  # any datetime: keeps differences inside int64
        drop, out_of_order_ticks = policies.drop, policies.out_of_order_ticks
        early = _beyond(event - arrival, policies.early_ticks)
        late = _beyond(arrival - event, policies.late_ticks)
    else:
        event, good = arrival, np.ones(len(arrival), dtype=np.bool_)
        drop, out_of_order_ticks = False, 0
        early = late = np.zeros(len(arrival), dtype=np.bool_)
    in_flight = ingress.in_flight
    keyed = np.ones(len(arrival), dtype=np.bool_)
    if substreams is not None:
        if substreams.dictionary.null_count:  # the other form of NULL in an encoded array
            substreams = pc.dictionary_encode(substreams.cast(pa.string()))
        keyed = np.asarray(pc.is_valid(substreams))
    counted = good & keyed & ~early
    arrivals = Arrivals(arrival, event, counted)
    if policies.application_time:
        in_flight = in_flight.after(arrivals)
    met_ticks = None
    if policies.early_percents and len(arrival):
        met_ticks = early_watermarks(policies.early_percents, ingress, arrivals)
    late &= counted
    time = event
    if late.any():
        time = np.where(late, arrival - (policies.late_ticks or 0), event)
        if drop:
            counted = counted & ~late  # not in place: those dropped as late are in flight all the same

    floor_before, floor_after = _floors(arrival, ingress.floor_ticks, policies.floor_lag_ticks)
    floor_end_ticks = int(floor_after[-1]) if len(arrival) else ingress.floor_ticks
    own = np.where(counted, time - out_of_order_ticks, BEFORE_ALL_TICKS)
    if policies.source is SourceKind.TRACKING:
        own = np.full_like(own, BEFORE_ALL_TICKS)
    if substreams is None:
        own_after = np.maximum(np.maximum.accumulate(own), ingress.event_watermark_ticks)
        own_before = _shifted(own_after, ingress.event_watermark_ticks)
        state = replace(
            ingress.raised(floor_end_ticks),
            event_watermark_ticks=int(own_after[-1]) if len(own) else ingress.event_watermark_ticks,
        )
    else:
        own_before, own_after, state = _scan_substreams(own, substreams, ingress, floor_end_ticks)

    watermark_before = np.maximum(own_before, floor_before)
    out_of_order = counted & (time < watermark_before)
    late_by_tolerance = int(np.count_nonzero(late))
    if policies.percentile is not None and policies.application_time and len(arrival):
        percentile = watermark_at_percentile(policies.percentile, ingress, arrivals)
        state = replace(state, percentile_watermark_ticks=int(percentile[-1]))
        own_before, own_after = np.maximum(own_before, percentile), np.maximum(own_after, percentile)
        watermark_before = np.maximum(watermark_before, percentile)
        late |= counted & (time < percentile)
    if policies.source is SourceKind.STATIC_LOGS and out_of_order.any():
        place = int(out_of_order.argmax())
        raise UnorderedLog(place, int(time[place]), int(watermark_before[place]))
    decision = np.zeros(len(arrival), dtype=np.uint8)
    decision[late] = Decision.DROPPED_LATE if drop else Decision.ADJUSTED_LATE
    if drop:
        decision[out_of_order & ~late] = Decision.DROPPED_OUT_OF_ORDER  # the late step comes first
    else:
        decision[out_of_order] = Decision.ADJUSTED_OUT_OF_ORDER
        decision[out_of_order & late] = Decision.ADJUSTED_BOTH
    decision[early] = Decision.DROPPED_EARLY
    decision[~keyed] = Decision.DROPPED_NULL_KEY
    decision[~good] = Decision.DROPPED_BAD_TIMESTAMP
    counters = Counters.of(
        decision,
        arrivals_raised=int(np.count_nonzero(arrival != arrival_time_ticks)),
        beyond_percentile=int(np.count_nonzero(late)) - late_by_tolerance,
    )
    kept = decision < Decision.DROPPED_EARLY
    return Decided(
        system_timestamp_ticks=np.where(kept, np.maximum(time, watermark_before), BEFORE_ALL_TICKS),
        arrival_time_ticks=arrival,
        decision=decision,
        counters=counters,
        ingress=replace(
            state,
            last_arrival_ticks=int(arrival[-1]) if len(arrival) else ingress.last_arrival_ticks,
            counters=ingress.counters + counters,
            in_flight=in_flight,
            early_watermarks_ticks=ingress.early_watermarks_ticks
            if met_ticks is None
            else tuple(met_ticks[:, -1].tolist()),
        ),
        early_watermarks_ticks=met_ticks,
        trace=Trace(watermark_before, np.maximum(own_after, floor_after), own_before, own_after)
        if trace
        else None,
    )


def estimated_arrival_ticks(ingress: Ingress, elapsed_ticks: int, started_ticks: int | None) -> int | None:
    """The arrival time of an event that arrived now, after `elapsed_ticks` of idle time.

    Idle time counts from the last event, or from `started_ticks` in a partition that has had none; None
    without either.
    """
    if ingress.last_arrival_ticks != BEFORE_ALL_TICKS:
        return ingress.last_arrival_ticks + elapsed_ticks
    return None if started_ticks is None else started_ticks + elapsed_ticks


def idle_until(policies: Policies, ingress: Ingress, until_ticks: int) -> Ingress:
    """The state in an idle period, with the arrival time estimated at `until_ticks`."""
    if policies.floor_lag_ticks is None:
        return ingress
    return ingress.raised(until_ticks - policies.floor_lag_ticks)


def _check(
    policies: Policies,
    arrival: Ints,
    event: Ints | None,
    valid: Mask | None,
    substreams: pa.DictionaryArray | None,
) -> None:
    if policies.application_time and event is None:
        raise ValueError("with TIMESTAMP BY every event needs an event time")
    if not policies.application_time and substreams is not None:
        raise ValueError("substreams need TIMESTAMP BY")
    if policies.percentile is not None and substreams is not None:
        raise ValueError("the percentiles are of a partition, not of its substreams")
    for name, column in (("event times", event), ("valid flags", valid), ("substream keys", substreams)):
        if column is not None and len(column) != len(arrival):
            raise ValueError(f"{len(column)} {name} for {len(arrival)} arrival times")
    if len(arrival) and not ORIGIN_TICKS <= int(arrival.min()) <= int(arrival.max()) <= LAST_TICKS:
        raise ValueError("an arrival time is outside the years 1 to 9999")


def _beyond(distance_ticks: Ints, limit_ticks: int | None) -> Mask:
    """Strictly beyond the limit: an event exactly on it is not (`asa.md` 1.4)."""
    if limit_ticks is None:
        return np.zeros(len(distance_ticks), dtype=np.bool_)
    return distance_ticks > limit_ticks


def _shifted(after_ticks: Ints, first_ticks: int) -> Ints:
    """The value before each event: the one after the event before it."""
    before_ticks = np.empty_like(after_ticks)
    before_ticks[1:] = after_ticks[:-1]
    before_ticks[:1] = first_ticks
    return before_ticks


def _floors(arrival: Ints, first_ticks: int, lag_ticks: int | None) -> tuple[Ints, Ints]:
    """The partition's floor before and after each event; its own arrival counts from `after` on.

    Whether an event meets its own arrival's floor is not asked: after the late step it does not precede it.
    """
    if lag_ticks is None:
        after_ticks = np.full(len(arrival), first_ticks, dtype=np.int64)
    else:
        after_ticks = np.maximum(arrival - lag_ticks, first_ticks)
    return _shifted(after_ticks, first_ticks), after_ticks


def _scan_substreams(
    own: Ints, substreams: pa.DictionaryArray, ingress: Ingress, floor_end_ticks: int
) -> tuple[Ints, Ints, Ingress]:
    """The scan of `apply_policies` per substream; also the state after it."""
    texts = substreams.dictionary.cast(pa.string())
    fresh = texts.filter(pc.invert(pc.is_in(texts, value_set=ingress.substreams))).unique().drop_null()
    keys = pa.concat_arrays([ingress.substreams, fresh])
    none = len(keys)  # the place of events without a key: none of them counts
    start = np.full(none + 1, BEFORE_ALL_TICKS, dtype=np.int64)
    start[: len(ingress.substreams)] = ingress.substream_watermark_ticks
    place_of_text = np.append(pc.index_in(texts, value_set=keys).fill_null(none).to_numpy(), none)
    codes = place_of_text[substreams.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)]

    # The sort is stable, so within a key events stay in the order of arrival; 16-bit keys are radix-sorted.
    order = np.argsort(codes.astype(np.uint16) if none < 2**16 else codes, kind="stable")
    codes_sorted = codes[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = codes_sorted[1:] != codes_sorted[:-1]
    start_sorted = start[codes_sorted]
    after_sorted = np.maximum(_segmented_maxima(own[order], first), start_sorted)
    before_sorted = np.where(first, start_sorted, _shifted(after_sorted, BEFORE_ALL_TICKS))
    before, after = np.empty_like(own), np.empty_like(own)
    before[order], after[order] = before_sorted, after_sorted

    end = start.copy()
    end[codes_sorted] = after_sorted  # the last of a key is written last
    held, held_ticks = ahead(keys, end[:none], floor_end_ticks)
    state = replace(
        ingress, floor_ticks=floor_end_ticks, substreams=held, substream_watermark_ticks=held_ticks
    )
    return before, after, state


def _segmented_maxima(values: Ints, first: Mask) -> Ints:
    """Running maxima that start anew where `first`; BEFORE_ALL_TICKS is less than all.

    Each segment is lifted above the one before it, so that one scan serves all. Where the lift would
    leave int64 (many keys, far apart in time), the values' ranks are scanned in their place.
    """
    present = values != BEFORE_ALL_TICKS
    if not present.any():
        return values
    low_ticks, high_ticks = int(values[present].min()), int(values.max())
    segment = np.cumsum(first)
    if (high_ticks - low_ticks + 2) * (int(segment[-1]) + 1) < 2**63:
        height = high_ticks - low_ticks + 2
        level = np.where(present, values - (low_ticks - 1), 0) + segment * height
        level = np.maximum.accumulate(level) - segment * height
        return np.where(level > 0, level + (low_ticks - 1), BEFORE_ALL_TICKS)
    distinct, rank = np.unique(values, return_inverse=True)
    lift = segment * len(distinct)
    return distinct[np.maximum.accumulate(rank + lift) - lift]
