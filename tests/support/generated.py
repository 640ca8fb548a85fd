"""Random queries: chains of up to four steps that mix windows, joins, analytic functions, unions and APPLY.

Every step makes the columns k, v and n, so that any step may read any other. What `asa.md` leaves open is
not asked for: functions that depend on the order of rows read only rows of which no two of a key have the
same timestamp, and MIN and MAX only values of which no two are equal but for their type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from oracle.strategies import Trial, events, grid_windows, session_windows, settings, without_mixed_text

AT = "System.Timestamp() AS at"
INPUTS = ("x", "y")
CONDITIONS = [
    "v > 1",
    "k IS NOT NULL",
    "NOT (v <= 0)",
    "k IN ('a', 'b')",
    "k NOT IN ('a', 'c')",
    "k NOT LIKE '[ab]'",
    "v NOT BETWEEN 0 AND n",
    "NOT (v NOT BETWEEN 0 AND 2)",
]
FILTERS = ["", "", *(f" WHERE {condition}" for condition in CONDITIONS)]
#: A step of two joins has rows enough; a third makes thousands of them.
MOST_JOINS = 2


@dataclass(frozen=True)
class Source:
    """What a step may read.

    ordered: no two rows of one k have the same place in time, or events do whose order is their arrival.
    plain: v holds values of events as they are. joins: how many joins there are in it, one below the other.
    """

    name: str
    ordered: bool = True
    plain: bool = True
    joins: int = 0

    @property
    def read(self) -> str:
        return f"{self.name} TIMESTAMP BY t" if self.name in INPUTS else self.name

    def called(self, alias: str) -> str:
        return f"{self.name} {alias} TIMESTAMP BY t" if self.name in INPUTS else f"{self.name} {alias}"


@st.composite
def window_of(draw: st.DrawFn) -> str:
    sliding = st.integers(1, 6).map(lambda size: f"SlidingWindow(second, {size})")
    return draw(st.one_of(grid_windows(), sliding, session_windows("k"), st.just("System.Timestamp()")))


@st.composite
def windowed(draw: st.DrawFn, name: str, source: Source) -> tuple[str, Source]:
    functions = ["SUM(v)", "AVG(v)", "COUNT(v)", "COUNT(DISTINCT v)", "SUM(n)"]
    kept = ["MIN(v)", "MAX(v)"] if source.plain else []
    v = draw(st.sampled_from(functions + kept))
    n = draw(
        st.sampled_from(
            ["COUNT(*)", "COUNT(DISTINCT k)", "COUNT(n)", "SUM(CASE WHEN v > 1 THEN 1 ELSE 0 END)"]
        )
    )
    having = draw(st.sampled_from(["", "", " HAVING COUNT(*) > 1", " HAVING NOT (SUM(v) > 2)"]))
    body = f"{v} AS v, {n} AS n FROM {source.read}{draw(st.sampled_from(FILTERS))} GROUP BY"
    window = draw(window_of())
    if draw(st.booleans()) or "Session" in window:
        query = f"SELECT k, {body} k, {window}{having}"
    else:
        query = f"SELECT 'all' AS k, {body} {window}{having}"
    return query, Source(name, True, v in kept, source.joins)


@st.composite
def joined(draw: st.DrawFn, name: str, left: Source, right: Source) -> tuple[str, Source]:
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN"]))
    low = draw(st.integers(-4, 3))
    high = low + draw(st.integers(0, 5))
    unit = draw(st.sampled_from(["second", "second", "minute"]))
    keys = draw(
        st.sampled_from(
            [
                " AND a.k = b.k",
                " AND a.k = b.k",
                " AND b.k = a.k AND b.n >= a.n",
                " AND a.n = b.n",
                " AND a.k = b.k AND a.v NOT BETWEEN 0 AND b.v",
            ]
        )
    )
    v, n = draw(st.sampled_from(["a.v", "b.v"])), draw(st.sampled_from(["a.n", "b.n", "a.n + b.n"]))
    k = draw(st.sampled_from(["a.k", "a.k", "b.k"]))
    apply = ""
    if left.name in INPUTS and draw(st.integers(0, 3)) == 0:
        apply = " OUTER APPLY GetArrayElements(TRY_CAST(a.m AS array)) AS e"
        n = "e.ArrayIndex"
    query = (
        f"SELECT {k} AS k, {v} AS v, {n} AS n FROM {left.called('a')}{apply} {kind} {right.called('b')} "
        f"ON DATEDIFF({unit}, a, b) BETWEEN {low} AND {high}{keys}"
    )
    plain = left.plain if v == "a.v" else right.plain
    return query, Source(name, False, plain, left.joins + right.joins + 1)


@st.composite
def analytic(draw: st.DrawFn, name: str, source: Source) -> tuple[str, Source]:
    when = draw(st.sampled_from(["", "", *(f" WHEN {condition}" for condition in CONDITIONS)]))
    over = f"OVER (PARTITION BY k LIMIT DURATION(second, {draw(st.integers(1, 12))}){when})"
    values = [
        f"LAG(v) {over}",
        f"LAG(v, 2) {over}",
        f"LAST(v) {over}",
        f"LAG(*) {over}.v",
        f"LAG(*, 2) {over}.v",
    ]
    computed = [f"SUM(v) {over}", f"AVG(v) {over}", f"v - LAG(v) {over}"]
    counts = [f"COUNT(*) {over}", f"ISFIRST(second, 4) OVER (PARTITION BY k{when})", "n"]
    v, n = draw(st.sampled_from(values + computed)), draw(st.sampled_from(counts))
    where = draw(st.sampled_from([*FILTERS, f" WHERE LAG(k) {over} IS NOT NULL"]))
    return f"SELECT k, {v} AS v, {n} AS n FROM {source.read}{where}", Source(
        name, source.ordered, source.plain and v in values, source.joins
    )


@st.composite
def united(draw: st.DrawFn, name: str, sources: Sequence[Source]) -> tuple[str, Source]:
    terms = [f"SELECT k, v, n FROM {source.read}{draw(st.sampled_from(FILTERS))}" for source in sources]
    plain = all(source.plain for source in sources)
    union = draw(st.sampled_from([" UNION ", " UNION ALL "]))
    return union.join(terms), Source(name, False, plain, max(source.joins for source in sources))


@st.composite
def chains_of_steps(draw: st.DrawFn) -> Trial:
    """A script of two to four steps, the last step and one before it going to outputs."""
    known = [Source(name) for name in INPUTS]
    steps: list[str] = []
    for number in range(draw(st.integers(2, 4))):
        name = f"s{number}"
        # the newest step is read more often than not, so that chains get long
        source = draw(st.sampled_from([*known, *known[-1:] * len(known)]))
        other = draw(st.sampled_from(known))
        kinds = ["window", "window", "union"]
        kinds += ["analytic", "analytic"] if source.ordered else []
        kinds += ["join", "join"] if source.joins + other.joins < MOST_JOINS else []
        match draw(st.sampled_from(kinds)):
            case "window":
                query, made = draw(windowed(name, source))
            case "union":
                query, made = draw(united(name, [source, other]))
            case "analytic":
                query, made = draw(analytic(name, source))
            case _:
                query, made = draw(joined(name, source, other))
        steps.append(f"{name} AS ({query})")
        known.append(made)
    last, shown = known[-1].name, draw(st.sampled_from(known[2:])).name
    query = f"WITH {', '.join(steps)} SELECT k, v, n, {AT} INTO last FROM {last}"
    if shown != last:
        query += f" SELECT *, {AT} INTO shown FROM {shown}"
    inputs = {name: [without_mixed_text(row) for row in draw(events(most=8))] for name in INPUTS}
    return Trial(query, {name: rows for name, rows in inputs.items() if reads(query, name)}, draw(settings()))


def reads(query: str, name: str) -> bool:
    return f"FROM {name} " in query or f"JOIN {name} " in query
