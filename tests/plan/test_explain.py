"""What a topology will do, in words a reader of the query understands."""

from __future__ import annotations

from tideglass.compile import compile_query
from tideglass.core.errors import Source
from tideglass.plan.explain import explain_stages, explain_steps
from tideglass.runtime.stage import program_sql
from tideglass.temporal.policies import Policies

QUERY = """
WITH a AS (SELECT k, v, LAG(v) OVER (PARTITION BY k LIMIT DURATION(minute, 5) WHEN v > 0) AS p,
    SUM(v) OVER (PARTITION BY k LIMIT DURATION(second, 90)) AS s FROM x TIMESTAMP BY t)
SELECT k, e.ArrayValue AS v FROM a OUTER APPLY GetArrayElements(p) AS e
"""


def test_analytic_functions_and_apply_are_told_in_words() -> None:
    compiled = compile_query(Source(QUERY), Policies(), key_groups=2)
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
