"""Random joins with reference data, its snapshots and its keys."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from oracle.strategies import Rows, Trial, events, iso, windows, without_mixed_text
from oracle.strategies import settings as time_settings

AT = "System.Timestamp() AS at"
KEYS = ["a", "a", "b", "c", "żółć", None, "absent", 1, 1.0, True, 2.5, "1"]
ONS = [
    "{0}.k = {1}.k",
    "{1}.k = {0}.k AND {0}.b = {1}.b",
    "{0}.m = {1}.k",
    "{0}.v = {1}.w",
    "{0}.k = {1}.k AND {1}.w > {0}.v",
    "{0}.k = {1}.k OR {1}.w IS NULL",
    "{1}.w > 1",
    "{0}.k = {1}.k AND {1}.k = 'a'",
    "UPPER({0}.k) = UPPER({1}.s)",
]


@st.composite
def tables(draw: st.DrawFn) -> Rows:
    rows: Rows = []
    for number in range(draw(st.integers(0, 6))):
        row = {
            "id": number,
            "k": draw(st.sampled_from(KEYS)),
            "w": draw(st.sampled_from([0, 1, 2.5, -3, None])),
            "s": draw(st.sampled_from(["a", "B", "x", None])),
            "b": draw(st.sampled_from([True, False, None])),
        }
        rows.append({name: value for name, value in row.items() if value != "absent"})
    return rows


@st.composite
def references(draw: st.DrawFn) -> Any:
    """One snapshot for all times, or several; with the earliest before everything, nearly always."""
    if draw(st.booleans()):
        return draw(tables())
    first = draw(st.sampled_from([-100, -100, -100, -100, 3]))
    times = {first, *draw(st.lists(st.integers(0, 40), max_size=3))}
    return {iso(time): draw(tables()) for time in draw(st.permutations(sorted(times)))}


@st.composite
def joined(draw: st.DrawFn) -> Trial:
    """A stream with one reference input or two: plain, before or behind a window, with another stream."""
    kinds = [draw(st.sampled_from(["JOIN", "LEFT JOIN", "LEFT OUTER JOIN"])) for _ in range(2)]
    on = draw(st.sampled_from(ONS)).format("a", "r")
    clock = draw(st.sampled_from([" TIMESTAMP BY t", ""]))
    shape = draw(st.integers(0, 4))
    inputs = {"x": [without_mixed_text(row) for row in draw(events(most=10))]}
    if shape == 0:
        query = (
            f"SELECT a.v, a.k, r.id, r.w, a.PartitionId AS p, {AT} INTO one FROM x a{clock} "
            f"{kinds[0]} r ON {on} SELECT *, {AT} INTO star FROM x a{clock} {kinds[0]} r ON {on}"
        )
    elif shape == 1:
        other = draw(st.sampled_from(["q.k = r.k", "a.k = q.k AND q.w = r.w", "r.id = q.id"]))
        query = (
            f"SELECT a.v, r.id, q.id AS other, q.w, {AT} FROM x a{clock} {kinds[0]} r ON {on} "
            f"{kinds[1]} q ON {other} WHERE r.id IS NULL OR q.id IS NOT NULL"
        )
    elif shape == 2:
        query = (
            f"SELECT r.s, COUNT(*) AS n, MAX(a.v) AS v, MIN(r.w) AS w, {AT} FROM x a TIMESTAMP BY t "
            f"{kinds[0]} r ON {on} GROUP BY r.s, {draw(windows())}"
        )
    elif shape == 3:
        query = (
            "WITH n AS (SELECT k, b, m, COUNT(*) AS v FROM x TIMESTAMP BY t "
            f"GROUP BY k, b, m, {draw(windows(session_over='k'))}), "
            f"j AS (SELECT a.k AS k, a.v AS v, r.w AS w FROM n a {kinds[0]} r ON {on}) "
            f"SELECT k, SUM(v) AS v, COUNT(w) AS c, {AT} FROM j GROUP BY k, TumblingWindow(second, 7)"
        )
    else:
        inputs["y"] = [without_mixed_text(row) for row in draw(events(most=6))]
        bound = "DATEDIFF(second, a, y) BETWEEN -2 AND 4 AND a.k = y.k"
        parts = draw(st.permutations([f"{kinds[0]} r ON {on}", f"{kinds[1]} y TIMESTAMP BY t ON {bound}"]))
        query = f"SELECT a.v, y.v AS yv, r.id, {AT} FROM x a TIMESTAMP BY t {' '.join(parts)}"
    reference = {"r": draw(references()), "q": draw(references())}
    if shape != 1:
        del reference["q"]
    return Trial(query, inputs, draw(time_settings()), reference=reference)
