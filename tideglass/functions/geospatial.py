"""Geospatial functions over GeoJSON records and WKT text (`asa.md` 4.8).

Places are longitude and latitude in degrees on the WGS-84 ellipsoid. Distances are geodesic; what lies in
what is decided in the plane of longitude and latitude. A ring that runs clockwise encloses the rest of the
globe. Each distinct geometry of a chunk is read once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import TYPE_CHECKING, Any

from tideglass.core.errors import EvaluationError
from tideglass.core.types import Type
from tideglass.functions.duckdb_functions import PythonFunction
from tideglass.functions.signature import ArgumentKind, ScalarSignature, Sql, scalar, template

if TYPE_CHECKING:
    import pyarrow as pa

#: What the functions take, as shapely numbers the types of geometries.
_POINTS, _LINES, _AREAS = (0,), (1, 5), (3, 6)
_LONGEST_SHOWN = 100
#: Ends of a ring this near, in degrees, are one place: they differ by rounding (a tenth of a millimetre).
_ROUNDING = Decimal("1e-9")


def _geometries(texts: Sequence[str]) -> Any:
    """The geometries of texts, ready to be asked often. Raises EvaluationError for what is none."""
    import numpy as np
    import shapely

    found = np.empty(len(texts), object)
    in_json = np.array([text.lstrip().startswith("{") for text in texts], np.bool_)
    as_array = np.array(texts, object)
    found[in_json] = shapely.from_geojson(as_array[in_json], on_invalid="ignore")
    found[~in_json] = shapely.from_wkt(as_array[~in_json], on_invalid="ignore")
    for place in np.flatnonzero(shapely.is_missing(found)).tolist():
        found[place] = _with_closed_rings(texts[place])
    for text, geometry in zip(texts, found, strict=True):
        if geometry is None or geometry.is_empty:
            raise EvaluationError(
                f"{text[:_LONGEST_SHOWN]} is no geometry: a GeoJSON record or WKT text is wanted."
            )
        if not geometry.is_valid:
            reason = shapely.is_valid_reason(geometry)
            raise EvaluationError(f"{text[:_LONGEST_SHOWN]} is no valid geometry: {reason}.")
    polygons = shapely.get_type_id(found) == 3
    clockwise = polygons & ~shapely.is_ccw(shapely.get_exterior_ring(found))
    if clockwise.any():
        found[clockwise] = shapely.difference(shapely.box(-180, -90, 180, 90), found[clockwise])
    shapely.prepare(found)
    return found


def _with_closed_rings(text: str) -> Any:
    """The geometry of a text that is none as it stands: the ends of its rings may differ by rounding.

    None if that is not what is wrong with it. Raises EvaluationError for a ring that is open.
    """
    import shapely

    if text.lstrip().startswith("{"):
        closed = _closed_json(text)
        return None if closed is None else shapely.from_geojson(closed, on_invalid="ignore")
    closed = _closed_wkt(text)
    return None if closed is None else shapely.from_wkt(closed, on_invalid="ignore")


def _closed_wkt(text: str) -> str | None:
    """The WKT of an area with its rings closed; None for other text."""
    if re.match(r"\s*(MULTI)?POLYGON\b", text, re.IGNORECASE) is None:
        return None

    def closed(ring: re.Match[str]) -> str:
        places = ring[1].split(",")
        if _is_closed(places[0].split(), places[-1].split(), text):
            places[-1] = places[0]
        return f"({','.join(places)})"

    return re.sub(r"\(([^()]*)\)", closed, text)


def _closed_json(text: str) -> str | None:
    """The GeoJSON of an area with its rings closed; None for other text."""
    try:
        record: Any = json.loads(text)
        areas: Any = [record["coordinates"]] if record["type"] == "Polygon" else record["coordinates"]
        for ring in (ring for area in areas for ring in area):
            if _is_closed(ring[0], ring[-1], text):
                ring[-1] = ring[0]
    except (ValueError, KeyError, TypeError, IndexError):
        return None
    return json.dumps(record) if record["type"] in ("Polygon", "MultiPolygon") else None


def _is_closed(first: Sequence[str | float], last: Sequence[str | float], text: str) -> bool:
    """Whether two ends of a ring are one place. Raises EvaluationError where they are not."""
    try:
        ends = [[Decimal(str(number)) for number in end] for end in (first, last)]
    except InvalidOperation:
        return False
    if len(ends[0]) != len(ends[1]):
        return False
    if any(abs(a - b) > _ROUNDING for a, b in zip(*ends, strict=True)):
        raise EvaluationError(f"{text[:_LONGEST_SHOWN]} is no geometry: a ring of it is not closed.")
    return True


def _pairs(
    function: str, left: pa.Array, right: pa.Array, allowed: tuple[tuple[int, ...], tuple[int, ...]]
) -> tuple[Any, Any, Any]:
    """Which rows have both geometries, and these. Raises EvaluationError for one of another type."""
    import numpy as np
    import pyarrow as pa
    import shapely

    from tideglass.core.iso import flat

    columns = [flat(left), flat(right)]
    known: Any = np.asarray(columns[0].is_valid()) & np.asarray(columns[1].is_valid())
    found: list[Any] = []
    for place, (column, types) in enumerate(zip(columns, allowed, strict=True), 1):
        encoded: Any = column.filter(pa.array(known)).dictionary_encode()
        distinct = _geometries(encoded.dictionary.to_pylist())
        for geometry in distinct[~np.isin(shapely.get_type_id(distinct), types)]:
            name = geometry.geom_type
            raise EvaluationError(f"{function} cannot take a {name} as its argument {place}.")
        found.append(distinct[np.asarray(encoded.indices)])
    return known, found[0], found[1]


def _column(known: Any, values: Any, type_: pa.DataType) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    whole = np.zeros(len(known), values.dtype)
    whole[known] = values
    return pa.array(whole, type_, mask=~known)


@cache
def _globe() -> Any:
    from pyproj import Geod

    return Geod(ellps="WGS84")


def _distance(left: pa.Array, right: pa.Array) -> pa.Array:
    import numpy as np
    import pyarrow as pa
    import shapely

    known, a, b = _pairs("ST_DISTANCE", left, right, (_POINTS + _AREAS, _POINTS + _AREAS))
    metres = np.zeros(len(a))
    points = (shapely.get_type_id(a) == 0) & (shapely.get_type_id(b) == 0)
    ends = [shapely.get_x(a), shapely.get_y(a), shapely.get_x(b), shapely.get_y(b)]
    for latitudes in ends[1::2]:
        for latitude in latitudes[points & (np.abs(latitudes) > 90)]:
            raise EvaluationError(f"{latitude} is no latitude: it must be from -90 to 90 degrees.")
    metres[points] = _globe().inv(*(each[points] for each in ends))[2]
    return _column(known, metres, pa.float64())


def _within(left: pa.Array, right: pa.Array) -> pa.Array:
    import pyarrow as pa
    import shapely

    known, a, b = _pairs("ST_WITHIN", left, right, (_POINTS + _AREAS, _AREAS))
    return _column(known, shapely.contains(b, a), pa.bool_()).cast(pa.int64())


def _overlaps(left: pa.Array, right: pa.Array) -> pa.Array:
    import pyarrow as pa
    import shapely

    known, a, b = _pairs("ST_OVERLAPS", left, right, (_AREAS, _AREAS))
    return _column(known, shapely.overlaps(a, b), pa.bool_()).cast(pa.int64())


def _intersects(left: pa.Array, right: pa.Array) -> pa.Array:
    import pyarrow as pa
    import shapely

    known, a, b = _pairs("ST_INTERSECTS", left, right, (_LINES, _LINES))
    return _column(known, shapely.intersects(a, b), pa.bool_()).cast(pa.int64())


def _places(points: Sequence[str], function: str) -> list[list[float]]:
    geometries = _geometries(points)
    if any(geometry.geom_type != "Point" for geometry in geometries):
        raise EvaluationError(f"{function} takes points.")
    return [[geometry.x, geometry.y] for geometry in geometries]


def _line_text(points: Sequence[str]) -> str:
    import shapely

    places = _places(points, "CreateLineString")
    if not shapely.LineString(places).is_simple:
        raise EvaluationError("The line of CreateLineString must not overlap itself.")
    return json.dumps({"type": "LineString", "coordinates": places}, separators=(",", ":"))


def _polygon_text(points: Sequence[str]) -> str:
    import shapely

    places = _places(points, "CreatePolygon")
    apart = (abs(Decimal(str(a)) - Decimal(str(b))) for a, b in zip(places[0], places[-1], strict=True))
    if max(apart) > _ROUNDING:
        raise EvaluationError("The last point of CreatePolygon must be its first.")
    places[-1] = places[0]
    if not shapely.Polygon(places).is_valid:
        raise EvaluationError(
            "The ring of CreatePolygon needs three points or more and must not cross itself."
        )
    return json.dumps({"type": "Polygon", "coordinates": [places]}, separators=(",", ":"))


def _of_points(build: Any) -> Any:
    def evaluate(rows: Any) -> Any:
        import pyarrow as pa

        made: dict[tuple[str, ...], str] = {}
        texts: list[str | None] = []
        for row in rows.to_pylist():
            points: tuple[Any, ...] = tuple(row)
            if None in points:
                texts.append(None)
                continue
            if points not in made:
                made[points] = build(points)
            texts.append(made[points])
        return pa.array(texts, pa.string())

    return evaluate


_TWO = ("VARCHAR", "VARCHAR")
PYTHON_FUNCTIONS = (
    PythonFunction("tg_st_distance", _distance, _TWO, "DOUBLE"),
    PythonFunction("tg_st_within", _within, _TWO, "BIGINT"),
    PythonFunction("tg_st_overlaps", _overlaps, _TWO, "BIGINT"),
    PythonFunction("tg_st_intersects", _intersects, _TWO, "BIGINT"),
    PythonFunction("tg_line", _of_points(_line_text), ("VARCHAR[]",), "VARCHAR"),
    PythonFunction("tg_polygon", _of_points(_polygon_text), ("VARCHAR[]",), "VARCHAR"),
)


def _point(args: Sequence[Sql]) -> Sql:
    latitude, longitude = (f"CAST(CAST({arg.text} AS DOUBLE) AS VARCHAR)" for arg in args)
    text = f"""('{{"type":"Point","coordinates":[' || {longitude} || ',' || {latitude} || ']}}')"""
    return Sql(text, Type.RECORD)


def _listed(function: str) -> Any:
    def build(args: Sequence[Sql]) -> Sql:
        return Sql(f"{function}([{', '.join(arg.text for arg in args)}])", Type.RECORD, fallible=True)

    return build


_FAMILY = "geospatial"
_GEOMETRIES = (ArgumentKind.GEOMETRY, ArgumentKind.GEOMETRY)
SCALARS: tuple[ScalarSignature, ...] = (
    scalar(
        "createpoint", _FAMILY, (ArgumentKind.NUMBER,) * 2, "The point at a latitude and longitude.", _point
    ),
    scalar(
        "createlinestring",
        _FAMILY,
        _GEOMETRIES,
        "The line from point to point.",
        _listed("tg_line"),
        variadic=True,
    ),
    scalar(
        "createpolygon",
        _FAMILY,
        (ArgumentKind.GEOMETRY,) * 4,
        "The polygon in a ring of points that ends at its first, counter-clockwise.",
        _listed("tg_polygon"),
        variadic=True,
    ),
    scalar(
        "st_distance",
        _FAMILY,
        _GEOMETRIES,
        "Metres between two points; 0 if one is a polygon.",
        template("tg_st_distance({0}, {1})", Type.FLOAT, fallible=True),
    ),
    scalar(
        "st_within",
        _FAMILY,
        _GEOMETRIES,
        "1 if the point or polygon lies in the polygon.",
        template("tg_st_within({0}, {1})", Type.BIGINT, fallible=True),
    ),
    scalar(
        "st_overlaps",
        _FAMILY,
        _GEOMETRIES,
        "1 if the polygons share some of their areas and neither holds the other.",
        template("tg_st_overlaps({0}, {1})", Type.BIGINT, fallible=True),
    ),
    scalar(
        "st_intersects",
        _FAMILY,
        _GEOMETRIES,
        "1 if the lines meet.",
        template("tg_st_intersects({0}, {1})", Type.BIGINT, fallible=True),
    ),
)
