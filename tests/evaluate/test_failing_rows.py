"""The rows on which a program fails: those that fail alone, found by few statements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.depth import depth
from support.evaluating import call, cast
from tideglass.core import sql
from tideglass.core.errors import EvaluationError
from tideglass.core.json_rows import rows_of, table_of
from tideglass.core.types import PAYLOAD, Type
from tideglass.evaluate.program import Program
from tideglass.functions import javascript
from tideglass.plan.expressions import Call, Expr, Path, Ref, payload_field
from tideglass.plan.nodes import Named

X, Y = Ref("x"), Ref("y")

javascript.define({"picky": "function f(x) { if (x === 2) throw new Error('two'); return x; }"})

values_of_any_type = st.one_of(
    st.none(),
    st.sampled_from([0, 1, 2, -3, 2**63 - 1]),
    st.sampled_from([0.5, 1e308]),
    st.sampled_from(["a", "2", "2020-01-01", "error('x')"]),
    st.booleans(),
    st.sampled_from([{"a": 1}, {"a": "x"}, [1]]),
)
expressions: st.SearchStrategy[Expr] = st.sampled_from(
    [
        call("+", X, Y),
        call("/", X, Y),
        call("+", call("/", 6, X), Y),
        call("*", X, 1e10),
        call("=", call("/", 1, X), Y),
        call("<", X, Y),
        call("+", Path(X, ("a",)), 1),
        cast(X, Type.BIGINT, lenient=False),
        cast(Y, Type.DATETIME, lenient=False),
        call("left", Y, X),
        call("sqrt", X),
        call("square", X),
        call("power", X, 3),
        call("isnull", cast(X, Type.BIGINT, lenient=False)),
        call("coalesce", call("/", 1, Y), cast(X, Type.FLOAT, lenient=False)),
        call("+", Call("udf.picky", (X,)), 1),
    ]
)


def fails(program: Program, table: pa.Table) -> bool:
    try:
        program.run(table)
    except EvaluationError:
        return True
    return False


@given(
    st.lists(st.tuples(values_of_any_type, values_of_any_type), min_size=1, max_size=8),
    st.lists(expressions, min_size=1, max_size=2),
    st.none() | expressions,
)
@example([(1, 0), (None, 0)], [call("isnull", cast(X, Type.DATETIME, lenient=False))], None)
@settings(max_examples=depth(150), deadline=None)
def test_they_are_those_that_fail_alone(
    pairs: list[tuple[Any, Any]], exprs: list[Expr], tested: Expr | None
) -> None:
    table = table_of([{"x": x, "y": y} for x, y in pairs])
    condition = None if tested is None else call("isnull", call("nullif", tested, 1))
    program = Program(tuple(Named(f"c{n}", e) for n, e in enumerate(exprs)), condition)
    alone = [n for n in range(len(pairs)) if fails(program, table.slice(n, 1))]
    assert program.failing(table).tolist() == alone


def test_a_number_outside_every_type_fails_in_its_row() -> None:
    texts = ['{"a":1}', '{"a":9223372036854775808}', '{"a":"x"}']
    table = pa.table({PAYLOAD: texts}).cast(table_of([{PAYLOAD: {"a": 1}}]).schema)
    program = Program((Named("a", payload_field("a")),))
    assert program.failing(table).tolist() == [1]


def test_a_text_of_the_query_that_looks_like_sql_stays_a_text() -> None:
    program = Program((Named("c", call("/", 1, call("-", call("len", call("concat", X, "error('")), 8))),))
    assert program.failing(table_of([{"x": "a"}, {"x": "ab"}])).tolist() == [0]


@pytest.mark.parametrize("expr", [cast(X, Type.BIGINT, lenient=False), call("+", call("/", 6, Y), X)])
def test_many_take_as_many_statements_as_few(expr: Expr, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    query_by = sql.query_by

    def counted(duck: Any, statement: str, **tables: pa.Table) -> pa.Table:
        asked.append(statement)
        return query_by(duck, statement, **tables)

    monkeypatch.setattr(sql, "query_by", counted)

    def left_out(every: int) -> tuple[int, int]:
        """How many of 5000 rows are left out where each so-manieth fails, and by how many statements."""
        places = np.arange(5000)
        rows = [
            {"n": int(n), "x": "nine" if n % every == every - 1 else str(n), "y": int((n + 1) % every)}
            for n in places
        ]
        told: list[int] = []
        asked.clear()
        kept = Program((Named("c", expr),), call("<>", X, "none"), keep=("n",)).run(
            table_of(rows), lambda count, _: told.append(count)
        )
        assert [row["n"] for row in rows_of(kept)] == [n for n in places if n % every != every - 1]
        return sum(told), len(asked)

    few, many = left_out(2500), left_out(4)
    assert (few[0], many[0]) == (2, 1250)
    assert max(few[1], many[1]) <= 40
