"""Text and tree say the same: whatever the parser can make, the printer writes and the parser reads back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.depth import depth
from tideglass.core.errors import Source
from tideglass.lang import nodes as n
from tideglass.lang.parser import parse
from tideglass.lang.printer import print_expr, print_script
from tideglass.lang.windows import FORMS, group_items

# Words that are keywords elsewhere, and must stay names here.
WORDS = [
    "a",
    "b2",
    "_c",
    "time",
    "value",
    "limit",
    "left",
    "over",
    "first",
    "window",
    "timestamp",
    "count",
    "é",
    "desc",
]
TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n"), min_size=1, max_size=6)
QUOTED = TEXT.filter(lambda text: bool(text.strip()))

names: st.SearchStrategy[n.Name] = st.one_of(
    st.sampled_from(WORDS).map(n.Name),
    st.builds(n.Name, QUOTED, st.sampled_from(["[", '"'])),
)
members = st.one_of(names, st.sampled_from(["0", "12", "select", "from"]).map(n.Name))
columns = st.builds(lambda first, rest: n.Column((first, *rest)), names, st.lists(members, max_size=2))
literals = st.one_of(
    st.none(),
    st.integers(min_value=0, max_value=2**63 - 1),
    st.floats(min_value=0, allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
).map(n.LiteralExpr)


def tuples(of: st.SearchStrategy[Any], least: int = 0, most: int = 2) -> st.SearchStrategy[Any]:
    return st.lists(of, min_size=least, max_size=most).map(tuple)


def maybe(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | of


def compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Every kind of expression that has others inside."""
    durations = st.builds(n.Duration, names, inner)
    overs = st.builds(
        n.Over,
        partition_by=tuples(inner),
        order_by=tuples(st.builds(n.OrderItem, inner, st.booleans())),
        limit=maybe(durations),
        when=maybe(inner),
    )
    calls = st.builds(n.CallExpr, tuples(names, most=1), names, tuples(inner), st.just(False), maybe(overs))
    one_argument = st.builds(n.CallExpr, st.just(()), names, tuples(inner, 1, 1), st.just(True), maybe(overs))
    star = st.builds(n.CallExpr, st.just(()), names, st.just((n.Star(),)), st.just(False), maybe(overs))
    types = st.sampled_from(["BIGINT", "FLOAT", "NVARCHAR", "DATETIME", "BIT", "RECORD", "ARRAY"])
    binary = st.sampled_from(
        ["+", "-", "*", "/", "%", "&", "|", "^", "=", "<>", ">", ">=", "<", "<=", "AND", "OR"]
    )
    return st.one_of(
        calls,
        one_argument,
        star,
        st.builds(n.Member, inner, members),
        st.builds(n.CastExpr, inner, types, st.booleans()),
        st.builds(n.Unary, st.sampled_from(["-", "+", "~", "NOT"]), inner),
        st.builds(n.Binary, binary, inner, inner),
        st.builds(n.Binary, binary, inner, inner),
        st.builds(n.Like, inner, inner, st.booleans()),
        st.builds(n.Between, inner, inner, inner, st.booleans()),
        st.builds(n.IsNull, inner, st.booleans()),
        st.builds(n.In, inner, tuples(inner, 1, 2), st.booleans()),
        st.builds(n.CaseExpr, maybe(inner), tuples(st.tuples(inner, inner), 1, 2), maybe(inner)),
    )


expressions: st.SearchStrategy[Any] = st.recursive(columns | literals, compound, max_leaves=8)
small = columns | literals
durations = st.builds(n.Duration, names, small)


@st.composite
def windows(draw: st.DrawFn) -> n.WindowCall:
    kind = draw(st.sampled_from(sorted(FORMS)))
    form = FORMS[kind]
    roles = form.roles[: len(form.roles) - draw(st.integers(0, form.optional))]
    unit = draw(maybe(names))
    args = tuple((role, n.Duration(unit or draw(names), draw(small))) for role in roles)
    return n.WindowCall(kind, args, draw(tuples(small)) if kind == "session" else ())


windows_calls = tuples(
    st.builds(
        lambda window, name: n.WindowCall(window.kind, window.args, window.over, name),
        windows() | st.just(n.WindowCall("snapshot", ())),
        maybe(st.text(max_size=3).map(n.LiteralExpr)),
    ),
    least=1,
).map(n.WindowsCall)

patterns: st.SearchStrategy[Any] = st.recursive(
    st.builds(n.PatternName, names) | st.just(n.PatternAny()),
    lambda inner: st.one_of(
        tuples(inner, 2, 3).map(n.PatternSequence),
        tuples(inner, 2, 3).map(n.PatternChoice),
        st.builds(
            lambda part, least, more: n.PatternRepeat(part, least, None if more is None else least + more),
            inner,
            st.integers(0, 3),
            maybe(st.integers(0, 2)),
        ),
    ),
    max_leaves=5,
)

items = st.one_of(
    st.builds(n.Item, expressions, maybe(names)),
    st.builds(lambda path: n.StarItem(path), tuples(names, 0, 2)),
)


@st.composite
def selects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> n.Select:
    stamps = maybe(st.builds(n.TimestampBy, expressions, tuples(small)))
    partitions = maybe(st.builds(n.PartitionBy, tuples(small, 1), maybe(st.integers(0, 99))))
    relations = st.one_of(
        st.builds(n.FromItem, names, st.none(), maybe(names), stamps, partitions),
        st.builds(n.FromItem, st.none(), inner, maybe(names), stamps, partitions),
    )
    joins = st.one_of(
        st.builds(n.JoinClause, st.sampled_from(["INNER", "LEFT"]), relations, expressions),
        st.builds(n.JoinClause, st.just("CROSS"), relations, st.none()),
        st.builds(n.ApplyClause, st.sampled_from(["CROSS", "OUTER"]), names, small, names),
    )
    matches = st.builds(
        n.MatchRecognize,
        durations,
        tuples(small),
        tuples(st.builds(n.Item, small, names), 1),
        patterns,
        tuples(st.tuples(names, small), 1),
        maybe(names),
    )
    return n.Select(
        draw(tuples(items, 1, 3)),
        draw(maybe(names)),
        draw(relations),
        draw(tuples(joins)),
        draw(maybe(matches)),
        draw(maybe(expressions)),
        draw(tuples(windows() | windows_calls | small, 0, 3)),
        draw(maybe(expressions)),
    )


bare = st.builds(n.Select, tuples(items, 1, 1), st.none(), st.builds(n.FromItem, names))
queries: st.SearchStrategy[Any] = st.recursive(
    bare, lambda inner: selects(inner) | tuples(inner, 2, 3).map(n.UnionQuery), max_leaves=3
)
table_columns = st.builds(n.TableColumn, names, st.sampled_from(["BIGINT", "NVARCHAR", "RECORD"]))
scripts = st.builds(
    n.Script,
    tuples(st.builds(n.CreateTable, names, tuples(table_columns, 1)), most=1),
    tuples(st.builds(n.Step, names, queries)),
    tuples(queries, 1, 2),
)


def item_of(text: str) -> Any:
    statement = parse(Source(f"SELECT {text} FROM t")).statements[0]
    assert isinstance(statement, n.Select)
    return statement.items[0]


@settings(max_examples=depth(100), deadline=None)
@given(expressions)
def test_every_expression_reads_back_as_itself(expr: n.Expr) -> None:
    assert item_of(f"({print_expr(expr)})") == n.Item(expr)


@settings(
    max_examples=depth(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(scripts)
def test_every_script_reads_back_as_itself(script: n.Script) -> None:
    assert parse(Source(print_script(script))) == script


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("(a + b) * c", "(a + b) * c"),
        ("(a * b) + c", "a * b + c"),
        ("a - (b - c)", "a - (b - c)"),
        ("(a - b) - c", "a - b - c"),
        ("-(a * b)", "-a * b"),
        ("(-a) * b", "(-a) * b"),
        ("a * -b", "a * -b"),
        ("- - a", "- -a"),
        ("a - -1", "a - -1"),
        ("~(-a)", "~-a"),
        ("((a.b))", "a.b"),
        ("(a).b", "(a).b"),
        ("lag(*) over (limit duration(hour, 1)).x", "lag(*) OVER (LIMIT DURATION(hour, 1)).x"),
        ("system.timestamp", "system.timestamp()"),
        ("'it''s'", "'it''s'"),
        ("cast(a as nvarchar(max))", "CAST(a AS NVARCHAR(MAX))"),
        ("case a when 1 then 'x' end", "CASE a WHEN 1 THEN 'x' END"),
        ("1e3", "1000.0"),
    ],
)
def test_parentheses_are_written_only_where_the_tree_needs_them(written: str, printed: str) -> None:
    assert print_expr(item_of(written).expr) == printed


def test_a_condition_in_a_select_list_is_not_taken_for_an_alias() -> None:
    script = parse(Source("SELECT (a = 1), (a = 1 AND b = 2) FROM t"))
    assert print_script(script) == "SELECT\n    (a = 1),\n    (a = 1 AND b = 2)\nFROM t;\n"


def test_windows_of_one_unit_take_the_short_form() -> None:
    call = group_items([n.CallExpr((), n.Name("tumbling"), (n.Column((n.Name("s"),)), n.LiteralExpr(3)))])
    select = n.Select((n.StarItem(),), None, n.FromItem(n.Name("t")), group_by=call)
    assert print_script(n.Script(statements=(select,))).splitlines()[-1] == "GROUP BY TumblingWindow(s, 3);"


def test_a_script_has_one_layout() -> None:
    text = """create table [i n] (a bigint, b nvarchar(max))
    with s as (select a, n = count(*) from [i n] i timestamp by t over k, l partition by p into 3
      group by tumblingwindow(duration(minute, 5), offset(second, -1)), a having count(*) > 1),
    u as ((select * from s union select * from t) union select * from v)
    select x.* into o from (select 1 y from s) x left outer join v on x.y = v.y
      cross apply getarrayelements(v.z) as e
    select * from i match_recognize (limit duration(minute, 1) partition by k measures last(A.x) as x
      after match skip to next row pattern (A+ (B | C)? .{2,}) define A as A.x > 1) m where x is not null"""
    assert (
        print_script(parse(Source(text)))
        == """\
CREATE TABLE [i n] (
    a BIGINT,
    b NVARCHAR(MAX)
);
WITH s AS (
    SELECT
        a,
        count(*) AS n
    FROM [i n] AS i TIMESTAMP BY t OVER k, l PARTITION BY p INTO 3
    GROUP BY TumblingWindow(Duration(minute, 5), Offset(second, -1)), a
    HAVING count(*) > 1
), u AS (
    (
        SELECT
            *
        FROM s
        UNION
        SELECT
            *
        FROM t
    )
    UNION
    SELECT
        *
    FROM v
)
SELECT
    x.*
INTO o
FROM (
    SELECT
        1 AS y
    FROM s
) AS x
LEFT JOIN v ON x.y = v.y
CROSS APPLY getarrayelements(v.z) AS e;
SELECT
    *
FROM i
MATCH_RECOGNIZE (
    LIMIT DURATION(minute, 1)
    PARTITION BY k
    MEASURES last(A.x) AS x
    AFTER MATCH SKIP TO NEXT ROW
    PATTERN (A+ (B | C)? .{2,})
    DEFINE A AS A.x > 1
) AS m
WHERE x IS NOT NULL;
"""
    )
