"""How far back a job must read to go on as if it had never stopped (`asa.md` 7.2).

Rows from an output time on are complete when the input is read from

    output time - span of the query - early limit            of arrival time

A source can be searched by arrival time only, and the time of an event may be up to the early limit after its
arrival: hence the last term. An event that arrived earlier has a time before `output time - span`, and does
not affect what the policies decide on later events. Without TIMESTAMP BY the time of an event is its arrival
time, so the last term is 0, and a query without temporal operators reads nothing again. A watermark at a
percentile of the events in flight is decided by those that arrived up to ten seconds before, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tideglass.core.time import TICKS_PER_SECOND
from tideglass.plan.nodes import Plan
from tideglass.plan.policy_settings import IN_FLIGHT_SECONDS, Policies
from tideglass.plan.spans import input_spans_ticks
from tideglass.plan.topology import Reader, Topology


@dataclass(frozen=True, slots=True)
class ReadBack:
    """How much earlier than its output a job reads one input, in ticks.

    span_ticks: the span of the query, along the longest path to an output
    early_ticks: how far after its arrival an event's time may be; None: any distance, so the input must be
        read from its beginning
    floor_lag_ticks: the distance at which the watermark of an idle partition follows the estimated arrival;
        None: it does not
    """

    span_ticks: int
    early_ticks: int | None
    floor_lag_ticks: int | None

    def read_from_ticks(self, output_from_ticks: int) -> int | None:
        """The arrival time from which on events are needed; None for all of them."""
        if self.early_ticks is None:
            return None
        return output_from_ticks - self.span_ticks - self.early_ticks

    def raised_from_ticks(self, output_from_ticks: int) -> int | None:
        """The estimated arrival from which on all events are needed, whenever they arrived.

        The watermark of an idle period that long raises their times, so that they count.
        None: idle periods raise nothing.
        """
        if self.floor_lag_ticks is None:
            return None
        return output_from_ticks - self.span_ticks + self.floor_lag_ticks


def read_backs(plan: Plan, topology: Topology, *, after_watermark: bool = False) -> Mapping[str, ReadBack]:
    """The read-back of every input the job reads.

    after_watermark: counted from the watermark of a stopped job instead of from an output time; rows
    that were still held back then may be stamped before it.
    """
    spans_ticks = input_spans_ticks(plan, with_holds=after_watermark)
    result: dict[str, ReadBack] = {}
    for name in topology.fields:
        readers = [reader for reader in topology.readers if reader.input == name]
        lags = [reader.policies.floor_lag_ticks for reader in readers]
        least = min((lag for lag in lags if lag is not None), default=None)
        result[name] = ReadBack(spans_ticks.get(name, 0), _early_ticks(readers), least)
    return result


def _early_ticks(readers: list[Reader]) -> int | None:
    limits = [_reach_ticks(reader.policies) for reader in readers if reader.policies.application_time]
    known = [limit for limit in limits if limit is not None]
    return max(known, default=0) if len(known) == len(limits) else None


def _reach_ticks(policies: Policies) -> int | None:
    """How far before an event's time others may arrive that decide on it: also those in flight with it."""
    at_percents = policies.percentile is not None or policies.early_percents
    if policies.early_ticks is None or not at_percents:
        return policies.early_ticks
    return policies.early_ticks + IN_FLIGHT_SECONDS * TICKS_PER_SECOND
