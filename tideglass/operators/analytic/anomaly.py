"""Detection of anomalies: how probable a value is after those before it (`asa.md` 4.3, decision 12).

A value is judged by the density of at most `history_size` earlier ones, each a Gaussian as wide as their
standard deviation. A change point is found by the power martingale over the probabilities of as many
values up to the current one. All of it is a function of the values in a frame, summed in their order: it
depends neither on batches nor on what else is in a chunk.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Floats, Ints, Mask
from tideglass.core.errors import Span
from tideglass.core.iso import flat
from tideglass.core.sql import query, quoted
from tideglass.core.types import type_of
from tideglass.operators.aggregates.arguments import NUMERIC, json_sql, refuse, refused_rows, split
from tideglass.operators.analytic.lookback import Sorted
from tideglass.plan.calls import AnomalyModel

#: A bet on improbable values: the martingale is multiplied by e * p ** (e - 1).
EPSILON = 0.1
#: No value is less probable, so that the logarithm of one does not decide alone.
LEAST_PROBABILITY = 1e-8
#: Values that agree are taken to vary a little, as 1e-6 is of no account in a measurement.
LEAST_WIDTH = 1e-6
#: What stands for a missing event: it would have been as expected.
_LOG_HALF = math.log(0.5)
_LOG_MOST = math.log(np.finfo(np.float64).max)
#: So many pairs of a value and one of its history are held at once.
_PAIRS_AT_ONCE = 1 << 20

_erfc: Any = np.frompyfunc(math.erfc, 1, 1)


def numbers(rows: pa.Table, name: str, function: str, span: Span) -> tuple[Floats, Mask]:
    """A column as floats, and which of them are there.

    Raises EvaluationError for a value that is no number.
    """
    type_ = type_of(rows.schema.field(name))
    families = split(quoted(name), type_, NUMERIC)
    if families.refused is not None:
        value = json_sql(quoted(name), type_)
        refuse(rows, families.refused, value, f"1st argument of function {function}", NUMERIC, span)
    if families.doubles is None:
        return np.zeros(rows.num_rows), np.zeros(rows.num_rows, np.bool_)
    column = flat(query(f"SELECT {families.doubles} AS x FROM rows", rows=rows)["x"])
    known = np.asarray(column.is_valid())
    return np.asarray(column.fill_null(0.0)), known


def no_numbers(rows: pa.Table, name: str) -> Ints:
    """The places of the values of a column that are no numbers."""
    return refused_rows(rows, [split(quoted(name), type_of(rows.schema.field(name)), NUMERIC).refused])


def detect(
    model: AnomalyModel, values: Floats, logs: Floats, ordered: Sorted, length_ticks: int, before: int
) -> tuple[pa.Array, Floats]:
    """The result record of each row from `before` on as JSON text, NULL where the row does not match.

    logs: of the rows before, the logarithm of their probability; it is returned with those of the others.
    """
    own = ordered.matching[ordered.order]
    sorted_places = np.flatnonzero(own)
    places = ordered.order[sorted_places]
    in_reach = (ordered.ranks - own)[ordered.frame_starts(length_ticks)[sorted_places]]
    ends = np.arange(len(places))
    firsts = np.maximum(in_reach, ends - model.history_size)
    wanted = places >= before
    series = values[places]
    probable = np.full(int(wanted.sum()), 0.5)
    firsts, ends = firsts[wanted], ends[wanted]
    sizes = ends - firsts
    taught = np.flatnonzero(sizes)
    at_once = max(1, _PAIRS_AT_ONCE // max(1, int(sizes.max(initial=0))))
    for start in range(0, len(taught), at_once):
        some = taught[start : start + at_once]
        probable[some] = _tails(series, firsts[some], ends[some], model.side)
    probable = np.clip(probable, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    trained = 2 * sizes >= model.history_size
    logs = logs.copy()
    logs[places[wanted]] = np.log(probable)
    scores, odd = probable, probable < 1 - model.confidence / 100
    if model.change_point:
        firsts = np.maximum(in_reach[wanted], ends + 1 - model.history_size)
        scores, odd = _martingales(logs[places], firsts, ends + 1, model)
    flags = (trained & odd).astype(np.int64)
    texts = np.full(ordered.times_ticks.shape[0], None, object)
    texts[places[wanted]] = [
        f'{{"IsAnomaly":{flag},"Score":{score!r}}}'
        for flag, score in zip(flags.tolist(), scores.tolist(), strict=True)
    ]
    return pa.array(texts[before:], pa.string()), logs


def _frames(firsts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The places of all frames one after the other, and where each frame starts among them."""
    sizes = ends - firsts
    starts = np.cumsum(sizes) - sizes
    return np.arange(int(sizes.sum())) + np.repeat(firsts - starts, sizes), starts


def _tails(series: Floats, firsts: Ints, ends: Ints, side: str) -> Floats:
    """How probable a value as far out as that at each end is, by the density of the frame before it."""
    sizes = ends - firsts
    places, starts = _frames(firsts, ends)
    history, news = series[places], series[ends]
    # by a power of two, which is exact: the square of a large value would not be a number
    largest = np.maximum(np.maximum.reduceat(np.abs(history), starts), np.abs(news))
    shrink = -np.maximum(np.frexp(largest)[1], 0)
    history, news = np.ldexp(history, np.repeat(shrink, sizes)), np.ldexp(news, shrink)
    # from the first value on, so that values that agree have a deviation of exactly zero
    shifted = history - np.repeat(history[starts], sizes)
    means = np.add.reduceat(shifted, starts) / sizes
    variances = np.add.reduceat((shifted - np.repeat(means, sizes)) ** 2, starts) / sizes
    widths = math.sqrt(2) * np.where(sizes == 1, np.ldexp(1.0, shrink), np.sqrt(variances))
    widths = np.maximum(widths, np.ldexp(LEAST_WIDTH, shrink))
    signs = np.where(side == "dips", -1.0, 1.0)
    if side == "spikesanddips":  # the nearer tail, for its probability is the more precise one
        signs = np.where(news - history[starts] >= means, 1.0, -1.0)
    with np.errstate(over="ignore"):  # infinitely many deviations away is as good as many
        away = (np.repeat(news, sizes) - history) * np.repeat(signs * np.ones(len(news)), sizes)
        away = away / np.repeat(widths, sizes)
    tails = np.add.reduceat(_erfc(away).astype(np.float64), starts) / (2 * sizes)
    return np.minimum(tails, 1 - tails) if side == "spikesanddips" else tails


def _martingales(logs: Floats, firsts: Ints, ends: Ints, model: AnomalyModel) -> tuple[Floats, Mask]:
    """The power martingale over the probabilities of each frame, and whether it exceeds its threshold.

    The threshold is what it would be if every value were as improbable as the confidence asks for.
    """
    places, starts = _frames(firsts, ends)
    if not len(starts):
        return np.zeros(0), np.zeros(0, np.bool_)
    missing = model.history_size - (ends - firsts)
    asked = math.log(max(1 - model.confidence / 100, LEAST_PROBABILITY))
    beyond = np.add.reduceat(logs[places] - asked, starts) + missing * (_LOG_HALF - asked)
    total = np.add.reduceat(logs[places], starts) + missing * _LOG_HALF
    grown = model.history_size * math.log(EPSILON) + (EPSILON - 1) * total
    return np.exp(np.minimum(grown, _LOG_MOST)), beyond < 0
