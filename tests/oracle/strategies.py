"""Random trials for property tests: a query, its inputs and settings, which engine and oracle must agree on.

Values are chosen so that `asa.md` leaves exactly one answer: no float equals a bigint, rows of joined
inputs are only aggregated where their order does not matter, and arrival times never go back within
a partition, as a broker guarantees.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

Rows = list[dict[str, Any]]
Strategy = st.SearchStrategy

START = datetime(2026, 1, 1, tzinfo=UTC)

KEYS = ["a", "a", "b", "c", None, "absent"]
NUMBERS = [0, 1, 2, -3, 0.1, 2.5, "7.5", -0.25, 1e16 + 2, 9_007_199_254_740_993, None, "absent"]
MIXED = [1, 7, "1", "x", 2.5, None, "absent", {"a": 1}, {"a": {"b": "y"}}, [1, None, "z"]]
#: Values that order rows, of one kind for all events of a trial: text is read as a time or as a number.
TIMES = ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-02", "1969-12-31T23:59:59.9999999"]
ORDERS = [[*TIMES, None, "absent"], ["10", "9", 9, 9.5, None]]
#: Values among which some have no order: two kinds, and text of none.
UNORDERED_VALUES = [[*TIMES, 7, "7"], [*TIMES, *TIMES, *TIMES, "9"], [TIMES[0], None, "noon"]]
TEXTS = ["", "alpha", "Beta", "a b ", "żółć", None, "absent"]

CONDITIONS = [
    "v > 1",
    "NOT (v > 1)",
    "v <> 1",
    "k IS NOT NULL",
    "k IN ('a', 'b')",
    "k NOT IN ('a')",
    "k NOT IN ('a', s)",
    "NOT (k NOT IN ('a', s))",
    "m NOT IN (1, NULL, 'x')",
    "m NOT IN (v, m.a, 7)",
    "m = 1",
    "m <> 1",
    "m = 'x' OR m.a = 1",
    "s LIKE '%a%'",
    "s NOT LIKE 'B%' AND v IS NOT NULL",
    "s NOT LIKE k + '%'",
    "NOT (s NOT LIKE '[^a]%')",
    "v BETWEEN 0 AND 3",
    "v NOT BETWEEN 0 AND 2",
    "v NOT BETWEEN LEN(s) AND 2.25",
    "NOT (v NOT BETWEEN -1 AND LEN(s))",
    "System.Timestamp() > '2026-01-01T00:00:04Z'",
    "PartitionId = 0",
]
PROJECTIONS = [
    "*",
    "0 AS v, *",
    "*, 'none' AS s",
    "k, v, m, s, b",
    "v * 2 AS a, v + 0.5 AS c, -v AS d",
    "UPPER(s) AS a, LEN(s) AS c, s + '!' AS d, SUBSTRING(s, 2, 3) AS e",
    "COALESCE(k, s, 'none') AS a, NULLIF(k, 'a') AS c, GetType(m) AS d",
    "TRY_CAST(m AS bigint) AS a, TRY_CAST(m AS float) AS c, m.a.b AS d, m.a AS e",
    "CASE WHEN v > 1 THEN 'big' WHEN NOT (v <= 1) THEN 'none' ELSE 'small' END AS a",
    "CASE k WHEN 'a' THEN v ELSE m END AS a",
    "DATEPART(second, System.Timestamp()) AS a, DATEADD(minute, -1, System.Timestamp()) AS c, t",
    "PartitionId, k, CONCAT(k, '-', s) AS a",
]
#: Aggregates whose result does not depend on the order of rows.
UNORDERED = [
    "COUNT(*) AS n",
    "COUNT(v) AS nv",
    "COUNT(DISTINCT m) AS dm",
    "COUNT(DISTINCT v) AS dv",
    "SUM(v) AS sv",
    "AVG(v) AS av",
    "MIN(v) AS lv",
    "MAX(v) AS hv",
    "MAX(CAST(s AS nvarchar(max))) AS hs",
    "MAX(System.Timestamp()) AS ht",
    "STDEV(v) AS dev",
    "VARP(v) AS varp",
    "PERCENTILE_CONT(0.3) OVER (ORDER BY v) AS pc",
    "PERCENTILE_DISC(0.7) OVER (ORDER BY v DESC) AS pd",
    "SUM(CASE WHEN v > 1 THEN 1 ELSE 0 END) AS big",
    "MAX(v) - MIN(v) AS spread",
]
#: These take rows in (timestamp, arrival, partition, offset) order, which one input fixes.
ORDERED = [
    "Collect(m) AS cm",
    "TopOne(m) OVER (ORDER BY v DESC) AS tm",
    "CollectTop(2, k) OVER (ORDER BY v) AS ck",
    "TopOne(v) OVER (ORDER BY i DESC) AS ti",
    "CollectTop(2, i) OVER (ORDER BY v, i) AS ci",
]
HAVINGS = ["COUNT(*) > 1", "SUM(v) > 1", "NOT (MIN(v) > 0)", "n >= 2"]


@dataclass(frozen=True)
class Trial:
    """What both engines are given: arguments of `run` by their names."""

    query: str
    inputs: dict[str, Rows]
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    functions: dict[str, str] = field(default_factory=dict[str, str])
    reference: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def partitions(self) -> int:
        """Of each input: substreams without PartitionId among their keys are of an input of one."""
        return 1 if re.search(r"TIMESTAMP BY t OVER k\b(?!,)", self.query) else 3


def iso(seconds: float, ticks: int = 0) -> str:
    """ISO text of an instant, `ticks` of 100 ns beside a number of half seconds after START."""
    halves = round(seconds * 2)
    whole, fraction = divmod(halves * 5_000_000 + ticks, 10_000_000)
    return f"{START + timedelta(seconds=whole):%Y-%m-%dT%H:%M:%S}.{fraction:07d}Z"


@st.composite
def events(
    draw: st.DrawFn, most: int = 24, partitions: int = 3, orders: Sequence[list[Any]] = ORDERS
) -> Rows:
    """Events in arrival order: late, early, out of order, equal in time, some without a usable time."""
    rows: Rows = []
    arrival = 0.0
    ordering = draw(st.sampled_from(orders))
    for _ in range(draw(st.sampled_from([*range(4), most // 3, most // 2, most, most, most]))):
        arrival += draw(st.sampled_from([0, 0, 0.5, 1, 1, 2, 5, 11]))
        ahead = draw(st.sampled_from([0, 0, 0, -0.5, -1, -2, -3, -5, -7, -60, 1, 4, 300, 301]))
        row: dict[str, Any] = {"_arrival": iso(arrival), "_partition": draw(st.integers(0, partitions - 1))}
        time: Any = iso(arrival + ahead, draw(st.sampled_from([0, 0, 0, 0, 1, -1])))
        if draw(st.integers(0, 19)) == 0:
            time = draw(st.sampled_from([None, "absent", "noon", 5]))
        drawn = {
            "t": time,
            "k": draw(st.sampled_from(KEYS)),
            "v": draw(st.sampled_from(NUMBERS)),
            "m": draw(st.sampled_from(MIXED)),
            "s": draw(st.sampled_from(TEXTS)),
            "b": draw(st.sampled_from([True, False, None])),
            "i": draw(st.sampled_from(ordering)),
        }
        row.update({name: value for name, value in drawn.items() if value != "absent"})
        rows.append(row)
    return rows


def settings() -> Strategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "late_arrival": st.sampled_from(["none", "0s", "2s", "5s", "60s"]),
            "out_of_order": st.sampled_from(["0s", "1s", "3s", "30s"]),
            "policy": st.sampled_from(["adjust", "drop"]),
            "early_arrival": st.sampled_from(["300s", "none"]),
            "compatibility_level": st.sampled_from(["1.1", "1.2"]),
        },
    )


@st.composite
def grid_windows(draw: st.DrawFn) -> str:
    """A tumbling or hopping window, sizes and hops in any relation, with or without an offset."""
    size, hop = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    offset = draw(st.sampled_from(["", ", 1", ", -2"]))
    if draw(st.booleans()):
        return f"TumblingWindow(second, {size}{offset})"
    return f"HoppingWindow(second, {size}, {hop}{offset})"


@st.composite
def session_windows(draw: st.DrawFn, over: str | None) -> str:
    """A session; `over` names the key it may (or, for substreams, must) be partitioned by."""
    window = f"SessionWindow(second, {draw(st.integers(1, 6))}, {draw(st.sampled_from([3, 10, 60]))})"
    return f"{window} OVER (PARTITION BY {over})" if over else window


@st.composite
def windows(draw: st.DrawFn, session_over: str | None = None, sessions: bool = True) -> str:
    """Any window that may stand in GROUP BY."""
    simple = [
        grid_windows(),
        st.integers(1, 8).map(lambda size: f"SlidingWindow(second, {size})"),
        st.just("System.Timestamp()"),
    ]
    if sessions:
        simple.append(session_windows(session_over))
    one = st.one_of(simple)
    if draw(st.integers(0, 5)):
        return draw(one)
    members = draw(st.lists(one, min_size=2, max_size=3))
    wrapped = [f"Window('w{i}', {member})" for i, member in enumerate(members)]
    return f"Windows({', '.join(wrapped)})"


@st.composite
def selections(draw: st.DrawFn, ordered: bool) -> str:
    """COUNT(*) AS n and up to four more aggregates."""
    more = draw(
        st.lists(st.sampled_from(UNORDERED[1:] + (ORDERED if ordered else [])), max_size=4, unique=True)
    )
    return ", ".join([UNORDERED[0], *more])


def filters() -> Strategy[str]:
    return st.one_of(st.just(""), st.sampled_from(CONDITIONS).map(" WHERE {}".format))


def havings() -> Strategy[str]:
    return st.one_of(st.just(""), st.just(""), st.sampled_from(HAVINGS).map(" HAVING {}".format))


def clocks() -> Strategy[str]:
    """The input behind its time policies, or by arrival time."""
    return st.sampled_from(["events TIMESTAMP BY t", "events TIMESTAMP BY t", "events"])


@st.composite
def projections(draw: st.DrawFn) -> Trial:
    """A plain SELECT, maybe over a step that selected before."""
    chosen = draw(st.sampled_from(PROJECTIONS))
    where = draw(filters())
    query = f"SELECT {chosen}, System.Timestamp() AS at FROM {draw(clocks())}{where}"
    if draw(st.booleans()):
        query = f"WITH step AS ({query}) SELECT * FROM step WHERE at <> '2026-01-01T00:00:05Z'"
    return Trial(query, {"events": draw(events())}, draw(settings()))


@st.composite
def aggregations(draw: st.DrawFn) -> Trial:
    """One window over one input."""
    keys = draw(st.sampled_from(["", "k, ", "k, LEN(s), ", "PartitionId, "]))
    shown = {"": "", "k, ": "k, ", "k, LEN(s), ": "k, LEN(s) AS width, ", "PartitionId, ": "PartitionId, "}[
        keys
    ]
    window = draw(st.one_of(windows(), windows(session_over="k") if "k" in keys else windows()))
    query = (
        f"SELECT {shown}{draw(selections(ordered=True))}, System.Window().Id AS w, System.Timestamp() AS at "
        f"FROM {draw(clocks())}{draw(filters())} GROUP BY {keys}{window}{draw(havings())}"
    )
    return Trial(query, {"events": draw(events())}, draw(settings()))


@st.composite
def substreams(draw: st.DrawFn) -> Trial:
    """A watermark per key: of one partition, or of several with PartitionId among the keys."""
    if draw(st.booleans()):
        source, keys, rows = "events TIMESTAMP BY t OVER k", "k", events(partitions=1)
        window = windows(session_over="k")
    else:
        source = "events TIMESTAMP BY t OVER k, PartitionId PARTITION BY PartitionId"
        keys, rows, window = "k, PartitionId", events(), windows(sessions=False)
    query = (
        f"SELECT {keys}, {draw(selections(ordered=True))}, System.Window().Id AS w, System.Timestamp() AS at "
        f"FROM {source}{draw(filters())} GROUP BY {keys}, {draw(window)}{draw(havings())}"
    )
    return Trial(query, {"events": draw(rows)}, draw(settings()))


#: Policies of a source that is not perfect: what is late is adjusted or dropped.
HEURISTIC = [
    "at percentile 33",
    "at percentile 95",
    "at percentile 100",
    "tracking subscription",
    "tracking subscription at percentile 80",
    "dynamic set of time-ordered logs",
]


@st.composite
def crowded(draw: st.DrawFn, ascending: bool = False) -> Rows:
    """Events of two partitions, often more than ten in ten seconds. ascending: within a partition."""
    rows: Rows = []
    arrival = 0.0
    newest = {0: -100.0, 1: -100.0}
    for _ in range(draw(st.sampled_from([3, 20, 40, 40]))):
        arrival += draw(st.sampled_from([0, 0, 0, 0.5, 0.5, 1, 2, 11]))
        partition = draw(st.sampled_from([0, 0, 1]))
        time = arrival + draw(st.sampled_from([0, 0, 0, -0.5, -1, -2, -4, -8, 1, 2, 301]))
        if ascending:
            time = newest[partition] = max(newest[partition], time)
        row: dict[str, Any] = {"_arrival": iso(arrival), "_partition": partition, "t": iso(time)}
        if not draw(st.integers(0, 19)):
            row["t"] = draw(st.sampled_from([None, "noon"]))
        rows.append(row | {"k": draw(st.sampled_from(["a", "b"])), "v": draw(st.sampled_from(NUMBERS))})
    return rows


@st.composite
def watermarked(draw: st.DrawFn, policies: Sequence[str] = HEURISTIC, ascending: bool = False) -> Trial:
    """Plain rows or windows over an input with a watermark policy of its own."""
    query = draw(
        st.sampled_from(
            [
                "SELECT v, t, System.Timestamp() AS at FROM events TIMESTAMP BY t",
                "SELECT k, COUNT(*) AS n, System.Timestamp() AS at FROM events TIMESTAMP BY t "
                "GROUP BY k, HoppingWindow(second, 4, 2)",
                "SELECT COUNT(*) AS n, System.Timestamp() AS at FROM events TIMESTAMP BY t "
                "GROUP BY SessionWindow(second, 2, 20)",
            ]
        )
    )
    name = draw(st.sampled_from(["events", "Events", "*"]))
    chosen = {"watermarks": {name: draw(st.sampled_from(policies))}}
    times = {
        "late_arrival": draw(st.sampled_from(["none", "5s", "60s"])),
        "out_of_order": draw(st.sampled_from(["3s", "30s"])),
        "policy": draw(st.sampled_from(["adjust", "drop"])),
    }
    return Trial(query, {"events": draw(crowded(ascending))}, {**times, **chosen})


#: Aggregates of users: what they are given in its order, and one that fails on some values.
USERS_AGGREGATES = {
    "seen": """function main() {
        this.init = function () { this.seen = []; };
        this.accumulate = function (v, t) { this.seen.push([v, t.getTime() % 60000]); };
        this.computeResult = function () { return this.seen; };
    }""",
    "mean": """function main() {
        this.init = function () { this.sum = 0; this.n = 0; };
        this.accumulate = function (v, t) { this.sum += v / (1 + t.getUTCSeconds()); this.n++; };
        this.deaccumulate = function (v, t) { this.sum -= v / (1 + t.getUTCSeconds()); this.n--; };
        this.deaccumulateState = function (other) { this.sum -= other.sum; this.n -= other.n; };
        this.computeResult = function () { return this.sum / this.n; };
    }""",
    "last": """class main {
        init() { this.last = undefined; }
        accumulate(v, t) { this.last = v; }
        computeResult() { return this.last; }
    }""",
    "width": """function main() {
        this.init = function () { this.widths = []; };
        this.accumulate = function (v, t) { this.widths.push(v.toString().length); };
        this.computeResult = function () { return this.widths.join(','); };
    }""",
}


@st.composite
def users_aggregations(draw: st.DrawFn) -> Trial:
    """Aggregates of users beside others, over any window, with and without substreams, keys and HAVING."""
    calls = [
        "uda.seen(v) AS sv",
        "uda.seen(m) AS sm",
        "uda.mean(LEN(s)) AS ml",
        "uda.last(s) AS ls",
        "uda.last(events) AS le",
        "uda.width(v) AS wv",
        "SUM(v) AS tv",
        "Collect(m) AS cm",
    ]
    chosen = ", ".join(draw(st.lists(st.sampled_from(calls), min_size=1, max_size=3, unique=True)))
    source, keys, rows, window = draw(
        st.sampled_from(
            [
                ("events TIMESTAMP BY t", "", events(), windows()),
                ("events TIMESTAMP BY t", "k, ", events(), windows(session_over="k")),
                ("events", "k, ", events(), windows()),
                ("events TIMESTAMP BY t OVER k", "k, ", events(partitions=1), windows(session_over="k")),
            ]
        )
    )
    having = ""  # beside `width` it would decide whether a group that fails is computed at all
    if "width" not in chosen:
        having = draw(st.sampled_from(["", "", " HAVING uda.mean(LEN(s)) > 1"]))
    query = (
        f"SELECT {keys}{chosen}, COUNT(*) AS n, System.Window().Id AS w, System.Timestamp() AS at "
        f"FROM {source} {draw(filters())} GROUP BY {keys}{draw(window)}{having}"
    )
    chosen_settings = {**draw(settings()), "on_error": draw(st.sampled_from(["stop", "drop", "drop"]))}
    return Trial(query, {"events": draw(rows)}, chosen_settings, USERS_AGGREGATES)


@st.composite
def chains(draw: st.DrawFn) -> Trial:
    """Windows over windows, the inner step shared by two outputs."""
    inner = (
        f"SELECT k, COUNT(*) AS n, SUM(v) AS v, MIN(v) AS l FROM {draw(clocks())}{draw(filters())} "
        f"GROUP BY k, {draw(windows(session_over='k'))}{draw(havings())}"
    )
    key = draw(st.sampled_from(["", "k, "]))
    outer = (
        f"SELECT {key}COUNT(*) AS parts, SUM(n) AS n, AVG(v) AS v, MIN(l) AS l, System.Timestamp() AS at "
        f"INTO coarse FROM step GROUP BY {key}{draw(windows())}"
    )
    query = f"WITH step AS ({inner}) {outer} SELECT *, System.Timestamp() AS at INTO fine FROM step"
    return Trial(query, {"events": draw(events())}, draw(settings()))


@st.composite
def unions(draw: st.DrawFn) -> Trial:
    """Two inputs, each with its own clock and filter, united and then windowed."""
    clock = draw(st.sampled_from([" TIMESTAMP BY t", ""]))
    terms = f"SELECT k, v, m, s FROM x{clock}{draw(filters())} UNION SELECT k, v, m, s FROM y{clock}"
    query = (
        f"WITH both AS ({terms}) SELECT k, {draw(selections(ordered=False))}, System.Timestamp() AS at "
        f"FROM both GROUP BY k, {draw(windows(session_over='k'))}"
    )
    return Trial(query, {"x": draw(events(most=14)), "y": draw(events(most=14))}, draw(settings()))


def trials() -> Strategy[Trial]:
    """Any trial of projections, windows and unions."""
    return st.one_of(projections(), aggregations(), substreams(), chains(), unions())


# ---------------------------------------------------------------- joins, analytic functions, APPLY


@st.composite
def joins(draw: st.DrawFn) -> Trial:
    """Two streams, or three, joined by key and time distance; or a stream with itself."""
    unit = draw(st.sampled_from(["second", "millisecond", "minute"]))
    scale = {"second": 1, "millisecond": 1000, "minute": 1}[unit]
    low = draw(st.integers(-6, 3)) * scale
    high = low + draw(st.integers(0, 8)) * scale
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN"]))
    extra = draw(
        st.sampled_from(["", " AND a.k = b.k", " AND a.k = b.k AND b.v > a.v", " AND a.v IS NOT NULL"])
    )
    right = draw(st.sampled_from(["x", "y"]))
    query = (
        "SELECT a.k, a.v, b.k AS bk, b.v AS bv, System.Timestamp() AS at FROM x a TIMESTAMP BY t "
        f"{kind} {right} b TIMESTAMP BY t ON DATEDIFF({unit}, a, b) BETWEEN {low} AND {high}{extra}"
    )
    if draw(st.booleans()):
        query += f"{draw(st.sampled_from([' WHERE b.k IS NULL', ' WHERE a.v = 1']))}"
    inputs = {"x": draw(events(most=12)), "y": draw(events(most=12))}
    chosen = {row_name: [without_mixed_text(row) for row in rows] for row_name, rows in inputs.items()}
    return Trial(query, chosen, draw(settings()))


def without_mixed_text(row: dict[str, Any]) -> dict[str, Any]:
    """A join compares fields of two rows: numeric text beside text of words would stop the job."""
    return {name: value for name, value in row.items() if name != "v" or not isinstance(value, str)}


@st.composite
def analytics(draw: st.DrawFn) -> Trial:
    """LAG, LAST, ISFIRST and moving aggregates per key, with and without WHEN."""
    partition = draw(st.sampled_from(["", "PARTITION BY k "]))
    when = draw(st.sampled_from(["", " WHEN v > 0", " WHEN k IS NOT NULL"]))
    over = f"OVER ({partition}LIMIT DURATION(second, {draw(st.integers(1, 12))}){when})"
    calls = [
        f"LAG(v) {over} AS a",
        f"LAG(v, 2) {over} AS b",
        f"LAG(*) {over}.k AS c",
        f"LAST(k) {over} AS d",
        f"ISFIRST(second, 3) OVER ({partition or 'PARTITION BY k'}{when}) AS e",
        f"SUM(v) {over} AS f",
        f"COUNT(*) {over} AS g",
        f"AVG(v) {over} AS h",
        f"MAX(v) {over} AS i",
    ]
    chosen = draw(st.lists(st.sampled_from(calls), min_size=1, max_size=4, unique=True))
    query = f"SELECT v, {', '.join(chosen)}, System.Timestamp() AS at FROM {draw(clocks())}{draw(filters())}"
    return Trial(query, {"events": draw(events())}, draw(settings()))


@st.composite
def detections(draw: st.DrawFn) -> Trial:
    """Anomaly detection, whose scores depend on all of the history its duration holds."""
    over = draw(st.sampled_from(["PARTITION BY k LIMIT", "LIMIT"]))
    number = "TRY_CAST(v AS float)"
    call = draw(
        st.sampled_from(
            [
                f"AnomalyDetection_SpikeAndDip({number}, 80, 4, 'spikesanddips')",
                f"AnomalyDetection_ChangePoint({number}, 80, 5)",
            ]
        )
    )
    seconds = draw(st.integers(2, 12))
    query = (
        f"SELECT k, v, {call} OVER ({over} DURATION(second, {seconds})) AS score FROM events TIMESTAMP BY t"
    )
    return Trial(query, {"events": draw(events())}, draw(settings()))


@st.composite
def applies(draw: st.DrawFn) -> Trial:
    """A row per element of an array that is NULL for most events."""
    kind = draw(st.sampled_from(["CROSS", "OUTER"]))
    query = (
        f"SELECT k, e.ArrayIndex AS i, e.ArrayValue AS v, System.Timestamp() AS at FROM {draw(clocks())} "
        f"{kind} APPLY GetArrayElements(TRY_CAST(m AS array)) AS e"
    )
    return Trial(query, {"events": draw(events())}, draw(settings()))


def later_trials() -> Strategy[Trial]:
    """Any trial of joins, analytic functions and APPLY."""
    return st.one_of(joins(), analytics(), applies())
