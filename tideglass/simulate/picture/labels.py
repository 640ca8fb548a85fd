"""Where the label of each event goes: beside its mark, clear of the other marks, lines and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

#: Left, bottom, right, top, in points on the canvas.
Box = tuple[float, float, float, float]

_DIRECTIONS = ((1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0))
_DISTANCES = (5.0, 9.0, 14.0, 20.0)
_STEP = 0.05  # a nearer place wins among equals


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something a label had better not cover.

    cost: how much better
    """

    box: Box
    cost: float


def overlap(a: Box, b: Box) -> float:
    """The area two boxes share."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return width * height if width > 0 and height > 0 else 0.0


def arrange(
    marks: Sequence[tuple[float, float]],
    widths: Sequence[float],
    height: float,
    obstacles: Sequence[Obstacle],
    inside: Box,
) -> list[tuple[float, float]]:
    """The centre of each label; the first mark chooses first, each takes the cheapest place left."""
    placed: list[Obstacle] = []
    centres: list[tuple[float, float]] = []
    for (x, y), width in zip(marks, widths, strict=True):
        best: tuple[float, tuple[float, float], Box] | None = None
        for rank, (distance, (dx, dy)) in enumerate((d, v) for d in _DISTANCES for v in _DIRECTIONS):
            centre = (x + dx * (distance + width / 2), y + dy * (distance + height / 2 - (2 if dx else 0)))
            box = (
                centre[0] - width / 2,
                centre[1] - height / 2,
                centre[0] + width / 2,
                centre[1] + height / 2,
            )
            outside = width * height - overlap(box, inside)
            cost = rank * _STEP + outside * 50 + sum(o.cost * overlap(box, o.box) for o in obstacles)
            cost += sum(o.cost * overlap(box, o.box) for o in placed)
            if best is None or cost < best[0]:
                best = cost, centre, box
        assert best is not None  # there are always candidates
        centres.append(best[1])
        placed.append(Obstacle(best[2], 20.0))
    return centres


def along(points: Sequence[tuple[float, float]], thickness: float, cost: float) -> list[Obstacle]:
    """Obstacles that cover a line through the points, in pieces so that slanted ones fit closely."""
    found: list[Obstacle] = []
    for (x0, y0), (x1, y1) in pairwise(points):
        straight = abs(x1 - x0) < 1 or abs(y1 - y0) < 1
        pieces = 1 if straight else max(1, int(max(abs(x1 - x0), abs(y1 - y0)) / 6))
        for i in range(pieces):
            a, b = i / pieces, (i + 1) / pieces
            xs = sorted((x0 + (x1 - x0) * a, x0 + (x1 - x0) * b))
            ys = sorted((y0 + (y1 - y0) * a, y0 + (y1 - y0) * b))
            box = (xs[0] - thickness, ys[0] - thickness, xs[1] + thickness, ys[1] + thickness)
            found.append(Obstacle(box, cost))
    return found
