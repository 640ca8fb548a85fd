"""Analytic functions and APPLY: the oracle's rows, whatever way the events arrive; state that is freed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from oracle.strategies import Trial, analytics, applies, clocks, events, filters, settings, windows
from support.against_oracle import check_event_by_event, check_rows, reproducible
from support.cases import Case, case_paths, load
from support.depth import depth, some
from support.harness import Manner, compiled_for, manners
from tideglass.plan.topology import RowsOp, SendOp

CASES = [case for area in ("analytic", "apply") for path in case_paths(area) if (case := load(path)).expected]


@pytest.mark.parametrize("case", some(CASES), ids=lambda case: case.name)
def test_a_case_holds_event_by_event_with_a_restart_after_each(case: Case) -> None:
    check_event_by_event(case)


@given(analytics(), manners())
@examples(reproducible, max_examples=depth(40))
def test_analytic_functions_give_the_oracles_rows_in_any_batches_and_restarts(
    trial: Trial, manner: Manner
) -> None:
    check_rows(trial, manner)


@st.composite
def detections(draw: st.DrawFn) -> Trial:
    """Detectors of both kinds over one column and others, per key, with short and long histories."""
    partition = draw(st.sampled_from(["", "PARTITION BY k ", "PARTITION BY v, k "]))
    when = draw(st.sampled_from(["", "", " WHEN v > 0", " WHEN s LIKE '%a%'"]))
    chosen: list[str] = []
    for n in range(draw(st.integers(1, 3))):
        value = draw(st.sampled_from(["v", "v", "LEN(s)", "TRY_CAST(m AS float)"]))
        length = draw(st.sampled_from([1, 3, 12, 100]))
        constants = (
            f"{draw(st.sampled_from([20, 80, 95, 99.9, 100]))}, {draw(st.sampled_from([1, 2, 3, 7, 50]))}"
        )
        mode = draw(st.sampled_from(["", "", ", 'spikes'", ", 'dips'", ", 'spikesanddips'"]))
        name = "SpikeAndDip" if mode else "ChangePoint"
        over = f"OVER ({partition}LIMIT DURATION(second, {length}){when})"
        chosen.append(f"AnomalyDetection_{name}({value}, {constants}{mode}) {over} AS c{n}")
    query = f"SELECT v, {', '.join(chosen)}, System.Timestamp() AS at FROM {draw(clocks())}{draw(filters())}"
    return Trial(query, {"events": draw(events(most=20))}, draw(settings()))


@given(detections(), manners())
@examples(reproducible, max_examples=depth(40))
def test_detectors_give_the_oracles_rows_in_any_batches_and_restarts(trial: Trial, manner: Manner) -> None:
    check_rows(trial, manner)


CALLS = [
    "LAG(m) {over}",
    "LAG(m, 1, 'none') {over}",
    "LAG(v, 3, 0) {over}",
    "LAG(*) {over}",
    "LAG(*) {over}.m",
    "LAST(m, -1) {over}",
    "LAST(v) {over}",
    "ISFIRST(second, 4) OVER ({by}{when})",
    "SUM(v) {over}",
    "COUNT(m) {over}",
    "MIN(v) {over}",
    "AVG(v) {over}",
    "Collect(m) {over}",
    "TopOne(m) OVER ({by}ORDER BY v DESC {limit}{when})",
    "CollectTop(2, k) OVER ({by}ORDER BY v {limit}{when})",
    "MAX(System.Timestamp()) {over}",
]


@st.composite
def calls(draw: st.DrawFn, partitions: tuple[str, ...] = ("", "k", "PartitionId", "k, LEN(s)")) -> str:
    """An analytic function of any kind over the rows of `events`."""
    by = draw(st.sampled_from(partitions))
    parts = {
        "by": f"PARTITION BY {by} " if by else "",
        "limit": f"LIMIT DURATION(second, {draw(st.sampled_from([1, 2, 5, 12, 100]))})",
        "when": draw(st.sampled_from(["", "", " WHEN v > 0", " WHEN s LIKE '%a%' OR m = 1"])),
    }
    over = "OVER ({by}{limit}{when})".format(**parts)
    return draw(st.sampled_from(CALLS)).format(over=over, **parts)


@st.composite
def mixtures(draw: st.DrawFn) -> Trial:
    """Functions with different keys in one block, which WHERE reads too."""
    chosen = [f"{draw(calls())} AS c{n}" for n in range(draw(st.integers(1, 3)))]
    where = draw(
        st.sampled_from(
            ["", " WHERE ISFIRST(second, 2) OVER (PARTITION BY k) = 0"]
            + [f" WHERE COUNT(*) OVER (LIMIT DURATION(second, 3)) > 1 AND {c}" for c in ("v > 0", "k = 'a'")]
        )
    )
    query = f"SELECT {', '.join(chosen)}, k, System.Timestamp() AS at FROM {draw(clocks())}{where}"
    return Trial(query, {"events": draw(events())}, draw(settings()))


@st.composite
def in_groups(draw: st.DrawFn) -> Trial:
    """Functions as keys and arguments of GROUP BY; rows then already lie where it needs them, or do not."""
    flag = "ISFIRST(second, 3) OVER (PARTITION BY k)"
    key = draw(st.sampled_from(["k, ", "", f"{flag}, "]))
    shown = {"": "", "k, ": "k, "}.get(key, f"{flag} AS f, ")
    call = draw(st.sampled_from(["LAG(v) {0}", "SUM(v) {0}", "LAST(v) {0}"]))
    call = call.format(f"OVER (PARTITION BY k LIMIT DURATION(second, {draw(st.integers(1, 9))}))")
    query = (
        f"SELECT {shown}COUNT(*) AS n, SUM({call}) AS s, System.Timestamp() AS at FROM {draw(clocks())}"
        f"{draw(filters())} GROUP BY {key}{draw(windows(session_over='k' if key == 'k, ' else None))}"
    )
    return Trial(query, {"events": draw(events())}, draw(settings()))


@st.composite
def over_windows(draw: st.DrawFn) -> Trial:
    """Functions over the results of windows, one at a time for each key, and windows over those."""
    size = draw(st.integers(1, 6))
    window = draw(st.sampled_from([f"TumblingWindow(second, {size})", f"HoppingWindow(second, 4, {size})"]))
    over = f"OVER (PARTITION BY k LIMIT DURATION(second, {draw(st.integers(1, 30))}))"
    step = f"SELECT k, COUNT(*) AS n, SUM(v) AS v FROM {draw(clocks())} GROUP BY k, {window}"
    query = (
        f"WITH w AS ({step}), c AS (SELECT k, v, n, LAG(n) {over} AS p, SUM(v) {over} AS s, "
        f"LAG(*) {over}.v AS pv FROM w) SELECT *, System.Timestamp() AS at INTO changes FROM c "
        f"SELECT k, MAX(s) AS s, SUM(p) AS p, System.Timestamp() AS at INTO coarse FROM c "
        f"GROUP BY k, {draw(windows(session_over='k'))}"
    )
    return Trial(query, {"events": draw(events())}, draw(settings()))


@st.composite
def of_substreams(draw: st.DrawFn) -> Trial:
    """Every substream by its own watermark."""
    if draw(st.booleans()):
        source, key, rows = "events TIMESTAMP BY t OVER k", "k", events(partitions=1)
    else:
        source = "events TIMESTAMP BY t OVER k, PartitionId PARTITION BY PartitionId"
        key, rows = "k, PartitionId", events()
    chosen = [f"{draw(calls((key,)))} AS c{n}" for n in range(draw(st.integers(1, 2)))]
    return Trial(
        f"SELECT {', '.join(chosen)}, k, System.Timestamp() AS at FROM {source}",
        {"events": draw(rows)},
        draw(settings()),
    )


@st.composite
def of_unions(draw: st.DrawFn) -> Trial:
    """The rows of two inputs in one order."""
    clock = draw(st.sampled_from([" TIMESTAMP BY t", ""]))
    over = f"OVER (PARTITION BY k LIMIT DURATION(second, {draw(st.integers(1, 12))}))"
    query = (
        f"WITH both AS (SELECT k, v FROM x{clock}{draw(filters())} UNION SELECT k, v FROM y{clock}) "
        f"SELECT k, v, LAG(v) {over} AS p, COUNT(*) {over} AS n, System.Timestamp() AS at FROM both"
    )
    return Trial(query, {"x": draw(events(most=14)), "y": draw(events(most=14))}, draw(settings()))


@st.composite
def of_joins(draw: st.DrawFn) -> Trial:
    """Functions over either side of a join, in its ON, and in WHERE behind it."""
    limit = f"LIMIT DURATION(second, {draw(st.integers(1, 9))})"
    extra = draw(
        st.sampled_from(
            ["", " AND ISFIRST(second, 3) OVER (PARTITION BY b.k) = 1", f" AND LAG(a.k) OVER ({limit}) = b.k"]
        )
    )
    where = draw(st.sampled_from(["", f" WHERE COUNT(b.k) OVER ({limit}) > 1"]))
    query = (
        f"SELECT a.k, LAG(a.v) OVER (PARTITION BY a.k {limit}) AS p, LAST(b.v) OVER ({limit}) AS q, "
        f"System.Timestamp() AS at FROM x a TIMESTAMP BY t {draw(st.sampled_from(['JOIN', 'LEFT JOIN']))} "
        f"y b TIMESTAMP BY t ON a.k = b.k AND DATEDIFF(second, a, b) BETWEEN -2 AND 3{extra}{where}"
    )
    return Trial(query, {"x": draw(events(most=10)), "y": draw(events(most=10))}, draw(settings()))


@given(of_joins(), manners())
@examples(reproducible, max_examples=depth(15))
def test_analytic_functions_of_joined_streams_see_the_rows_before_the_join(
    trial: Trial, manner: Manner
) -> None:
    check_rows(trial, manner)


@given(st.one_of(mixtures(), in_groups(), over_windows(), of_substreams(), of_unions()), manners())
@examples(reproducible, max_examples=depth(60))
def test_analytic_functions_anywhere_give_the_oracles_rows_in_any_batches_and_restarts(
    trial: Trial, manner: Manner
) -> None:
    check_rows(trial, manner)


@given(applies(), manners())
@examples(reproducible, max_examples=depth(15))
def test_apply_gives_the_oracles_rows_in_any_batches_and_restarts(trial: Trial, manner: Manner) -> None:
    check_rows(trial, manner)


ELEMENTS = st.lists(
    st.sampled_from([1, 2.5, "x", None, True, [1, [2]], {"a": 1, "b": None}, {"a": {"c": "y"}}]), max_size=4
)
COLLECTIONS = st.one_of(ELEMENTS, ELEMENTS, st.none(), st.just("absent"))


@st.composite
def with_collections(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Events with an array of anything, some in a record `r`."""
    rows = draw(events(most=10))
    for row in rows:
        elements = draw(COLLECTIONS)
        if elements != "absent":
            row["l"] = elements
        record = draw(st.sampled_from([None, {}, {"p": 1, "q": elements, "w x": "s"}, {"a b.c": {"d": 1}}]))
        row["r"] = None if elements == "absent" else record
    return rows


@st.composite
def applied_chains(draw: st.DrawFn) -> Trial:
    """APPLY, APPLY of what it gave, and steps over its rows, which stay in the order of the elements."""
    kind, again = (draw(st.sampled_from(["CROSS", "OUTER"])) for _ in range(2))
    source, window = draw(clocks()), draw(windows(sessions=False))
    elements = f"{source} {kind} APPLY GetArrayElements(l) AS e"
    query = draw(
        st.sampled_from(
            [
                f"SELECT k, e.ArrayIndex AS i, e.ArrayValue AS v, e.ArrayValue.a AS a, e FROM {elements}",
                f"SELECT *, p.PropertyName + '!' AS n FROM {source} {kind} APPLY GetRecordProperties(r) AS p",
                f"SELECT p.*, v FROM {source} CROSS APPLY GetRecordProperties(r) AS p WHERE v > 0",
                f"SELECT e.ArrayIndex AS i, p.PropertyName AS n, p.PropertyValue AS v FROM {elements} "
                f"{again} APPLY GetRecordProperties(TRY_CAST(e.ArrayValue AS record)) AS p",
                f"WITH s AS (SELECT k, e.ArrayValue AS v FROM {elements}) "
                "SELECT k, v, LAG(v) OVER (PARTITION BY k LIMIT DURATION(second, 9)) AS p, "
                "COUNT(*) OVER (LIMIT DURATION(second, 5)) AS n FROM s",
                f"SELECT e.ArrayIndex AS i, COUNT(*) AS n, COUNT(e.ArrayValue) AS c FROM {elements} "
                f"GROUP BY e.ArrayIndex, {window}",
                f"SELECT e.ArrayValue AS v FROM {source} "
                f"{kind} APPLY GetArrayElements(LAG(l) OVER (PARTITION BY k LIMIT DURATION(second, 9))) AS e",
            ]
        )
    )
    return Trial(query, {"events": draw(with_collections())}, draw(settings()))


@given(applied_chains(), manners())
@examples(reproducible, max_examples=depth(30))
def test_apply_anywhere_gives_the_oracles_rows_in_any_batches_and_restarts(
    trial: Trial, manner: Manner
) -> None:
    check_rows(trial, manner)


# ---------------------------------------------------------------- what crosses between stages


def sent_columns(query: str) -> list[set[str]]:
    """The columns of the rows each SendOp of a topology sends, the order columns aside."""
    topology = compiled_for(query, {"x": []}, None).topology
    sources = [topology.op(op.source) for op in topology.ops if isinstance(op, SendOp)]
    return [{item.name for item in op.rows.items} for op in sources if isinstance(op, RowsOp)]


def test_only_columns_somebody_reads_are_sent() -> None:
    over = "OVER (PARTITION BY k LIMIT DURATION(minute, 1))"
    assert sent_columns(f"SELECT LAG(v) {over} AS p FROM x") == [{"$payload.k", "$payload.v"}]
    assert sent_columns(f"SELECT LAG(*) {over}.v AS p FROM x") == [{"$payload.k", "$payload.v"}]
    assert sent_columns(f"SELECT a, LAG(v) {over} AS p FROM x WHERE b.c = 1") == [
        {"$payload.k", "$payload.v", "$payload.a", "$payload.b.c"}
    ]
    assert sent_columns(f"SELECT LAG(v) {over} AS p, * FROM x") == [{"$payload.k", "$payload.v", "$payload"}]


def test_a_group_by_the_key_of_the_functions_needs_no_second_exchange() -> None:
    over = "OVER (PARTITION BY k LIMIT DURATION(minute, 1))"
    query = "SELECT {0}, MAX(LAG(v) {1}) AS m FROM x GROUP BY {0}, TumblingWindow(minute, 1)"
    assert compiled_for(query.format("k", over), {"x": []}, None).topology.levels == 1
    assert compiled_for(query.format("j", over), {"x": []}, None).topology.levels == 2


def test_functions_over_windows_by_the_same_key_need_no_second_exchange() -> None:
    query = (
        "WITH w AS (SELECT k, COUNT(*) AS n FROM x GROUP BY k, TumblingWindow(second, 1)) "
        "SELECT LAG(n) OVER (PARTITION BY k LIMIT DURATION(minute, 1)) AS p FROM w"
    )
    assert compiled_for(query, {"x": []}, None).topology.levels == 1
