"""From runs to figures: rates without start-up, ratios within a round, medians over the rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from measure import Measured
from scenarios import Bar, BatchWindow, Scenario


@dataclass(frozen=True, slots=True)
class Round:
    """What one entrant did in one round: a small and a large run, or a single one (batches, or stopped).

    events: how many the large run has more than the small one; all of a single run.
    """

    events: int
    large: Measured
    small: Measured | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one entrant; every list has one value a round.

    rates: events/s, start-up taken out; infinite in a round whose large run took no longer than the small
    one, which says that there were too few events. finished: False if a run was stopped at its limit, so
    that the rate is an upper bound.
    """

    rates: tuple[float, ...]
    peaks_mib: tuple[float, ...]
    cpu_seconds_per_million: tuple[float, ...]
    batch_seconds: tuple[float, ...]
    finished: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bar, what was measured for it, and whether that is enough."""

    bar: Bar
    value: float
    reached: bool


def figures_of(rounds: Sequence[Round], batches: BatchWindow | None) -> Figures:
    return Figures(
        rates=tuple(rate(each) for each in rounds),
        peaks_mib=tuple(each.large.peak_mib for each in rounds),
        cpu_seconds_per_million=tuple(cpu_seconds(each) / each.events * 1e6 for each in rounds),
        batch_seconds=tuple(
            median(counted)
            for each in rounds
            if batches is not None and (counted := counted_batches(each.large, batches))
        ),
        finished=all(each.large.finished for each in rounds),
    )


def rate(each: Round) -> float:
    """The events the large run has more, over the seconds it took more; the start-up of both is the same.

    >>> rate(Round(9_000_000, Measured(30.0, 0, 0), Measured(12.0, 0, 0)))
    500000.0
    """
    seconds = each.large.seconds - (each.small.seconds if each.small is not None else 0.0)
    return each.events / seconds if seconds > 0 else math.inf


def cpu_seconds(each: Round) -> float:
    return each.large.cpu_seconds - (each.small.cpu_seconds if each.small is not None else 0.0)


def counted_batches(run: Measured, batches: BatchWindow) -> list[float]:
    """Seconds of the batches that count: not the first ones, nor what closes at the end of the input."""
    first = batches.events * batches.skipped
    last = batches.events * (batches.skipped + batches.counted)
    return [each.seconds for each in run.batches if first < each.events <= last + batches.events // 2]


def ratio(bar: Bar, ours: Figures, other: Figures | None) -> float:
    """The median over rounds of the figure the bar is about; NaN when there is none.

    A round is compared with itself: what disturbed the machine then disturbed both.
    """
    if bar.kind == "batch":
        return median(ours.batch_seconds) if ours.batch_seconds else math.nan
    assert other is not None, "only bars of seconds stand alone"
    match bar.kind:
        case "rate":
            pairs = zip(ours.rates, other.rates, strict=False)
        case "cost":
            pairs = zip(other.rates, ours.rates, strict=False)
        case "memory":
            pairs = zip(ours.peaks_mib, other.peaks_mib, strict=False)
        case "evenness":
            pairs = zip(ours.batch_seconds, other.batch_seconds, strict=False)
    found = [mine / theirs for mine, theirs in pairs]
    return median(found) if found else math.nan


def verdicts(scenario: Scenario, figures: Mapping[str, Figures]) -> list[Verdict]:
    """Every bar whose entrants were measured, on enough events to tell."""
    ours = figures.get(scenario.entrants[0].name)
    found: list[Verdict] = []
    for bar in scenario.bars:
        if ours is None or (bar.against and bar.against not in figures):
            continue
        value = ratio(bar, ours, figures.get(bar.against))
        if math.isfinite(value) and value > 0:
            found.append(Verdict(bar, value, bar.reached(value)))
    return found
