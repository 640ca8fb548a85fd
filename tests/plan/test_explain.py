"""What a topology will do, in words a reader of the query understands."""

from __future__ import annotations

import pytest

from tideglass.compile import compile_query
from tideglass.core.errors import Source
from tideglass.core.ipc import from_bytes
from tideglass.core.time import TICKS_PER_MILLISECOND, format_ticks, parse_ticks
from tideglass.engine.exchange import Exchange, RowSink
from tideglass.engine.messages import Kind
from tideglass.evaluate.program_sql import program_sql
from tideglass.ingress.scan import Scan, ScanState
from tideglass.plan.explain import CrossingText, explain_crossings, explain_stages, explain_steps
from tideglass.project.settings import JobSettings, from_options
from tideglass.testing import compile_rows, partition_batches

START_TICKS = parse_ticks("2026-01-01T00:00:00.001Z") or 0

QUERY = """
WITH a AS (SELECT k, v, LAG(v) OVER (PARTITION BY k LIMIT DURATION(minute, 5) WHEN v > 0) AS p,
    SUM(v) OVER (PARTITION BY k LIMIT DURATION(second, 90)) AS s FROM x TIMESTAMP BY t)
SELECT k, e.ArrayValue AS v FROM a OUTER APPLY GetArrayElements(p) AS e
"""


def test_analytic_functions_and_apply_are_told_in_words() -> None:
    compiled = compile_query(Source(QUERY), JobSettings(), key_groups=2)
    assert [(step.name, step.look_back) for step in explain_steps(compiled.plan)] == [
        ("a", "5m"),
        ("INTO output", "5m"),
    ]
    operators = [text for stage in explain_stages(compiled.topology) for text in stage.operators]
    told = "\n".join(operators)
    assert "LAG($payload.v) within 5m by $payload.k of some rows" in told
    assert "by hash of $payload.k: rows cross" in told
    assert "a row for each element of $apply" in told
    assert "or one with NULLs" in told
    # a function nobody reads is left out
    assert "SUM" not in told
    assert len(program_sql(compiled.topology)) == 3


def test_a_pattern_is_told_in_words() -> None:
    query = (
        "SELECT * FROM i MATCH_RECOGNIZE (LIMIT DURATION(minute, 5) PARTITION BY k MEASURES B.v AS v "
        "AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ (B | .)) DEFINE A AS A.v > 1, B AS B.v < A.v)"
    )
    compiled = compile_query(Source(query), JobSettings(), key_groups=2)
    assert [step.look_back for step in explain_steps(compiled.plan)] == ["5m"]
    told = "\n".join(text for stage in explain_stages(compiled.topology) for text in stage.operators)
    assert "match A+ (B | .) within 5m by $payload.k among #" in told


def crossings(query: str) -> tuple[CrossingText, ...]:
    return explain_crossings(compile_query(Source(query), JobSettings(), key_groups=4).topology)


def test_an_exchange_tells_columns_and_spread_of_what_it_carries() -> None:
    (first, second) = crossings(
        "WITH w AS (SELECT k, COUNT(*) AS n, AVG(v) AS m FROM x TIMESTAMP BY t "
        "GROUP BY k, TumblingWindow(second, 10)) "
        "SELECT COUNT(DISTINCT k) AS c, MAX(m) AS m INTO o FROM w GROUP BY TumblingWindow(minute, 1)"
    )
    assert (first.route.split(": ")[1], first.spread) == ("scan to stage 1", "by hash of k to 4 key groups")
    assert (first.columns, first.rows.split(":")[0]) == (("k", "COUNT(*)", "AVG(v)"), "partial aggregates")
    assert (second.route.split(": ")[1], second.spread) == ("stage 1 to stage 2", "all to one key group")
    assert second.columns[0].startswith("COUNT(DISTINCT")


def test_what_looks_at_single_rows_gets_raw_rows_of_the_columns_it_reads() -> None:
    (only,) = crossings(
        "SELECT k, v - LAG(v) OVER (PARTITION BY k LIMIT DURATION(minute, 1)) AS step "
        "INTO o FROM x TIMESTAMP BY t"
    )
    assert (only.rows, sorted(only.columns)) == ("raw rows", ["k", "v"])
    assert only.spread == "by hash of k to 4 key groups"


@pytest.mark.parametrize(
    ("query", "exchanges"),
    [
        ("SELECT k, v INTO o FROM x TIMESTAMP BY t WHERE v > 1", 0),
        ("SELECT k, v INTO o FROM x TIMESTAMP BY t OVER k", 0),
        ("SELECT PartitionId, COUNT(*) AS n INTO o FROM x PARTITION BY PartitionId "
         "GROUP BY PartitionId, TumblingWindow(second, 1)", 1),
        ("WITH a AS (SELECT PartitionId, k, COUNT(*) AS n FROM x PARTITION BY PartitionId "
         "GROUP BY PartitionId, TumblingWindow(second, 1), k), "
         "b AS (SELECT PartitionId, k, MAX(n) AS n FROM a PARTITION BY PartitionId "
         "GROUP BY PartitionId, k, TumblingWindow(minute, 1)) "
         "SELECT PartitionId, k, AVG(n) AS n INTO o FROM b PARTITION BY PartitionId "
         "GROUP BY k, PartitionId, HoppingWindow(hour, 1, 1)", 1),
        ("WITH a AS (SELECT k, COUNT(*) AS n FROM x GROUP BY k, TumblingWindow(second, 1)) "
         "SELECT k, n, LAG(n) OVER (PARTITION BY k LIMIT DURATION(hour, 1)) AS p INTO o FROM a", 1),
    ],
    ids=["projection", "substreams", "partitions", "partitions, three steps", "same keys"],
)  # fmt: skip
def test_steps_over_the_same_partitions_need_no_exchange_between_them(query: str, exchanges: int) -> None:
    topology = compile_query(Source(query), JobSettings(), key_groups=4).topology
    assert (len(explain_crossings(topology)), topology.levels) == (exchanges, exchanges)


@pytest.mark.parametrize("window", ["TumblingWindow(second, 10)", "HoppingWindow(second, 60, 10)"])
def test_aggregates_are_combined_before_an_exchange(window: str) -> None:
    """A thousand events of three keys within ten seconds cross as a row for each key."""
    rows = [
        {"k": f"k{n % 3}", "v": n, "t": format_ticks(START_TICKS + n * 10 * TICKS_PER_MILLISECOND)}
        for n in range(1000)
    ]
    query = f"SELECT k, COUNT(*) AS n, AVG(v) AS m INTO o FROM i TIMESTAMP BY t GROUP BY k, {window}"
    topology = compile_rows(query, {"i": rows}, from_options(None)).topology
    (share,) = partition_batches(topology, {"i": rows})
    exchange = Exchange(topology, 0, "i/0", RowSink())
    messages, _ = Scan(topology, "i").run(0, "0", share.chunks, ScanState(), exchange)
    crossing = [from_bytes(message.body).num_rows for message in messages if message.kind is Kind.DATA]
    assert sum(crossing) == 3
