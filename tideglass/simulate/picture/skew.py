"""The skew picture of a simulation: event time across, arrival time upwards (`asa.md` 1.9, 11).

A mark's distance from the diagonal is the skew of its event. Where the arrivals span so much time that
everything would lie on the diagonal, the picture is sheared: across goes event time less arrival.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tideglass.core.arrays import Floats, Ints
from tideglass.core.time import BEFORE_ALL_TICKS, TICKS_PER_SECOND
from tideglass.ingress.decisions import Decision
from tideglass.simulate.picture import canvas
from tideglass.simulate.picture.labels import Obstacle, along, arrange
from tideglass.simulate.simulation import Simulation, in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Places = npt.NDArray[np.intp]

MOST_DOTS = 4_000
MOST_ADJUSTED = 400
MOST_DROPPED = 400
MOST_CORNERS = 3_000  # of a watermark's line
MOST_TEETH = 400  # of the same line when sheared: it is a saw then, and more teeth are a blot
SLICES = 160  # of the span, for which a blot shows its range and its middle
MOST_LABELS = 40
MOST_KEYS = len(canvas.SERIES)  # substreams with a colour and a line of their own
SHEAR_FROM = 12  # arrivals span this many times the skew

_ADJUSTED = {
    Decision.ADJUSTED_LATE: ("late, raised to the late limit", canvas.LATE),
    Decision.ADJUSTED_OUT_OF_ORDER: ("out of order, raised to W", canvas.OUT_OF_ORDER),
    Decision.ADJUSTED_BOTH: ("late and out of order, raised to W", "#b03a6e"),
}
_DROPPED = {
    Decision.DROPPED_EARLY: "dropped, early",
    Decision.DROPPED_LATE: "dropped, late",
    Decision.DROPPED_OUT_OF_ORDER: "dropped, out of order",
    Decision.DROPPED_NULL_KEY: "dropped, no key",
}


def draw(simulation: Simulation, path: str | Path, title: str = "Events through the time policies") -> None:
    """Write the picture of a simulation as SVG or PNG, by the path's suffix.

    Large simulations are thinned out, and the picture states it. Raises OutputError for another suffix.
    """
    path = canvas.checked(path)
    shown = canvas.figure(10, 8.4)
    axes = shown.add_subplot()
    canvas.style(axes)
    axes.set_title(title, loc="left", fontsize=14, color=canvas.INK, fontweight="bold", pad=40)
    if len(simulation.events) == 0:
        axes.text(0.5, 0.5, "no events", ha="center", color=canvas.SOFT, transform=axes.transAxes)
        axes.set_xticks([])
        axes.set_yticks([])
    else:
        _Skew(simulation, shown, axes).draw()
    canvas.save(shown, path)


@dataclass(frozen=True, slots=True)
class _Line:
    """A watermark's stepped line: its name, colour, and its value after each event."""

    name: str
    color: str
    after_ticks: Ints
    newest_ticks: Ints  # the tolerance's other edge: the newest time that made it


class _Skew:
    """The drawing of one simulation that has events."""

    def __init__(self, simulation: Simulation, shown: Figure, axes: Axes) -> None:
        self.simulation, self.figure, self.axes = simulation, shown, axes
        self.arrival: Ints = simulation.placed.arrival_time_ticks
        self.timestamp: Ints = simulation.placed.system_timestamp_ticks
        self.decision = simulation.placed.decision
        times = (e.event_time_ticks for e in simulation.events)
        if simulation.policies.application_time:
            self.event: Ints = np.array([BEFORE_ALL_TICKS if t is None else t for t in times], dtype=np.int64)
        else:
            self.event = self.arrival
        self.kept = simulation.placed.kept
        self.dropped = ~self.kept & (self.decision != Decision.DROPPED_BAD_TIMESTAMP)
        policies = simulation.policies
        self._tolerance_ticks = policies.out_of_order_ticks if policies.application_time else 0
        self.lines = self._watermarks()
        self.handles: list[Any] = []
        self._frame()

    # ------------------------------------------------------------------ the frame

    def _frame(self) -> None:
        """Choose what part of time is shown, and whether it is sheared."""
        first, last = int(self.arrival[0]), int(self.arrival[-1])
        core = self.timestamp[self.kept] - self.arrival[self.kept]
        skew = int(core.max() - core.min()) if len(core) else 0
        policies = self.simulation.policies
        tolerances = policies.out_of_order_ticks + (policies.early_ticks or 0) + (policies.late_ticks or 0)
        seen = max(skew, min(tolerances, 4 * skew))
        self.sheared = policies.application_time and 0 < seen * SHEAR_FROM < last - first

        def across(times: Ints, at: Ints) -> Ints:
            return times - at if self.sheared else times

        inner = [across(self.timestamp[self.kept], self.arrival[self.kept])]
        if len(inner[0]) == 0:
            inner = [across(self.arrival, self.arrival)]
        for line in self.lines:
            known = line.after_ticks > BEFORE_ALL_TICKS
            inner.append(across(line.after_ticks[known], self.arrival[known]))
        core = np.concatenate(inner)
        low, high = int(core.min()), int(core.max())
        width = max(high - low, TICKS_PER_SECOND)
        # A few events from far away must not squeeze the others: they are marked at the edge.
        moved = self.dropped | (self.kept & (self.event != self.timestamp))
        far = across(self.event[moved], self.arrival[moved])
        near = far[(far >= low - 1.5 * width) & (far <= high + 1.5 * width)]
        self.outside = len(far) - len(near)
        if len(near):
            low, high = min(low, int(near.min())), max(high, int(near.max()))
        pad = max((high - low) // 14, TICKS_PER_SECOND // 10)
        self.left_ticks, self.right_ticks = low - pad, high + pad
        if not self.sheared:
            self.left_ticks, self.right_ticks = canvas.nameable(low - pad, high + pad)
        margin = (last - first) // 20
        if not self.sheared:  # few arrivals must not be stretched far beyond the skew
            margin = max(margin, (high - low + 2 * pad - (last - first)) // 4)
        self.bottom_ticks, self.top_ticks = canvas.nameable(first - margin, last + margin)
        self.unit, self.unit_ticks = canvas.unit_of(self.right_ticks - self.left_ticks)

    def x(self, times: Ints, at: Ints) -> Floats:
        """Where a time goes across, of something that arrived at `at`; at the edge if it is far outside."""
        if self.sheared:
            return np.clip(times - at, self.left_ticks, self.right_ticks) / self.unit_ticks
        return canvas.days(np.clip(times, self.left_ticks, self.right_ticks))

    def y(self, at: Ints) -> Floats:
        return canvas.days(at)

    # ------------------------------------------------------------------ the parts

    def draw(self) -> None:
        self._axes()
        self._bands()
        for line in self.lines:
            self._watermark(line)
        counts = [part for part in (self._dots(), self._adjusted(), self._crosses()) if part]
        if any(" of " in part for part in counts):
            counts[0] = f"shown: {counts[0]}"
        bad = int((self.decision == Decision.DROPPED_BAD_TIMESTAMP).sum())
        if bad:
            counts.append(f"{bad:,} without a timestamp not shown")
        if self.outside:
            counts.append(f"{self.outside:,} far ones at the edge")
        subtitle = f"{in_words(self.simulation.policies)}\n{', '.join(counts)}"
        canvas.subtitle(self.axes, subtitle)
        canvas.legend(self.figure, self.handles, columns=3)
        if len(self.simulation.events) <= MOST_LABELS:
            self._labels()

    def _axes(self) -> None:
        axes = self.axes
        edges = np.array([self.left_ticks, self.right_ticks])
        if self.sheared:
            axes.set_xlim(*(edges / self.unit_ticks))
            axes.set_xlabel(f"event time − arrival time ({self.unit})", color=canvas.INK, fontsize=10.5)
        else:
            axes.set_xlim(*canvas.days(edges))
            canvas.time_axis(axes.xaxis, self.left_ticks, self.right_ticks)
            axes.set_xlabel("event time", color=canvas.INK, fontsize=10.5)
        axes.set_ylim(*canvas.days(np.array([self.bottom_ticks, self.top_ticks])))
        canvas.time_axis(axes.yaxis, self.bottom_ticks, self.top_ticks)
        axes.set_ylabel("arrival time", color=canvas.INK, fontsize=10.5)

    def _border(self, lag_ticks: int) -> Floats:
        """Where event time is `lag_ticks` before arrival, at the bottom and at the top.

        Unlike `x` this does not keep to the frame, which would bend a slanted line.
        """
        if self.sheared:
            return np.full(2, -lag_ticks / self.unit_ticks)
        return canvas.days(np.array([self.bottom_ticks, self.top_ticks]) - lag_ticks)

    def _borders(self) -> list[int]:
        policies = self.simulation.policies
        limits = (policies.late_ticks, None if policies.early_ticks is None else -policies.early_ticks)
        return [0, *(lag for lag in limits if lag is not None and policies.application_time)]

    def _bands(self) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        y = self.y(np.array([self.bottom_ticks, self.top_ticks]))
        scale = self.unit_ticks if self.sheared else canvas.TICKS_PER_DAY
        left = np.full(2, min(self.left_ticks, self.bottom_ticks - 10**13) / scale)
        right = np.full(2, max(self.right_ticks, self.top_ticks + 10**13) / scale)
        policies = self.simulation.policies
        if policies.application_time:
            if (late := policies.late_ticks) is not None:
                self.axes.fill_betweenx(
                    y, left, self._border(late), color=canvas.LATE, alpha=0.10, lw=0, zorder=0
                )
                self.axes.plot(self._border(late), y, color=canvas.LATE, lw=1, alpha=0.7, zorder=1)
                self.handles.append(Patch(color=canvas.LATE, alpha=0.16, lw=0, label="late"))
            if (early := policies.early_ticks) is not None:
                at_early = self._border(-early)
                self.axes.fill_betweenx(y, at_early, right, color=canvas.EARLY, alpha=0.08, lw=0, zorder=0)
                self.axes.plot(at_early, y, color=canvas.EARLY, lw=1, alpha=0.6, zorder=1)
                self.handles.append(Patch(color=canvas.EARLY, alpha=0.13, lw=0, label="too early"))
        self.axes.plot(self._border(0), y, color=canvas.SOFT, lw=1.1, ls=(0, (5, 4)), zorder=1)
        ideal = "no skew: event time = arrival"
        self.handles.append(Line2D([], [], color=canvas.SOFT, lw=1.1, ls=(0, (5, 4)), label=ideal))

    def _watermarks(self) -> list[_Line]:
        """The lines to draw: the partition's watermark, or that of each substream, or the floor of many."""
        simulation, trace = self.simulation, self.simulation.trace

        def line(name: str, color: str, own: Ints, floor: Ints) -> _Line:
            newest = np.where(own > BEFORE_ALL_TICKS, own + self._tolerance_ticks, BEFORE_ALL_TICKS)
            return _Line(name, color, np.maximum(own, floor), newest)

        nothing = np.full(len(self.arrival), BEFORE_ALL_TICKS, dtype=np.int64)
        if not simulation.substreams:
            after = trace.watermark_after_ticks
            return [line("watermark W", canvas.WATERMARK, trace.event_watermark_after_ticks, after)]
        lag = simulation.policies.floor_lag_ticks
        floor = nothing if lag is None else self.arrival - lag
        names = list(dict.fromkeys(e.key for e in simulation.events if e.key is not None))
        if len(names) > MOST_KEYS:
            if lag is None:
                return []
            return [line(f"floor of W for all {len(names):,} keys", canvas.WATERMARK, nothing, floor)]
        keys = np.array([names.index(e.key) if e.key is not None else -1 for e in simulation.events])
        lines: list[_Line] = []
        for place, name in enumerate(names):
            own = np.where(keys == place, trace.event_watermark_after_ticks, BEFORE_ALL_TICKS)
            since = np.maximum.accumulate(keys == place)  # before, it is nobody's but the floor
            of_key = np.where(since, floor, BEFORE_ALL_TICKS)
            lines.append(line(f"W of {name}", canvas.SERIES[place], np.maximum.accumulate(own), of_key))
        return lines

    def _stairs(self, after: Ints) -> tuple[Ints, Ints]:
        """Corners of a stepped line: it stays at its value until an event arrives, then jumps."""
        known = np.flatnonzero(after > BEFORE_ALL_TICKS)
        if len(known) == 0:
            return after[:0], after[:0]
        changed = known[np.append(True, after[known][1:] != after[known][:-1])]
        corners = canvas.evenly(changed, MOST_CORNERS)
        values, ats = np.repeat(after[corners], 2), np.repeat(self.arrival[corners], 2)
        return values, np.append(ats[1:], self.arrival[-1] if self.sheared else self.top_ticks)

    def _watermark(self, line: _Line) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        values, ats = self._stairs(line.after_ticks)
        self.handles.insert(self.lines.index(line), Line2D([], [], color=line.color, lw=1.9, label=line.name))
        if self.sheared and len(values) > 2 * MOST_TEETH:
            self._blot(line)
            return
        x, y = self.x(values, ats), self.y(ats)
        few = len(self.arrival) <= 200
        if few and len(self.lines) == 1:
            self.axes.plot(x, y, color="white", lw=4, zorder=3, solid_joinstyle="miter")
        width, above = (1.9, 3.1) if few else (1.4, 5.5)
        self.axes.plot(x, y, color=line.color, lw=width, zorder=above, solid_joinstyle="miter")
        if len(self.lines) > 1 or not self._tolerance_ticks:
            return
        places = canvas.evenly(np.flatnonzero(line.newest_ticks > BEFORE_ALL_TICKS), MOST_CORNERS)
        if len(places):
            at = np.append(np.repeat(self.arrival[places], 2)[1:], self.top_ticks)
            low = np.repeat(line.after_ticks[places], 2)
            high = np.maximum(np.repeat(line.newest_ticks[places], 2), low)
            edges = self.x(low, at), self.x(high, at)
            self.axes.fill_betweenx(self.y(at), *edges, color=canvas.TOLERANCE, alpha=0.35, lw=0, zorder=2)
            self.handles.append(
                Patch(color=canvas.TOLERANCE, alpha=0.45, lw=0, label="out-of-order tolerance")
            )

    def _blot(self, line: _Line) -> None:
        """A watermark with too many teeth to draw: its range in each slice of the span, and its middle."""
        known = np.flatnonzero(line.after_ticks > BEFORE_ALL_TICKS)
        # Just before an event the distance of its watermark is largest; just after, smallest.
        far = self.x(line.after_ticks[known[:-1]], self.arrival[known[1:]])
        near = self.x(line.after_ticks[known[1:]], self.arrival[known[1:]])
        slices = [part for part in np.array_split(np.arange(len(far)), SLICES) if len(part)]
        y = self.y(self.arrival[known[1:]])
        at = np.array([float(y[part].mean()) for part in slices])
        low = np.array([float(far[part].min()) for part in slices])
        high = np.array([float(near[part].max()) for part in slices])
        middle = np.array([float(np.median(near[part])) for part in slices])
        self.axes.fill_betweenx(at, low, high, color=line.color, alpha=0.18, lw=0, zorder=3)
        self.axes.plot(middle, at, color=line.color, lw=1.9, zorder=5.5)

    def _colors(self, places: Places, otherwise: str) -> list[str]:
        if len(self.lines) < 2:
            return [otherwise] * len(places)
        of_key = {line.name.removeprefix("W of "): line.color for line in self.lines}
        return [of_key.get(self.simulation.events[p].key or "", otherwise) for p in places.tolist()]

    def _dots(self) -> str:
        from matplotlib.lines import Line2D

        every = np.flatnonzero(self.decision == Decision.ACCEPTED)
        places = canvas.evenly(every, MOST_DOTS)
        few = len(places) <= 200
        self.axes.scatter(
            self.x(self.timestamp[places], self.arrival[places]),
            self.y(self.arrival[places]),
            s=46 if few else 7,
            c=self._colors(places, canvas.INK),
            edgecolors="white" if few else "none",
            linewidths=1.2 if few else 0,
            alpha=1 if few else 0.5,
            zorder=5,
        )
        if len(every):
            mark = Line2D([], [], marker="o", ls="", color=canvas.INK, ms=6, mec="white", label="as is")
            self.handles.append(mark)
        return _count_text(len(places), len(every), "as is")

    def _adjusted(self) -> str:
        from matplotlib.lines import Line2D

        total = shown = 0
        share = np.isin(self.decision, list(_ADJUSTED)).sum()
        for decision, (name, color) in _ADJUSTED.items():
            every = np.flatnonzero(self.decision == decision)
            if len(every) == 0:
                continue
            places = canvas.evenly(
                every, max(1, MOST_ADJUSTED * len(every) // max(int(share), MOST_ADJUSTED))
            )
            total, shown = total + len(every), shown + len(places)
            old = self.x(self.event[places], self.arrival[places])
            new = self.x(self.timestamp[places], self.arrival[places])
            y = self.y(self.arrival[places])
            few = share <= 60
            if few:
                for x0, x1, at in zip(old, new, y, strict=True):
                    arrow = {"arrowstyle": "-|>,head_width=0.22,head_length=0.45", "color": color, "lw": 1.6}
                    arrow |= {"shrinkA": 4.5, "shrinkB": 4.5}
                    self.axes.annotate("", (x1, at), (x0, at), arrowprops=arrow, zorder=4.5)
            else:
                self.axes.hlines(y, old, new, color=color, lw=0.7, alpha=0.4, zorder=4)
            size = (42, 42) if few else (6, 8)
            self.axes.scatter(
                old,
                y,
                s=size[0],
                facecolors="white",
                edgecolors=color,
                linewidths=1.5 if few else 0.7,
                zorder=4.8,
            )
            self.axes.scatter(new, y, s=size[1], c=color, marker="o" if few else ">", linewidths=0, zorder=5)
            self.handles.append(Line2D([], [], marker=">", color=color, lw=1.6, ms=6, label=name))
        return _count_text(shown, total, "adjusted")

    def _crosses(self) -> str:
        from matplotlib.lines import Line2D

        every = np.flatnonzero(self.dropped)
        if len(every) == 0:
            return ""
        places = canvas.evenly(every, MOST_DROPPED)
        few = len(places) <= 200
        self.axes.scatter(
            self.x(self.event[places], self.arrival[places]),
            self.y(self.arrival[places]),
            s=62 if few else 14,
            marker="x",
            c=canvas.DROPPED,
            linewidths=2.2 if few else 0.8,
            zorder=5,
        )
        kinds = [name for decision, name in _DROPPED.items() if (self.decision == decision).any()]
        name = kinds[0] if len(kinds) == 1 else "dropped"
        self.handles.append(
            Line2D([], [], marker="x", ls="", color=canvas.DROPPED, ms=7, mew=2.2, label=name)
        )
        return _count_text(len(places), len(every), "dropped")

    def _labels(self) -> None:
        """Name the events, once everything else has its place."""
        self.figure.draw_without_rendering()
        per_point = self.figure.dpi / 72

        def on_canvas(x: Floats, y: Floats) -> list[tuple[float, float]]:
            points = self.axes.transData.transform(np.column_stack([x, y])) / per_point
            return [(float(a), float(b)) for a, b in points]

        visible = np.flatnonzero(self.kept | self.dropped)
        y = self.y(self.arrival[visible])
        marks = on_canvas(self.x(self.event[visible], self.arrival[visible]), y)
        ends = [
            end if kept else mark
            for mark, end, kept in zip(
                marks,
                on_canvas(self.x(self.timestamp[visible], self.arrival[visible]), y),
                self.kept[visible].tolist(),
                strict=True,
            )
        ]
        obstacles = [Obstacle((a - 5, b - 5, a + 5, b + 5), 8.0) for a, b in {*marks, *ends}]
        for mark, end in zip(marks, ends, strict=True):
            if mark != end:
                obstacles += along([mark, end], 2, 6.0)
        for line in self.lines:
            values, ats = self._stairs(line.after_ticks)
            obstacles += along(on_canvas(self.x(values, ats), self.y(ats)), 1.5, 2.0)
        for lag in self._borders():
            low = np.array([self.bottom_ticks, self.top_ticks])
            obstacles += along(on_canvas(self._border(lag), self.y(low)), 1.5, 0.6)
        names = [f"#{self.simulation.events[p].label}" for p in visible.tolist()]
        frame = self.axes.get_window_extent()
        inside = (frame.x0 / per_point, frame.y0 / per_point, frame.x1 / per_point, frame.y1 / per_point)
        centres = arrange(marks, [5.6 * len(name) + 2 for name in names], 10.5, obstacles, inside)
        for name, (mx, my), (cx, cy) in zip(names, marks, centres, strict=True):
            spot = self.axes.transData.inverted().transform((mx * per_point, my * per_point))
            self.axes.annotate(
                name,
                (float(spot[0]), float(spot[1])),
                xytext=(cx - mx, cy - my),
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=9,
                color=canvas.INK,
                zorder=6,
            )


def _count_text(shown: int, total: int, name: str) -> str:
    if shown < total:
        return f"{shown:,} of {total:,} {name}"
    return f"{total:,} {name}" if total else ""
