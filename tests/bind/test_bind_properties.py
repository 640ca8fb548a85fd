"""What holds for every query: plans refer only to what is there, and nothing but QueryError is raised."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.binding import bound, errors, plan
from support.cases import case_paths, load
from support.depth import depth
from tideglass.bind.catalog import InputInfo
from tideglass.core.errors import Diagnostic, QueryError
from tideglass.core.types import ORDER_COLUMNS, PANE, PAYLOAD, WINDOW_ID
from tideglass.plan.expressions import Expr, references
from tideglass.plan.nodes import (
    Aggregate,
    Analytic,
    Apply,
    Filter,
    InputScan,
    Join,
    Lookup,
    Match,
    Node,
    Plan,
    Projection,
    StepRef,
    Union,
)
from tideglass.plan.windows import Session


def expressions(node: Node) -> Iterator[Expr]:
    """The expressions of an operator over the rows of its child (of a scan: over the event)."""
    match node:
        case InputScan(timestamp=timestamp, over=over, partition_by=partition_by):
            yield from (*([] if timestamp is None else [timestamp]), *over, *partition_by)
        case Filter(condition=condition):
            yield condition
        case Projection(items=items, spread=spread):
            yield from (item.expr for item in items)
            yield from [] if spread is None else [spread]
        case Aggregate(windows=windows, keys=keys, aggregates=aggregates):
            yield from (key.expr for key in keys)
            for window in windows:
                if isinstance(window, Session):
                    yield from window.partition_by or ()
            for _, call in aggregates:
                yield from [] if call.arg is None else [call.arg]
                yield from (expr for expr, _ in call.order_by)
        case Analytic(calls=calls):
            for _, call in calls:
                yield from call.partition_by
                yield from (e for e in (call.arg, call.default, call.when) if e is not None)
                if call.aggregate is not None:
                    yield from [] if call.aggregate.arg is None else [call.aggregate.arg]
                    yield from (expr for expr, _ in call.aggregate.order_by)
        case Apply(argument=argument):
            yield argument
        case Match(partition_by=keys, values=values):
            yield from keys
            yield from (value.arg for value in values if value.arg is not None)
        case Join(keys=keys, condition=condition) | Lookup(keys=keys, condition=condition):
            yield from (side for pair in keys for side in pair)
            yield from [] if condition is None else [condition]
        case StepRef() | Union():
            return


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Filter(child=child) | Projection(child=child) | Aggregate(child=child):
            return (child,)
        case Analytic(child=child) | Apply(child=child) | Match(child=child) | Lookup(left=child):
            return (child,)
        case Join(left=left, right=right):
            return left, right
        case Union(children=parts):
            return parts
        case InputScan() | StepRef():
            return ()


def has_window_ids(node: Node) -> bool:
    match node:
        case Aggregate(windows=windows):
            return any(window.id is not None for window in windows)
        case Filter(child=child):
            return has_window_ids(child)
        case _:
            return False


def readable(node: Node) -> set[str]:
    """The columns an operator above `node` may read."""
    engine = {
        *ORDER_COLUMNS,
        *([PAYLOAD] if node.open else []),
        PANE,
        *([WINDOW_ID] if has_window_ids(node) else []),
    }
    return {*node.columns, *engine}


def check_node(node: Node, steps: Mapping[str, Node]) -> None:
    below = children(node)
    allowed = readable(below[0]) if below else {PAYLOAD, *ORDER_COLUMNS} - {"$ts"}
    if isinstance(node, Join):
        allowed = {*node.columns, "$ts"}
        assert {bound.base for bound in node.bounds} <= allowed
    if isinstance(node, Lookup):
        allowed = {*node.columns, "$ts"}
    for expr in expressions(node):
        assert set(references(expr)) <= allowed, (node, expr)
    if isinstance(node, StepRef):
        assert (node.columns, node.open) == (steps[node.name].columns, steps[node.name].open)
    if isinstance(node, Aggregate):
        assert node.windows
    if isinstance(node, Match):
        looked_at = {*(value.name for value in node.values), *ORDER_COLUMNS}
        assert all(set(references(variable.condition)) <= looked_at for variable in node.variables)
        assert set(node.measured) <= looked_at
    if isinstance(node, Union):
        assert len({child.columns for child in below}) == 1
    assert len(set(node.columns)) == len(node.columns)
    for child in below:
        check_node(child, steps)


def check_plan(job: Plan) -> None:
    steps: dict[str, Node] = {}
    for name, node in job.steps:
        check_node(node, steps)
        steps[name] = node
    for output in job.outputs:
        check_node(output.node, steps)


def plan_or_errors(
    text: str, inputs: Mapping[str, InputInfo] | None, level: str, functions: Mapping[str, str] | None = None
) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
    try:
        return bound(text, inputs, level, functions).plan, ()
    except QueryError as error:
        return None, error.diagnostics


@pytest.mark.parametrize("path", list(case_paths()), ids=lambda path: path.stem)
def test_every_case_that_compiles_has_a_sound_plan(path: pathlib.Path) -> None:
    case = load(path)
    inputs = {name: InputInfo(name) for name in case.inputs}
    inputs |= {name: InputInfo(name, "reference") for name in case.reference}
    job, found = plan_or_errors(
        case.query, inputs, case.settings.get("compatibility_level", "1.2"), case.functions
    )
    unsupported = bool(found) and {each.code for each in found} == {"NOT_YET_SUPPORTED"}
    assert unsupported or (job is not None) == case.compiles, found
    if job is not None:
        check_plan(job)


#: Mostly sound pieces, so that many queries bind, and some broken ones.
ROW_VALUES = [
    "a",
    "b",
    "s.a",
    "r.x.y",
    "Id",
    "PartitionId",
    "System.Timestamp()",
    "NULL",
    "1.5",
    "'x'",
    '"q"',
]
GROUP_VALUES = ["a", "b", "COUNT(*)", "SUM(a)", "COUNT(DISTINCT s)", "Collect()", "System.Window().Id", "1"]
BROKEN_VALUES = ["GETDATE()", "SUM(MAX(a))", "nope(a)", "UPPER()", "CASE WHEN a = 1 THEN 2 END"]


def values(leaves: list[str]) -> st.SearchStrategy[str]:
    rarely_broken = st.integers(0, 30).flatmap(lambda n: st.sampled_from(BROKEN_VALUES if n == 0 else leaves))
    return st.recursive(
        rarely_broken,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from("+-*/%&|^"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            st.tuples(st.sampled_from(["UPPER", "LEN", "UDF.g"]), inner).map(lambda t: f"{t[0]}({t[1]})"),
            inner.map(lambda v: f"CASE WHEN {v} = 1 THEN {v} ELSE 0 END"),
            inner.map(lambda v: f"CAST({v} AS float)"),
            inner.map(lambda v: f"DATEADD(minute, -1, {v})"),
        ),
        max_leaves=3,
    )


def items(leaves: list[str], *stars: str) -> st.SearchStrategy[str]:
    named = st.tuples(values(leaves), st.integers(0, 9)).map(lambda t: f"{t[0]} AS c{t[1]}")
    return st.one_of(values(leaves), named, *map(st.just, stars))


WINDOWS = st.sampled_from(
    [
        "TumblingWindow(minute, 1)",
        "System.Timestamp()",
        "SessionWindow(second, 5, 10) OVER (PARTITION BY a)",
        "Windows(Window('x', SlidingWindow(minute, 1)), Window('y', HoppingWindow(second, 10, 5)))",
    ]
)
LISTED = {"s": InputInfo("s", columns=("a", "b", "r", "Id"))}
SOURCES = ["s", "S TIMESTAMP BY a", "s TIMESTAMP BY b PARTITION BY a", "(SELECT a, b, * FROM s) AS s"]


@st.composite
def selects(draw: st.DrawFn, *steps: str) -> str:
    grouped = draw(st.booleans())
    leaves = GROUP_VALUES if grouped else ROW_VALUES
    one = items(leaves) if grouped else items(leaves, "*", "s.*", "r.*")
    text = ", ".join(["SELECT a, b", *draw(st.lists(one, max_size=2))])  # what the next step looks for
    text += f" FROM {draw(st.sampled_from([*SOURCES, *steps]))}"
    if draw(st.booleans()):
        text += f" WHERE {draw(values(ROW_VALUES))} > 1"
    if grouped:
        text += f" GROUP BY a, b, {draw(WINDOWS)}"
    if draw(st.booleans()):
        text += f" HAVING {draw(values([each for each in leaves if 'Window' not in each]))} < 5"
    return text


@st.composite
def scripts(draw: st.DrawFn) -> str:
    text = (
        f"WITH w AS ({draw(selects())}), v AS ({draw(selects('w AS s'))}) {draw(selects('w AS s', 'v AS s'))}"
    )
    return text + (f" UNION {draw(selects('v AS s'))}" if draw(st.booleans()) else "")


@settings(max_examples=depth(60), deadline=None)
@given(scripts(), st.sampled_from([None, LISTED]), st.sampled_from(["1.0", "1.1", "1.2"]))
def test_a_query_has_a_sound_plan_or_errors_with_places(
    text: str, inputs: Mapping[str, InputInfo] | None, level: str
) -> None:
    job, found = plan_or_errors(text, inputs, level)
    for diagnostic in found:
        assert 0 <= diagnostic.span.start < diagnostic.span.end <= len(text), diagnostic
        assert diagnostic.message
    if job is None:
        assert found
    else:
        check_plan(job)
        assert plan(text, inputs, level) == job


def test_a_query_nested_too_deeply_is_an_error_like_any_other():
    text = "SELECT " + "(" * 700 + "a" + " + 1)" * 700 + " AS v FROM s"
    assert [error.code for error in errors(text)] == ["TOO_DEEP"]


def test_an_error_is_reported_once_however_often_its_expression_is_used():
    text = "SELECT PartitionId, CASE b WHEN 1 THEN 2 WHEN 3 THEN 4 ELSE 5 END AS c, GETDATE() AS d "
    text += "FROM s GROUP BY a, TumblingWindow(minute, 1) HAVING c > 1 AND d > 2"
    assert [error.code for error in errors(text)] == ["NOT_GROUPED", "NOT_GROUPED", "UNKNOWN_FUNCTION"]


def test_the_names_of_the_engines_columns_are_reserved():
    for name in ("$ts", "$payload", "$payload.a", "$k0", "$window"):
        assert [error.code for error in errors(f"SELECT a AS [{name}] FROM s")] == ["RESERVED_NAME"]
    assert plan("SELECT [$type] FROM s").outputs[0].node.columns == ("$type",)
