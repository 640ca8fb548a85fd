"""Random patterns, alone and among steps."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from oracle.strategies import Trial, clocks, events, filters, iso, settings, windows

QUANTIFIERS = ["*", "+", "?", "{2}", "{1,}", "{1,2}", "{0,3}", "{2,}"]
DEFINITIONS = {
    "A": [
        "A.v > 0",
        "A.k = 'a'",
        "A.v IS NOT NULL",
        "A.v >= First(A.v) OR A.v IS NULL",
        "A.v < Max(A.v) + 3 AND A.k <> 'b'",
        "Last(A.s) LIKE '%a%'",
        "A.PartitionId = 0",
        "System.Timestamp() > '2026-01-01T00:00:04Z'",
        "A.m = 1 OR A.m.a = 1",
    ],
    "B": [
        "B.v < A.v",
        "B.v <> First(A.v) AND B.k = A.k",
        "B.k IS NOT NULL AND Min(A.v) < B.v",
        "B.k = 'b'",
        "1 = 1",
        "NOT (B.v = Last(A.v))",
        "A.m IS NULL OR B.v > 1",
        "B.v >= Max(B.v)",
    ],
    "C": [
        "C.v > A.v OR C.v > B.v",
        "C.k = First(B.k)",
        "C.v IS NULL",
        "Max(A.v) >= C.v AND Min(B.v) <= C.v",
        "GetType(C.m) = 'bigint'",
        "C.PartitionId <> A.PartitionId",
    ],
}
#: What stops the job on the way that counts, and only there.
FAILING = {
    "A": ["CAST(A.m AS bigint) > 0", "A.k = 'a' AND A.m < 5"],
    "B": ["CAST(B.s AS float) > A.v", "B.v > First(A.v) AND Min(A.m) < B.v"],
    "C": ["C.m > First(A.m)"],
}
MEASURES = [
    "First(A.v) AS f",
    "A.v AS v",
    "Last(B.m) AS m",
    "Min(A.v) AS lo",
    "Max(B.v) AS hi",
    "Classifier() AS c",
    "B.k AS bk",
    "First(C.s) AS s",
    "Last(A.m).a AS a",
    "A.v + Last(B.v) AS total",
    "GetArrayLength(Classifier()) AS n",
    "COALESCE(A.k, B.k, C.k) AS first_key",
    "GetType(Max(A.v)) AS y",
]


@st.composite
def close_events(draw: st.DrawFn, most: int = 12, partitions: int = 3) -> list[dict[str, Any]]:
    """Events of few keys and values close in time, so that there is much to match; some odd ones before."""
    rows = draw(events(most=3, partitions=partitions))
    arrival = max((float(row["_arrival"][17:26]) for row in rows), default=0.0)
    for _ in range(draw(st.integers(most // 2, most))):
        arrival += draw(st.sampled_from([0, 0.5, 0.5, 1, 1, 2]))
        time = arrival - draw(st.sampled_from([0, 0, 0, 0.5, 1, 3]))
        rows.append(
            {
                "_arrival": iso(arrival),
                "_partition": draw(st.integers(0, partitions - 1)),
                "t": iso(time),
                "k": draw(st.sampled_from(["a", "a", "b"])),
                "v": draw(st.sampled_from([1, 2, 3, 2.5, -1, "7.5"])),
                "m": draw(st.sampled_from([1, 7, "1", {"a": 1}, None])),
                "s": draw(st.sampled_from(["alpha", "Beta", "2"])),
            }
        )
    return rows


@st.composite
def patterns(draw: st.DrawFn, depth: int = 2) -> str:
    """A pattern of A, B, C and the dot; not too many ways, as the oracle tries them one by one."""
    parts: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        if depth and draw(st.integers(0, 2)) == 0:
            inner = [draw(patterns(depth - 1)) for _ in range(draw(st.integers(1, 2)))]
            part = f"({' | '.join(inner)})"
        else:
            part = draw(st.sampled_from(["A", "A", "B", "B", "C", "."]))
        parts.append(part + draw(st.sampled_from(["", "", *QUANTIFIERS])))
    return " ".join(parts)


@st.composite
def clauses(draw: st.DrawFn, by: str = "", *, failing: bool = False, more: str = "") -> str:
    """All that stands in the parentheses of MATCH_RECOGNIZE."""
    defined = [
        f"{name} AS {draw(st.sampled_from(DEFINITIONS[name] + (FAILING[name] if failing else [])))}"
        for name in "ABC"
    ]
    measures = draw(st.lists(st.sampled_from(MEASURES), min_size=1, max_size=4, unique=True))
    measures = [*measures, *([more] if more else [])]
    pattern = " | ".join(draw(st.lists(patterns(), min_size=1, max_size=2)))
    limit = f"LIMIT DURATION(second, {draw(st.sampled_from([1, 2, 5, 12, 100]))})"
    return (
        f"MATCH_RECOGNIZE ({limit} {by} MEASURES {', '.join(measures)} AFTER MATCH SKIP TO NEXT ROW "
        f"PATTERN ({pattern}) DEFINE {', '.join(defined)}) AS m"
    )


@st.composite
def matchings(draw: st.DrawFn) -> Trial:
    """One pattern over the events of an input."""
    by = draw(st.sampled_from(["", "PARTITION BY k", "PARTITION BY k", "PARTITION BY k, PartitionId"]))
    failing = draw(st.integers(0, 2)) == 0
    query = f"SELECT * FROM {draw(clocks())} {draw(clauses(by, failing=failing))}"
    times = draw(settings())
    if failing and draw(st.booleans()):
        times = {**times, "on_error": "drop"}
    return Trial(query, {"events": draw(close_events())}, times)


@st.composite
def of_substreams(draw: st.DrawFn) -> Trial:
    """Every substream by its own watermark."""
    if draw(st.booleans()):
        source, by, rows = "events TIMESTAMP BY t OVER k", "PARTITION BY k", close_events(partitions=1)
    else:
        source = "events TIMESTAMP BY t OVER k, PartitionId PARTITION BY PartitionId"
        by, rows = "PARTITION BY k, PartitionId", close_events()
    return Trial(f"SELECT * FROM {source} {draw(clauses(by))}", {"events": draw(rows)}, draw(settings()))


@st.composite
def of_steps(draw: st.DrawFn) -> Trial:
    """Patterns behind steps and before them: filters, unions, windows, analytic functions, joins."""
    clock = draw(st.sampled_from([" TIMESTAMP BY t", ""]))
    at = "System.Timestamp() AS at"
    whole = "SELECT k, v, m, s, PartitionId FROM events"
    step = draw(
        st.sampled_from(
            [
                f"SELECT * FROM events{clock}{draw(filters())}",
                f"{whole}{clock}{draw(filters())} UNION {whole}{clock} WHERE v > 1",
                "SELECT k, SUM(v) AS v, COUNT(*) AS m, MIN(v) AS s, 0 AS PartitionId "
                f"FROM events{clock} GROUP BY k, TumblingWindow(second, 2)",
            ]
        )
    )
    by = "" if "SUM" not in step and draw(st.booleans()) else "PARTITION BY k"
    match = draw(clauses(by, more="Last(A.k) AS ak, Last(A.v) AS av"))
    over = f"OVER (PARTITION BY ak LIMIT DURATION(second, {draw(st.integers(1, 9))}))"
    readings = [
        f"SELECT *, {at} FROM p",
        f"SELECT ak, COUNT(*) AS n, COUNT(av) AS v, {at} FROM p GROUP BY ak, "
        f"{draw(windows(session_over='ak'))}",
        "SELECT a.ak AS k, b.av AS v FROM p a JOIN p b ON a.ak = b.ak "
        "AND DATEDIFF(second, a, b) BETWEEN 0 AND 3",
    ]
    if "SUM" not in step:  # the groups of one window, and so their matches, have no order
        readings += [
            f"SELECT ak, LAG(av) {over} AS l, COUNT(*) {over} AS n, {at} FROM p",
            f"SELECT Collect(av) AS c, {at} FROM p GROUP BY TumblingWindow(second, 4)",
        ]
    reading = draw(st.sampled_from(readings))
    query = f"WITH e AS ({step}), p AS (SELECT * FROM e {match}) {reading}"
    return Trial(query, {"events": draw(close_events(most=9))}, draw(settings()))
