"""What the pictures share: colours, a figure, axes that show times, and how they are saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tideglass.core.arrays import Floats, Ints
from tideglass.core.errors import OutputError
from tideglass.core.time import (
    LAST_TICKS,
    ORIGIN_TICKS,
    TICKS_PER_DAY,
    TICKS_PER_HOUR,
    TICKS_PER_MINUTE,
    TICKS_PER_SECOND,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


INK, SOFT, GRID = "#22303c", "#6b7a88", "#e3e8ec"
WATERMARK, TOLERANCE = "#1f5fa8", "#9cc4ea"
LATE, EARLY, OUT_OF_ORDER, DROPPED = "#d9822b", "#c23b3b", "#8a4fb5", "#c23b3b"
#: One colour a substream or partition; distinct for colour-blind readers too (Okabe and Ito).
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9")

SUFFIXES = (".svg", ".png")


def figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that needs no display."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=110, facecolor="white", layout="constrained")


def checked(path: str | Path) -> Path:
    """The path of a picture. Raises OutputError for a suffix no picture is written for."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise OutputError(f"{path}: a picture is written as {' or '.join(SUFFIXES)}, by the file's suffix")
    return path


def save(shown: Figure, path: Path) -> None:
    """Write the file; the same picture is the same bytes."""
    from matplotlib import rc_context

    svg = path.suffix.lower() == ".svg"
    with rc_context({"svg.hashsalt": "tideglass", "svg.fonttype": "none"}):
        shown.savefig(path, metadata={"Date": None} if svg else {})


def nameable(first_ticks: int, last_ticks: int) -> tuple[int, int]:
    """The part of a span that dates can name, a little within the years 1 to 9999."""
    low, high = ORIGIN_TICKS + TICKS_PER_SECOND, LAST_TICKS - TICKS_PER_SECOND
    return min(max(first_ticks, low), high - TICKS_PER_SECOND), max(
        min(last_ticks, high), low + TICKS_PER_SECOND
    )


def days(ticks: Ints) -> Floats:
    """Ticks as matplotlib counts time: days since 1970, as doubles; good to some microseconds."""
    return ticks / TICKS_PER_DAY


def style(axes: Axes) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(SOFT)
    axes.tick_params(colors=SOFT, labelsize=9)
    axes.set_axisbelow(True)
    axes.grid(color=GRID, linewidth=0.7)


def subtitle(axes: Axes, text: str) -> None:
    """Small print between title and axes; long lines must not squeeze the axes."""
    from matplotlib.text import Text

    small: Text = axes.text(
        0, 1.018, text, transform=axes.transAxes, fontsize=9.5, color=SOFT, va="bottom", linespacing=1.35
    )
    small.set_in_layout(False)


def time_axis(axis: Axis, first_ticks: int, last_ticks: int) -> None:
    """Mark an axis in days with times of day, finer or with the date as the span needs."""
    from matplotlib.dates import AutoDateLocator, num2date
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    span = last_ticks - first_ticks
    if span > 4 * TICKS_PER_DAY:  # whole days, evenly apart over the ends of months too
        axis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
        pattern = "%m-%d" if span < 300 * TICKS_PER_DAY else "%Y-%m-%d"
    else:
        axis.set_major_locator(AutoDateLocator(minticks=4, maxticks=9))
        if span > TICKS_PER_DAY:
            pattern = "%m-%d\n%H:%M"
        elif span > 5 * TICKS_PER_MINUTE:
            pattern = "%H:%M"
        else:
            pattern = "%H:%M:%S" if span > 5 * TICKS_PER_SECOND else "%H:%M:%S.%f"

    def shown(day: float, _: int | None = None) -> str:
        # A locator may offer a mark outside the axis, in a year that no date can name.
        return num2date(day).strftime(pattern) if ORIGIN_TICKS <= day * TICKS_PER_DAY < LAST_TICKS else ""

    axis.set_major_formatter(FuncFormatter(shown))


def unit_of(span_ticks: int) -> tuple[str, int]:
    """A unit in which a span makes a handy number."""
    for name, size in (("hours", TICKS_PER_HOUR), ("minutes", TICKS_PER_MINUTE)):
        if span_ticks >= 3 * size:
            return name, size
    return "seconds", TICKS_PER_SECOND


def evenly(places: npt.NDArray[np.intp], most: int) -> npt.NDArray[np.intp]:
    """At most `most` of the places, spread evenly over them, the first and the last included."""
    if len(places) <= most:
        return places
    return places[np.linspace(0, len(places) - 1, most).astype(np.intp)]


def legend(shown: Figure, handles: list[Any], columns: int) -> None:
    """A legend below everything else, where it hides nothing."""
    if handles:
        shown.legend(
            handles=handles,
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            fontsize=9,
            labelcolor=INK,
            handlelength=1.8,
            columnspacing=1.6,
        )
