"""The watermark policies that settings choose for the inputs of a job (`asa.md` 11.2, 11.6, 11.10).

    {"toll": "at percentile 95", "gps": "tracking subscription", "*": "ingress time"}

A key names an input; `*` is every other input that is read with TIMESTAMP BY. A policy is the kind of the
source, or a percentage of the events in flight at which the watermark stands, or a tracking subscription with
one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tideglass.core.errors import ProjectError
from tideglass.core.suggest import did_you_mean
from tideglass.plan.policy_settings import Policies, SourceKind
from tideglass.plan.topology import Reader, Topology

#: The key of all inputs that are not named.
OTHERS = "*"

_PERCENTILE = re.compile(r"(?:^|\s+)at percentile (\d{1,9})(?: ?%)?$")


@dataclass(frozen=True, slots=True)
class SourceWatermark:
    """The watermark policy of an input.

    kind: of its source; None: as the service treats it.
    percentile: the share of the events in flight, 1 to 100; None: of all.
    """

    kind: SourceKind | None = None
    percentile: int | None = None

    @staticmethod
    def parse(text: str) -> SourceWatermark:
        """The policy that a text names. Raises ValueError for anything else.

        >>> SourceWatermark.parse("WATERMARK AT PERCENTILE 95").percentile
        95
        """
        words = " ".join(text.casefold().split())
        rest = words.removeprefix("watermark ")
        found = _PERCENTILE.search(rest)
        percentile = None if found is None else int(found[1])
        name = rest if found is None else rest[: found.start()]
        if percentile is not None and not 1 <= percentile <= 100:
            raise ValueError(f"the percentage is {percentile}, it must be 1 to 100")
        if found is not None and not name:
            return SourceWatermark(percentile=percentile)
        if name not in list(SourceKind):
            near = did_you_mean(name, [*(kind.value for kind in SourceKind), "at percentile 95"])
            known = ", ".join(f"'{kind}'" for kind in SourceKind)
            raise ValueError(f"{text!r} is no watermark policy; {near or f'known are {known}'}")
        kind = SourceKind(name)
        if percentile is not None and kind is not SourceKind.TRACKING:
            raise ValueError(f"a source of the kind '{kind}' has no stragglers a percentage could leave out")
        return SourceWatermark(kind, percentile)

    def applied(self, policies: Policies) -> Policies:
        """The time settings of an input with this policy. Raises ValueError where it would change nothing."""
        match self.kind:
            case None:
                if policies.out_of_order_ticks == 0:
                    raise ValueError(
                        "the out-of-order tolerance is 0, so the watermark is at the newest event already; "
                        f"set it, or choose '{SourceKind.TRACKING} at percentile {self.percentile}'"
                    )
                return replace(policies, percentile=self.percentile)
            case SourceKind.INGRESS_TIME:
                return replace(policies, source=self.kind, application_time=False)
            case SourceKind.STATIC_LOGS:
                return replace(
                    policies, source=self.kind, early_ticks=None, late_ticks=None, out_of_order_ticks=0
                )
            case SourceKind.DYNAMIC_LOGS:
                return replace(policies, source=self.kind, out_of_order_ticks=0)
            case SourceKind.TRACKING:
                percentile = self.percentile or 100
                return replace(policies, source=self.kind, out_of_order_ticks=0, percentile=percentile)


def with_source_watermarks(topology: Topology, choices: Mapping[str, str]) -> Topology:
    """The topology with the chosen watermark policy of each input.

    Raises ProjectError with all that is wrong.
    """
    if not choices:
        return topology
    problems: list[str] = []
    names = {name.casefold(): name for name in topology.fields}
    for key in choices:
        if key != OTHERS and key.casefold() not in names:
            near = did_you_mean(key, topology.fields)
            problems.append(f"settings: watermark of {key!r}: the query reads no input of this name; {near}")
    by_input = {key.casefold(): text for key, text in choices.items()}
    readers: list[Reader] = []
    for reader in topology.readers:
        text = by_input.get(reader.input.casefold())
        try:
            if text is not None:
                readers.append(_read_by(reader, SourceWatermark.parse(text)))
            elif OTHERS in by_input and reader.timestamp is not None:
                readers.append(_read_by(reader, SourceWatermark.parse(by_input[OTHERS])))
            else:
                readers.append(reader)
        except ValueError as error:
            problems.append(f"settings: watermark of {reader.input!r}: {error}")
    if problems:
        raise ProjectError("\n".join(dict.fromkeys(problem.rstrip("; ") for problem in problems)))
    return replace(topology, readers=tuple(readers))


def _read_by(reader: Reader, chosen: SourceWatermark) -> Reader:
    """The reader under a policy. Raises ValueError."""
    if reader.timestamp is None and chosen.kind is not SourceKind.INGRESS_TIME:
        raise ValueError(
            "the query reads it without TIMESTAMP BY: its events have the time of their arrival, none is late"
        )
    if reader.over:
        raise ValueError("with substreams (OVER) this is understood, not yet supported; read it without OVER")
    policies = chosen.applied(reader.policies)
    if chosen.kind is SourceKind.INGRESS_TIME:
        return replace(reader, timestamp=None, policies=policies)
    return replace(reader, policies=policies)


def without_arrival_times(choices: Mapping[str, str]) -> None:
    """Raises ProjectError for a policy that needs to know when events arrived."""
    for name, text in choices.items():
        try:
            kind = SourceWatermark.parse(text).kind
        except ValueError as error:
            raise ProjectError(f"settings: watermark of {name!r}: {error}") from None
        if kind is not SourceKind.STATIC_LOGS:
            raise ProjectError(
                f"settings: watermark of {name!r}: {text!r} needs to know when events arrived, and "
                "local files do not say it\n  hint: name their field with ArrivalTimeField, or use --input"
            )
