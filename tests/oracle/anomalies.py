"""Detection of anomalies from its definition, one event at a time (`asa.md` 4.3, decision 12)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import pvariance

from .values import OracleError, Value, number_argument

SPIKE_AND_DIP, CHANGE_POINT = "anomalydetection_spikeanddip", "anomalydetection_changepoint"
NAMES = {SPIKE_AND_DIP, CHANGE_POINT}


@dataclass(frozen=True)
class Point:
    """An event of the series: when, and what."""

    time: int
    value: Value


def number(value: Value) -> float:
    """The value as a float; a bit, and text that is no number, stop the job."""
    if isinstance(value, bool):
        raise OracleError("invalid type 'bit', only 'bigint', 'float' is allowed")
    return 0.0 if value is None else float(number_argument(value))


def result(
    name: str, points: Sequence[Point], reach: int, confidence: float, size: int, mode: str = "spikesanddips"
) -> dict[str, Value]:
    """The record for the last point."""
    numbers = [number(point.value) for point in points]

    def in_reach(place: int) -> list[int]:
        """The places of the points up to a place that are not as old as the duration there."""
        return [i for i in range(place + 1) if points[i].time > points[place].time - reach]

    def history(place: int) -> list[float]:
        return [numbers[i] for i in in_reach(place)[:-1][-size:]]

    last = len(points) - 1
    least_improbable = 1 - confidence / 100
    trained = 2 * len(history(last)) >= size
    if name == SPIKE_AND_DIP:
        p = probability(numbers[last], history(last), mode.lower())
        return {"IsAnomaly": int(trained and p < least_improbable), "Score": p}
    bets = [probability(numbers[i], history(i), mode) for i in in_reach(last)[-size:]]
    bets += [0.5] * (size - len(bets))
    grown = math.fsum(math.log(0.1) - 0.9 * math.log(p) for p in bets)
    threshold = size * (math.log(0.1) - 0.9 * math.log(max(least_improbable, 1e-8)))
    score = math.exp(grown) if grown < 709 else math.exp(math.log(1.7976931348623157e308))
    return {"IsAnomaly": int(trained and grown > threshold), "Score": score}


def probability(value: float, history: Sequence[float], mode: str) -> float:
    """The tail of the Gaussian kernel density of the history."""
    if not history:
        return 0.5
    width = 1.0
    if len(history) > 1:
        width = math.sqrt(pvariance([Fraction(x) for x in history]))
    width = max(width, 1e-6 / math.sqrt(2))
    away = [(value - x) / (width * math.sqrt(2)) for x in history]
    above = math.fsum(math.erfc(z) / 2 for z in away) / len(away)
    below = math.fsum(math.erfc(-z) / 2 for z in away) / len(away)
    p = {"spikes": above, "dips": below, "spikesanddips": min(above, below)}[mode]
    return min(max(p, 1e-8), 1 - 1e-8)
