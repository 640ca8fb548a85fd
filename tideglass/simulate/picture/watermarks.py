"""The watermark picture of a run: the progress of each partition, and how late it was (`asa.md` 1.8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tideglass.core.arrays import Floats, Ints
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.simulate.picture import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_POINTS = 3_000  # of one line
MOST_PARTITIONS = 12  # with a line of their own; the merged line always counts all


@dataclass(frozen=True, slots=True, eq=False)
class WatermarkSeries:
    """What one partition looked like at ascending moments: arrays of ticks of one length.

    at_ticks: the clock, that is the wall clock of a live run or the newest arrival anywhere of a replay.
    A watermark or arrival at BEFORE_ALL_TICKS means none yet.
    """

    at_ticks: Ints
    newest_arrival_ticks: Ints
    watermark_ticks: Ints


def draw_watermarks(
    series: Mapping[str, WatermarkSeries], path: str | Path, title: str = "Watermarks by partition"
) -> None:
    """Write newest arrival and watermark of each partition over time, with the delay below.

    The broad grey line is the merged watermark, the minimum over all partitions; one that has none yet
    holds it back. Raises OutputError for a suffix other than .svg and .png.
    """
    from matplotlib.lines import Line2D

    path = canvas.checked(path)
    shown = canvas.figure(10, 7.6)
    upper, lower = shown.subplots(2, 1, sharex=True, height_ratios=(5, 3))
    for axes in (upper, lower):
        canvas.style(axes)
    upper.set_title(title, loc="left", fontsize=14, color=canvas.INK, fontweight="bold", pad=12)
    filled = {name: s for name, s in series.items() if len(s.at_ticks)}
    if not filled:
        upper.text(0.5, 0.5, "no watermarks", ha="center", color=canvas.SOFT, transform=upper.transAxes)
        canvas.save(shown, path)
        return
    first = min(int(s.at_ticks[0]) for s in filled.values())
    last = max(int(s.at_ticks[-1]) for s in filled.values())
    merged_at, merged = merge(filled)
    unit, unit_ticks = canvas.unit_of(_largest_delay(filled, merged_at, merged))
    handles: list[Any] = []
    for place, (name, s) in enumerate(list(filled.items())[:MOST_PARTITIONS]):
        color = canvas.SERIES[place % len(canvas.SERIES)]
        dashes = "-" if place < len(canvas.SERIES) else (0, (4, 2))
        _steps(upper, s.at_ticks, s.newest_arrival_ticks, color, lw=0.9, alpha=0.55, ls=(0, (1, 1.5)))
        _steps(upper, s.at_ticks, s.watermark_ticks, color, lw=1.7, ls=dashes)
        _delay(lower, s.at_ticks, s.watermark_ticks, unit_ticks, color, lw=1.4, ls=dashes)
        handles.append(Line2D([], [], color=color, lw=1.7, ls=dashes, label=f"watermark of {name}"))
    if len(filled) > 1:
        _steps(upper, merged_at, merged, canvas.INK, lw=6, alpha=0.22, zorder=1.5)
        _delay(lower, merged_at, merged, unit_ticks, canvas.INK, lw=6, alpha=0.22, zorder=1.5)
        name = f"merged: minimum over all {len(filled)}"
        handles.append(Line2D([], [], color=canvas.INK, lw=6, alpha=0.22, label=name))
    handles.append(Line2D([], [], color=canvas.SOFT, lw=1, ls=(0, (1, 1.5)), label="newest arrival"))
    canvas.time_axis(lower.xaxis, first, last)
    low, high = upper.get_ylim()
    canvas.time_axis(upper.yaxis, int(low * canvas.TICKS_PER_DAY), int(high * canvas.TICKS_PER_DAY))
    upper.set_ylabel("newest arrival, watermark", color=canvas.INK, fontsize=10.5)
    lower.set_ylabel(f"watermark delay ({unit})", color=canvas.INK, fontsize=10.5)
    lower.set_xlabel("arrival time", color=canvas.INK, fontsize=10.5)
    lower.set_ylim(bottom=0)
    shown.align_ylabels()
    canvas.legend(shown, handles, columns=3)
    canvas.save(shown, path)


def merge(series: Mapping[str, WatermarkSeries]) -> tuple[Ints, Ints]:
    """Moments of all partitions, and the minimum of their watermarks at each (`asa.md` 1.6)."""
    at = np.unique(np.concatenate([s.at_ticks for s in series.values()]))
    least = np.full(len(at), np.iinfo(np.int64).max)
    for s in series.values():
        place = np.searchsorted(s.at_ticks, at, side="right") - 1
        least = np.minimum(least, np.where(place >= 0, s.watermark_ticks[place], BEFORE_ALL_TICKS))
    return at, least


def _largest_delay(series: Mapping[str, WatermarkSeries], merged_at: Ints, merged: Ints) -> int:
    pairs = [(merged_at, merged), *((s.at_ticks, s.watermark_ticks) for s in series.values())]
    return max(int(np.max((at - w)[w > BEFORE_ALL_TICKS], initial=0)) for at, w in pairs)


def _known(values: Ints) -> npt.NDArray[np.intp]:
    return canvas.evenly(np.flatnonzero(values > BEFORE_ALL_TICKS), MOST_POINTS)


def _steps(axes: Axes, at: Ints, values: Ints, color: str, **style: Any) -> None:
    places = _known(values)
    axes.plot(
        canvas.days(at[places]), canvas.days(values[places]), color=color, drawstyle="steps-post", **style
    )


def _delay(axes: Axes, at: Ints, values: Ints, unit_ticks: int, color: str, **style: Any) -> None:
    """The delay grows with the clock and falls when the watermark moves: a saw, not steps."""
    places = _known(values)
    if len(places) == 0:
        return
    before: Floats = (at[places][1:] - values[places][:-1]) / unit_ticks
    after: Floats = (at[places] - values[places]) / unit_ticks
    x = np.repeat(canvas.days(at[places]), 2)[1:]
    y = np.empty(2 * len(places) - 1)
    y[0::2], y[1::2] = after, before
    axes.plot(x, y, color=color, **style)
