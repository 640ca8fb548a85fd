"""The geospatial functions of `asa.md` 4.8 by exact arithmetic in the plane, and Vincenty's formula.

Polygons are single rings; those compared with other polygons are convex, so one edge tells them apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from .values import OracleError, Value, number_argument

Place = tuple[Fraction, Fraction]


def closed(kind: str, places: Sequence[Any]) -> list[Place]:
    """The places of a geometry; the ends of a ring that differ by rounding are one."""
    exact = [(Fraction(x), Fraction(y)) for x, y in places]
    if kind == "Polygon":
        written = [[Fraction(str(number)) for number in end] for end in (places[0], places[-1])]
        if any(abs(a - b) > Fraction(1, 10**9) for a, b in zip(*written, strict=True)):
            raise OracleError("the ring is open")
        exact[-1] = exact[0]
    return exact


def geometry(value: Value) -> tuple[str, list[Place]]:
    """The type and the places of a GeoJSON record or of WKT."""
    if isinstance(value, dict) and value.get("type") in ("Point", "LineString", "Polygon"):
        kind, given = str(value["type"]), value.get("coordinates")
        places: Any = {"Point": [given], "LineString": given, "Polygon": given[0]}[kind]  # type: ignore[index]
        return kind, closed(kind, places)
    found = re.fullmatch(r"\s*(POINT|LINESTRING|POLYGON)\s*\(+([^()]*)\)+\s*", str(value), re.I)
    if found is None:
        raise OracleError(f"no geometry: {value!r}")
    kind = {"POINT": "Point", "LINESTRING": "LineString", "POLYGON": "Polygon"}[found[1].upper()]
    return kind, closed(kind, [pair.split() for pair in found[2].split(",")])


def of_kind(value: Value, *kinds: str) -> list[Place]:
    kind, places = geometry(value)
    if kind not in kinds:
        raise OracleError(f"no {' or '.join(kinds)}: {value!r}")
    return places


def turn(a: Place, b: Place, c: Place) -> int:
    """1 if c lies left of the way from a to b, -1 right, 0 on it."""
    area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    return (area > 0) - (area < 0)


def between(a: Place, b: Place, c: Place) -> bool:
    """Whether c, in line with a and b, lies between them."""
    return min(a[0], b[0]) <= c[0] <= max(a[0], b[0]) and min(a[1], b[1]) <= c[1] <= max(a[1], b[1])


def edges(places: Sequence[Place]) -> list[tuple[Place, Place]]:
    return list(pairwise(places))


def meet(a: Place, b: Place, c: Place, d: Place) -> bool:
    if turn(a, b, c) * turn(a, b, d) < 0 and turn(c, d, a) * turn(c, d, b) < 0:
        return True
    ends = ((a, b, c), (a, b, d), (c, d, a), (c, d, b))
    return any(turn(*three) == 0 and between(*three) for three in ends)


def counter_clockwise(ring: Sequence[Place]) -> bool:
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in edges(ring)) > 0


def holds_place(ring: Sequence[Place], place: Place) -> bool:
    """Whether a place lies inside of a ring, not on it: a ray crosses the ring an odd number of times."""
    if any(turn(a, b, place) == 0 and between(a, b, place) for a, b in edges(ring)):
        return False
    x, y = place
    crossed = sum(
        (a[1] > y) != (b[1] > y) and x < a[0] + (y - a[1]) * (b[0] - a[0]) / (b[1] - a[1])
        for a, b in edges(ring)
    )
    return (crossed % 2 == 1) == counter_clockwise(ring)


def convex(ring: Sequence[Place]) -> list[Place]:
    around = [*ring, ring[1]]
    if any(turn(*around[i : i + 3]) < 0 for i in range(len(ring) - 1)):
        raise OracleError("the oracle compares convex polygons only")
    return list(ring)


def holds_all(outer: Sequence[Place], inner: Sequence[Place]) -> bool:
    return all(turn(a, b, place) >= 0 for a, b in edges(outer) for place in inner)


def share_area(left: Sequence[Place], right: Sequence[Place]) -> bool:
    apart = [
        all(turn(a, b, place) <= 0 for place in other)
        for ring, other in ((left, right), (right, left))
        for a, b in edges(ring)
    ]
    return not any(apart)


def st_within(value: Value, polygon: Value) -> Value:
    kind, places = geometry(value)
    ring = of_kind(polygon, "Polygon")
    if kind == "Point":
        return int(holds_place(ring, places[0]))
    return int(holds_all(convex(ring), convex(of_kind(value, "Polygon"))))


def st_overlaps(left: Value, right: Value) -> Value:
    a, b = convex(of_kind(left, "Polygon")), convex(of_kind(right, "Polygon"))
    return int(share_area(a, b) and not holds_all(a, b) and not holds_all(b, a))


def st_intersects(left: Value, right: Value) -> Value:
    a, b = of_kind(left, "LineString"), of_kind(right, "LineString")
    return int(any(meet(*one, *other) for one in edges(a) for other in edges(b)))


def createpoint(latitude: Value, longitude: Value) -> Value:
    coordinates = [float(number_argument(longitude)), float(number_argument(latitude))]
    return {"type": "Point", "coordinates": coordinates}


def createlinestring(*points: Value) -> Value:
    places = [of_kind(point, "Point")[0] for point in points]
    pairs = edges(places)
    crossed = [
        (i, j) for i in range(len(pairs)) for j in range(i + 2, len(pairs)) if meet(*pairs[i], *pairs[j])
    ]
    if crossed:
        raise OracleError("the line overlaps itself")
    return {"type": "LineString", "coordinates": [[float(x), float(y)] for x, y in places]}


def createpolygon(*points: Value) -> Value:
    places = [of_kind(point, "Point")[0] for point in points]
    ring = closed("Polygon", [(float(x), float(y)) for x, y in places])
    return {"type": "Polygon", "coordinates": [[[float(x), float(y)] for x, y in ring]]}


def st_distance(left: Value, right: Value) -> Value:
    kinds = {geometry(left)[0], geometry(right)[0]}
    if "Polygon" in kinds:
        return 0.0
    ((lon_1, lat_1),), ((lon_2, lat_2),) = of_kind(left, "Point"), of_kind(right, "Point")
    return vincenty(float(lat_1), float(lon_1), float(lat_2), float(lon_2))


def vincenty(lat_1: float, lon_1: float, lat_2: float, lon_2: float) -> float:
    """Metres along the geodesic of WGS-84 between places that are not nearly antipodal."""
    a, f = 6378137.0, 1 / 298.257223563
    b = (1 - f) * a
    u_1, u_2 = (math.atan((1 - f) * math.tan(math.radians(lat))) for lat in (lat_1, lat_2))
    difference = math.radians(lon_2 - lon_1)
    lam = difference
    square = sine = cosine = middle = sigma = 0.0
    for _ in range(200):
        east = math.cos(u_2) * math.sin(lam)
        north = math.cos(u_1) * math.sin(u_2) - math.sin(u_1) * math.cos(u_2) * math.cos(lam)
        sine = math.hypot(east, north)
        if sine == 0:
            return 0.0
        cosine = math.sin(u_1) * math.sin(u_2) + math.cos(u_1) * math.cos(u_2) * math.cos(lam)
        sigma = math.atan2(sine, cosine)
        alpha = math.cos(u_1) * math.cos(u_2) * math.sin(lam) / sine
        square = 1 - alpha**2
        middle = cosine - 2 * math.sin(u_1) * math.sin(u_2) / square if square else 0.0
        c = f / 16 * square * (4 + f * (4 - 3 * square))
        before = lam
        lam = difference + (1 - c) * f * alpha * (
            sigma + c * sine * (middle + c * cosine * (2 * middle**2 - 1))
        )
        if abs(lam - before) < 1e-15:
            break
    u = square * (a**2 - b**2) / b**2
    big_a = 1 + u / 16384 * (4096 + u * (-768 + u * (320 - 175 * u)))
    big_b = u / 1024 * (256 + u * (-128 + u * (74 - 47 * u)))
    delta = (
        big_b
        * sine
        * (
            middle
            + big_b
            / 4
            * (cosine * (2 * middle**2 - 1) - big_b / 6 * middle * (4 * sine**2 - 3) * (4 * middle**2 - 3))
        )
    )
    return b * big_a * (sigma - delta)


FUNCTIONS = {
    "createpoint": createpoint,
    "createlinestring": createlinestring,
    "createpolygon": createpolygon,
    "st_distance": st_distance,
    "st_within": st_within,
    "st_overlaps": st_overlaps,
    "st_intersects": st_intersects,
}
