"""Random joins of streams: chains, and windows around them."""

from __future__ import annotations

from hypothesis import strategies as st

from oracle.strategies import Trial, events, without_mixed_text
from oracle.strategies import settings as time_settings

AT = "System.Timestamp() AS at"


@st.composite
def bounds(draw: st.DrawFn, first: str, second: str) -> str:
    """A bound of either sign, written in one of many ways, sometimes between equal or crossed limits."""
    unit = draw(st.sampled_from(["second", "second", "minute", "millisecond"]))
    scale = 1000 if unit == "millisecond" else 1
    low = draw(st.integers(-6, 4)) * scale
    high = low + draw(st.sampled_from([-1, 0, 1, 2, 5, 9])) * scale
    forwards, backwards = f"DATEDIFF({unit}, {first}, {second})", f"DATEDIFF({unit}, {second}, {first})"
    return draw(
        st.sampled_from(
            [
                f"{forwards} BETWEEN {low} AND {high}",
                f"{backwards} BETWEEN {-high} AND {-low}",
                f"{forwards} >= {low} AND {high} >= {forwards}",
                f"{backwards} < {1 - low} AND {forwards} < {high + 1}",
                f"{forwards} BETWEEN {low} AND {high} AND {backwards} <= 1",
            ]
        )
    )


@st.composite
def chains(draw: st.DrawFn) -> Trial:
    """Three streams, or one three times, by keys that agree or not, with bounds to either earlier one."""
    kinds = [draw(st.sampled_from(["JOIN", "LEFT JOIN", "LEFT OUTER JOIN"])) for _ in range(2)]
    base = draw(st.sampled_from(["a", "b"]))
    ons = [
        draw(bounds("a", "b"))
        + draw(st.sampled_from(["", " AND a.k = b.k", " AND b.k = a.k AND a.b = b.b"])),
        draw(bounds(base, "c"))
        + draw(st.sampled_from(["", " AND c.k = a.k", " AND b.k = c.k", " AND c.v >= a.v"])),
    ]
    second, third = draw(st.sampled_from([("y", "z"), ("x", "x"), ("y", "x")]))
    query = (
        f"SELECT a.v AS av, b.v AS bv, c.v AS cv, b.k AS bk, {AT} FROM x a TIMESTAMP BY t "
        f"{kinds[0]} {second} b TIMESTAMP BY t ON {ons[0]} {kinds[1]} {third} c TIMESTAMP BY t ON {ons[1]}"
    )
    names = {"x", second, third}
    inputs = {n: [without_mixed_text(row) for row in draw(events(most=8))] for n in sorted(names)}
    return Trial(query, inputs, draw(time_settings()))


@st.composite
def around_joins(draw: st.DrawFn) -> Trial:
    """A window over a join of windows, and the join itself by way of a step."""
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN"]))
    size = draw(st.integers(1, 5))
    query = (
        "WITH n AS (SELECT k, COUNT(*) AS n FROM x TIMESTAMP BY t "
        f"GROUP BY k, TumblingWindow(second, {size})), "
        f"j AS (SELECT a.k, a.n, b.v FROM n a {kind} y b TIMESTAMP BY t "
        f"ON a.k = b.k AND {draw(bounds('a', 'b'))}) "
        f"SELECT k, n, v, {AT} INTO pairs FROM j "
        f"SELECT k, SUM(n) AS n, COUNT(v) AS c, {AT} INTO grouped FROM j "
        f"GROUP BY k, TumblingWindow(second, {draw(st.integers(1, 9))}) "
        f"SELECT COUNT(*) AS c, {AT} INTO all_of_them FROM j GROUP BY TumblingWindow(second, 7)"
    )
    inputs = {n: [without_mixed_text(row) for row in draw(events(most=8))] for n in "xy"}
    return Trial(query, inputs, draw(time_settings()))


@st.composite
def substreams(draw: st.DrawFn) -> Trial:
    """Watermarks of their own for every key, through a join and a window over it."""
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN"]))
    source = "TIMESTAMP BY t OVER k, PartitionId PARTITION BY PartitionId"
    query = (
        f"WITH j AS (SELECT a.k, a.PartitionId AS p, a.v, b.v AS w FROM x a {source} {kind} y b {source} "
        f"ON a.k = b.k AND a.PartitionId = b.PartitionId AND {draw(bounds('a', 'b'))}) "
        f"SELECT k, p, v, w, {AT} INTO pairs FROM j "
        f"SELECT k, p, COUNT(*) AS n, MAX(w) AS w, {AT} INTO grouped FROM j "
        f"GROUP BY k, p, TumblingWindow(second, {draw(st.integers(1, 9))})"
    )
    inputs = {n: [without_mixed_text(row) for row in draw(events(most=10))] for n in "xy"}
    return Trial(query, inputs, draw(time_settings()))
