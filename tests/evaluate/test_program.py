"""Programs over tables: types per value, laziness, order, errors."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from support.evaluating import call, cast, column, lift, value, values
from tideglass.core.columns import unify
from tideglass.core.errors import EvaluationError, Span
from tideglass.core.json_rows import rows_of, table_of
from tideglass.core.types import PAYLOAD, Type, types_of
from tideglass.evaluate.program import Program
from tideglass.functions import javascript
from tideglass.plan.expressions import Call, Case, Expr, Literal, Path, Ref, payload_field
from tideglass.plan.nodes import Named
from tideglass.plan.to_sql import NeedsColumn, lower

X, Y = Ref("x"), Ref("y")


def case(*branches: tuple[Expr, Any], otherwise: Any = None) -> Case:
    return Case(tuple((when, lift(then)) for when, then in branches), lift(otherwise))


def run(
    rows: list[dict[str, Any]], *exprs: Expr, where: Expr | None = None, **more: Any
) -> list[dict[str, Any]]:
    items = tuple(Named(f"c{place}", expr) for place, expr in enumerate(exprs))
    return rows_of(Program(items, where, **more).run(table_of(rows)))


def events(*payloads: dict[str, Any]) -> list[dict[str, Any]]:
    return [{PAYLOAD: payload} for payload in payloads]


def test_items_and_kept_columns_come_in_row_order() -> None:
    rows = [{"x": i, "k": f"k{i}"} for i in range(5)]
    found = run(rows, call("*", X, 2), X, where=call("<>", X, 2), keep=("k",))
    assert found == [{"c0": i * 2, "c1": i, "k": f"k{i}"} for i in (0, 1, 3, 4)]


def test_a_condition_that_is_null_drops_the_row() -> None:
    rows = [{"x": 1, "b": None}, {"x": 2, "b": True}, {"x": None, "b": False}]
    assert run(rows, X, where=Ref("b")) == [{"c0": 2}]
    assert run(rows, X, where=call("not", call("=", X, 1))) == [{"c0": 2}, {"c0": None}]


def test_an_item_is_not_evaluated_on_rows_the_condition_drops() -> None:
    rows = [{"x": 0}, {"x": 2}]
    assert run(rows, call("/", 4, X), where=call("<>", X, 0)) == [{"c0": 2}]
    payloads = events({"x": 0}, {"x": 2})
    field = payload_field("x")
    assert run(payloads, call("/", 4, field), where=call("<>", field, 0)) == [{"c0": 2}]


def test_a_program_without_rows_has_its_columns() -> None:
    empty = table_of([{"x": 1, "k": "a"}]).slice(0, 0)
    result = Program((Named("c", call("+", X, 1)),), call(">", X, 0), keep=("k",)).run(empty)
    assert (result.num_rows, result.column_names) == (0, ["c", "k"])


def test_a_program_that_reads_no_column_gives_one_value_a_row() -> None:
    assert run([{"x": 1}, {"x": 2}], lift(7), call("+", 1, 1)) == [{"c0": 7, "c1": 2}] * 2


# ---------------------------------------------------------------- what is not taken is not evaluated


FAILING = call("/", 1, call("-", X, X))


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (call("and", call("=", X, 0), call("=", FAILING, 1)), False),
        (call("or", call("=", X, 1), call("=", FAILING, 1)), True),
        (case((call("=", X, 1), 5), otherwise=FAILING), 5),
        (case((call("=", X, 0), FAILING), otherwise=6), 6),
        (call("coalesce", X, FAILING), 1),
        (call("and", call("=", X, 0), call("=", cast("abc", Type.BIGINT), 1)), False),
        (call("and", call("=", X, 0), call("=", Call("udf.boom", ()), 1)), False),
        (case((call("=", X, 0), call("+", Call("udf.boom", ()), 1)), otherwise=6), 6),
        (call("coalesce", X, call("+", Call("udf.boom", (X,)), 1)), 1),
    ],
)
def test_a_branch_not_taken_cannot_fail(expr: Expr, expected: Any) -> None:
    javascript.define({"boom": "function f() { throw new Error('no'); }"})
    assert value(expr, x=1) == expected


def test_the_same_failing_part_under_two_guards_runs_where_either_holds() -> None:
    javascript.define({"checked": "function f(x) { if (x === 0) throw new Error('zero'); return 12 / x; }"})
    part = call("+", Call("udf.checked", (X,)), 0)
    expr = case((call("=", X, 3), part), (call("=", X, 4), part), otherwise=-1)
    assert [row["c0"] for row in run([{"x": 0}, {"x": 3}, {"x": 4}, {"x": 5}], expr)] == [-1, 4, 3, -1]


# ---------------------------------------------------------------- types of values


def test_case_has_the_type_of_the_value_taken() -> None:
    expr = case((call("=", X, 1), "one"), (call("=", X, 2), Y), otherwise=None)
    rows = [{"x": 1, "y": 5}, {"x": 2, "y": 6}, {"x": 3, "y": 7}]
    assert [row["c0"] for row in run(rows, expr)] == ["one", 6, None]
    assert [row["c0"] for row in run(rows[1:], call("+", expr, 1))] == [7, None]
    assert [row["c0"] for row in run(rows, call("gettype", expr))] == ["nvarchar(max)", "bigint", None]


def test_a_float_among_the_results_of_case_makes_bigints_floats() -> None:
    found = values(case((call("=", X, 1), X), otherwise=0.5), column([1, 2]))
    assert [type(v) for v in found] == [float, float]


def test_the_type_of_case_does_not_depend_on_other_rows() -> None:
    expr = case((call("=", X, 1), X), otherwise=Y)
    together = run([{"x": 1, "y": 2.5}, {"x": 2, "y": 2.5}], expr)
    assert [type(row["c0"]) for row in together] == [int, float]


values_of_any_type = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.sampled_from([0.5, -1.5, 2.0]),
    st.sampled_from(["a", "2", "1.5", "2020-01-01", ""]),
    st.booleans(),
    st.sampled_from([{"a": 1, "B": "x"}, {"a": 2.5}, {}]),
    st.sampled_from([[1, "x"], []]),
)
EXPRESSIONS: tuple[Expr, ...] = (
    call("+", X, Y),
    call("/", X, Y),
    call("=", X, Y),
    call("<>", X, Y),
    call("in", X, Y, 1, "a"),
    call("coalesce", X, Y),
    call("nullif", X, Y),
    call("gettype", X),
    call("concat", X, Y, "!"),
    call("record.of", "x", X, "y", Y),
    call("and", call("=", call("gettype", X), "bigint"), call(">", X, 0)),
    case((call("=", call("gettype", X), "bigint"), call("+", X, 1)), otherwise=Y),
    Path(X, ("a",)),
    call("+", Path(X, ("a",)), 1),
    Path(X, ("b",)),
    cast(X, Type.BIGINT, lenient=True),
    cast(X, Type.FLOAT, lenient=True),
    cast(X, Type.NVARCHAR, lenient=True),
    cast(X, Type.BIT, lenient=True),
    cast(X, Type.DATETIME, lenient=True),
    call("coalesce", cast(X, Type.BIGINT, lenient=True), Y, "none"),
    call("isnull", X),
    call("round", X, 0),
    call("like", X, "%a%"),
)


def outcome(program: Program, table: pa.Table) -> Any:
    try:
        return [[(type(v), v) for v in row.values()] for row in rows_of(program.run(table))]
    except EvaluationError:
        return "fails"


@given(
    st.lists(st.tuples(values_of_any_type, values_of_any_type), min_size=1, max_size=5),
    st.sampled_from(EXPRESSIONS),
)
@settings(max_examples=depth(120), deadline=None)
def test_a_mixed_column_gives_what_each_row_alone_gives(pairs: list[tuple[Any, Any]], expr: Expr) -> None:
    rows = [{"x": x, "y": y} for x, y in pairs]
    program = Program((Named("c", expr),))
    alone = [outcome(program, table_of([row])) for row in rows]
    together = outcome(program, table_of(rows))
    if "fails" in alone:
        assert together == "fails"
    else:
        assert together == [row for part in alone for row in part]


@given(st.lists(st.tuples(values_of_any_type, values_of_any_type), min_size=2, max_size=6), st.integers(1, 5))
@settings(max_examples=depth(60), deadline=None)
def test_where_a_table_is_cut_does_not_matter(pairs: list[tuple[Any, Any]], cut: int) -> None:
    rows = [{"x": x, "y": y} for x, y in pairs]
    program = Program((Named("c", call("coalesce", X, Y)),), call("<>", X, 1), keep=("y",))
    table = table_of(rows)
    parts = [program.run(table.slice(0, cut)), program.run(table.slice(cut))]
    assert rows_of(unify(parts)) == rows_of(program.run(table))


# ---------------------------------------------------------------- fields of events


def test_fields_have_the_type_of_their_values() -> None:
    rows = events({"a": 1, "b": {"c": "x"}}, {"a": 2.5, "b": 7}, {"a": None}, {})
    a, c = payload_field("a"), payload_field("b", "c")
    found = run(rows, a, c, call("+", a, 1), call("gettype", a))
    assert found == [
        {"c0": 1, "c1": "x", "c2": 2, "c3": "bigint"},
        {"c0": 2.5, "c1": None, "c2": 3.5, "c3": "float"},
        {"c0": None, "c1": None, "c2": None, "c3": None},
        {"c0": None, "c1": None, "c2": None, "c3": None},
    ]


def test_a_path_into_something_that_is_no_record_is_null() -> None:
    assert run([{"x": 1}, {"x": "s"}, {"x": [1]}, {"x": {"0": 5}}], Path(X, ("0",))) == [
        {"c0": None},
        {"c0": None},
        {"c0": None},
        {"c0": 5},
    ]


def test_a_name_is_found_exactly_or_else_in_another_case_if_that_is_unique() -> None:
    rows = events(
        {"TollId": 1},
        {"tollid": 2},
        {"TOLLID": 3, "tollId": 4},
        {"TollID": 5, "TollId": 6},
        {"other": "tollid"},
        {"o": {"TollId": 9}},
        {"TOLLID": 7, "v": "tollid"},
    )
    assert [row["c0"] for row in run(rows, payload_field("TollId"))] == [1, 2, None, 6, None, None, 7]


def test_a_null_field_is_not_looked_up_in_another_case() -> None:
    assert run(events({"a": None, "A": 5}), payload_field("a")) == [{"c0": None}]


def test_nested_names_are_found_in_another_case() -> None:
    rows = events({"Device": {"ID": 1}}, {"device": {"Id": 2}}, {"device": {"id": 3}})
    assert [row["c0"] for row in run(rows, payload_field("device", "id"))] == [1, 2, 3]


def test_what_values_decide_can_be_nested() -> None:
    rows = events({"list": [{"v": 1}, {"v": "2"}], "i": 1}, {"list": [{"v": 3.5}], "i": 0}, {"list": "no"})
    element = call("getarrayelement", payload_field("list"), payload_field("i"))
    assert run(rows[:2], Path(element, ("v",)), call("+", Path(element, ("v",)), 1)) == [
        {"c0": "2", "c1": 3.0},
        {"c0": 3.5, "c1": 4.5},
    ]
    assert run(rows[2:], Path(element, ("v",))) == [{"c0": None}]
    parsed = Path(call("json_parse", X), ("a",))
    assert [row["c0"] for row in run([{"x": '{"a":1}'}, {"x": "no"}, {"x": '{"A":"z"}'}], parsed)] == [
        1,
        None,
        "z",
    ]


def test_one_and_one_point_zero_are_different_constants() -> None:
    exprs = [Call("udf.kind", (Literal(v),)) for v in (1, 1.5, True)]
    javascript.define({"kind": "function f(x) { return typeof x; }"})
    assert run([{"x": 1}], *[call("concat", e, "") for e in exprs]) == [
        {"c0": "number", "c1": "number", "c2": "boolean"}
    ]


def test_a_number_outside_every_type_stops_the_job() -> None:
    table = pa.table({PAYLOAD: ['{"a":9223372036854775808}']}).cast(table_of(events({"a": 1})).schema)
    with pytest.raises(EvaluationError, match="outside the range"):
        Program((Named("a", payload_field("a")),)).run(table)


# ---------------------------------------------------------------- errors and explanation


def test_an_error_names_the_part_of_the_query_and_the_row() -> None:
    part = Call("/", (Literal(1), X), Span(10, 15))
    expr = Call("+", (Literal(1), Call("abs", (part,), Span(6, 16))), Span(2, 16))
    with pytest.raises(EvaluationError, match=r"division by zero\. The row has \{\"x\":0\}") as failure:
        run([{"x": i} for i in (5, 3, 0, 1)], Literal(1), expr)
    assert failure.value.span == Span(10, 15)


def test_an_error_in_a_field_names_its_part_too() -> None:
    part = Call("/", (Literal(1), payload_field("x")), Span(10, 15))
    with pytest.raises(EvaluationError, match="division by zero") as failure:
        run(events({"x": 1}, {"x": 0}, {"x": "1"}), call("and", call("=", 1, 1), call("=", part, 1)))
    assert failure.value.span == Span(10, 15)


def test_sql_shows_the_statement_for_some_types() -> None:
    program = Program((Named("z", call("+", X, 1)),), call(">", X, 0), keep=("k",))
    sql = program.sql({"x": Type.BIGINT, "k": Type.NVARCHAR})
    assert '("x" + CAST(1 AS BIGINT)) AS "z"' in sql
    assert "WHERE" in sql
    shown = Program((Named("z", call("+", payload_field("a"), 1)),)).sql({PAYLOAD: Type.RECORD})
    assert "json_extract" in shown


def test_lower_asks_for_columns_whose_type_only_values_know() -> None:
    assert lower(call("+", X, 1), {"x": Type.FLOAT}).type is Type.FLOAT
    with pytest.raises(NeedsColumn) as asked:
        lower(call("+", payload_field("a"), 1), {PAYLOAD: Type.RECORD})
    assert [need.expr for need in asked.value.needs] == [payload_field("a")]


def test_a_uniform_program_is_one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    from tideglass.evaluate import block as module

    asked: list[str] = []
    real = module.query

    def counting(sql: str, **tables: pa.Table) -> pa.Table:
        asked.append(sql)
        return real(sql, **tables)

    monkeypatch.setattr(module, "query", counting)
    made = Program((Named("z", call("+", X, 1)), Named("x", X)), call(">", X, 0), keep=("k",))
    result = made.run(table_of([{"x": 1, "k": None}, {"x": 0, "k": None}]))
    assert len(asked) == 1
    assert types_of(result) == {"z": Type.BIGINT, "x": Type.BIGINT, "k": Type.NULL}
