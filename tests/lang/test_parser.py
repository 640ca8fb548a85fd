"""What each rule of the grammar makes of a text: a table of texts and trees, and properties of all of it."""

# ruff: noqa: E501, SIM905 - a row of a table is a line, words read better as words

from __future__ import annotations

import dataclasses
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest
from lark import Lark, Tree
from lark.lexer import Lexer

from tideglass.core.errors import Source, Span
from tideglass.lang import nodes as n
from tideglass.lang.builder import Builder
from tideglass.lang.parser import parse
from tideglass.lang.tokens import tokenize


def name(text: str) -> n.Name:
    """`[x]` and `"x"` are quoted, anything else is bare."""
    return n.Name(text[1:-1], text[0]) if text[0] in '["' else n.Name(text)


def col(*path: str) -> n.Column:
    return n.Column(tuple(name(part) for part in path))


def lit(value: int | float | str | None) -> n.LiteralExpr:
    return n.LiteralExpr(value)


def call(path: str, *args: n.Expr, **more: Any) -> n.CallExpr:
    *prefix, last = path.split(".")
    return n.CallExpr(tuple(name(part) for part in prefix), name(last), args, **more)


def two(op: str, left: n.Expr, right: n.Expr) -> n.Binary:
    return n.Binary(op, left, right)


def minus(expr: n.Expr) -> n.Unary:
    return n.Unary("-", expr)


def duration(unit: str, amount: n.Expr | int) -> n.Duration:
    return n.Duration(name(unit), lit(amount) if isinstance(amount, int) else amount)


def relation(text: str, alias: str | None = None, **more: Any) -> n.FromItem:
    return n.FromItem(name(text), None, name(alias) if alias else None, **more)


def select(item: str = "a", source: str = "t") -> n.Select:
    return n.Select((n.Item(col(item)),), None, relation(source))


a, b, c, d, x, y = (col(letter) for letter in "abcdxy")

EXPRESSIONS: list[tuple[str, n.Expr]] = [
    # literals
    ("12", lit(12)),
    ("1.5", lit(1.5)),
    (".5", lit(0.5)),
    ("1.", lit(1.0)),
    ("2e3", lit(2000.0)),
    ("2.5E-1", lit(0.25)),
    ("null", lit(None)),
    ("'it''s'", lit("it's")),
    ("''", lit("")),
    # columns
    ("a", a),
    ("s.a.b", col("s", "a", "b")),
    ("[a b].[c]]d]", n.Column((n.Name("a b", "["), n.Name("c]d", "[")))),
    ('"[a][b]"', col('"[a][b]"')),
    ('"say ""x"""', n.Column((n.Name('say "x"', '"'),))),
    ("a.0.b", col("a", "0", "b")),
    ("a.[0].1", col("a", "[0]", "1")),
    ("a.2e5", col("a", "2e5")),
    ("a.select.from", col("a", "select", "from")),
    ("[select]", col("[select]")),
    ("été", col("été")),
    # functions
    ("f()", call("f")),
    ("f(a, 'x')", call("f", a, lit("x"))),
    ("UDF.f(x)", call("UDF.f", x)),
    ("count(*)", call("count", n.Star())),
    ("COUNT(DISTINCT a)", call("COUNT", a, distinct=True)),
    ("count(distinct -a)", call("count", minus(a), distinct=True)),
    ("f(distinct)", call("f", col("distinct"))),
    ("left(a, 2)", call("left", a, lit(2))),
    ("round(max(a), 1)", call("round", call("max", a), lit(1))),
    ("System.Timestamp()", call("System.Timestamp")),
    ("system.timestamp", call("system.timestamp")),
    ("s.timestamp", col("s", "timestamp")),
    ("DATEDIFF(second, a, b)", call("DATEDIFF", col("second"), a, b)),
    ("cast(a as bigint)", n.CastExpr(a, "BIGINT")),
    ("TRY_CAST(a AS nvarchar(max))", n.CastExpr(a, "NVARCHAR", lenient=True)),
    ("f(a).b", n.Member(call("f", a), name("b"))),
    ("(a).b.0", n.Member(n.Member(a, name("b")), name("0"))),
    ("System.Window().Id", n.Member(call("System.Window"), name("Id"))),
    # OVER
    ("lag(a) over ()", call("lag", a, over=n.Over())),
    (
        "LAG(*) OVER (PARTITION BY a, b LIMIT DURATION(hour, 1) WHEN c > 1).speed",
        n.Member(
            call(
                "LAG",
                n.Star(),
                over=n.Over((a, b), (), duration("hour", 1), two(">", c, lit(1))),
            ),
            name("speed"),
        ),
    ),
    (
        "topone() over (order by a desc, b asc, c)",
        call("topone", over=n.Over((), (n.OrderItem(a, True), n.OrderItem(b), n.OrderItem(c)))),
    ),
    (
        "topone() over (order by case when a then 0 end desc)",
        call("topone", over=n.Over((), (n.OrderItem(n.CaseExpr(None, ((a, lit(0)),), None), True),))),
    ),
    # CASE
    ("CASE a WHEN 1 THEN 2 ELSE 3 END", n.CaseExpr(a, ((lit(1), lit(2)),), lit(3))),
    (
        "case when a = 1 then b when c is null then d end",
        n.CaseExpr(None, ((two("=", a, lit(1)), b), (n.IsNull(c), d)), None),
    ),
    # operators, by precedence
    ("a + b * c", two("+", a, two("*", b, c))),
    ("a - b - c", two("-", two("-", a, b), c)),
    ("a / b % c", two("%", two("/", a, b), c)),
    ("(a + b) * c", two("*", two("+", a, b), c)),
    ("a & b | c ^ d", two("^", two("|", two("&", a, b), c), d)),
    ("-a * b", minus(two("*", a, b))),
    ("a * -b", two("*", a, minus(b))),
    ("a - -b", two("-", a, minus(b))),
    ("~a * b", two("*", n.Unary("~", a), b)),
    ("~-a", n.Unary("~", minus(a))),
    ("+a", n.Unary("+", a)),
    # predicates
    ("(a = 1)", two("=", a, lit(1))),
    ("a <> b", two("<>", a, b)),
    ("a != b", two("<>", a, b)),
    ("a > b", two(">", a, b)),
    ("a >= b", two(">=", a, b)),
    ("a !> b", two("<=", a, b)),
    ("a < b", two("<", a, b)),
    ("a <= b", two("<=", a, b)),
    ("a !< b", two(">=", a, b)),
    ("a LIKE 'x%'", n.Like(a, lit("x%"))),
    ("a not like b + c", n.Like(a, two("+", b, c), negated=True)),
    ("a BETWEEN 1 AND 2 AND b = c", two("AND", n.Between(a, lit(1), lit(2)), two("=", b, c))),
    ("a NOT BETWEEN b AND c", n.Between(a, b, c, negated=True)),
    ("a IS NULL", n.IsNull(a)),
    ("a is not null", n.IsNull(a, negated=True)),
    ("a IN (1, b)", n.In(a, (lit(1), b))),
    ("a NOT IN (1)", n.In(a, (lit(1),), negated=True)),
    (
        "NOT a = b AND c > d OR x > y",
        two("OR", two("AND", n.Unary("NOT", two("=", a, b)), two(">", c, d)), two(">", x, y)),
    ),
    (
        "a > b OR c > d AND NOT x > y",
        two("OR", two(">", a, b), two("AND", two(">", c, d), n.Unary("NOT", two(">", x, y)))),
    ),
]

ITEMS: list[tuple[str, n.Item | n.StarItem]] = [
    ("*", n.StarItem()),
    ("s.*", n.StarItem((name("s"),))),
    ("s.r.*", n.StarItem((name("s"), name("r")))),
    ("a", n.Item(a)),
    ("a AS b", n.Item(a, name("b"))),
    ("a b", n.Item(a, name("b"))),
    ("b = a", n.Item(a, name("b"))),
    ("[b c] = a", n.Item(a, name("[b c]"))),
    ("'b c' = a", n.Item(a, name("[b c]"))),
    ("a 'b c'", n.Item(a, name("[b c]"))),
    ('a AS "b c"', n.Item(a, name('"b c"'))),
    ("b = a = 1 AND c > 2", n.Item(two("AND", two("=", a, lit(1)), two(">", c, lit(2))), name("b"))),
    ("count(*) over", n.Item(call("count", n.Star()), name("over"))),
]

SOURCES: list[tuple[str, n.FromItem]] = [
    ("i", relation("i")),
    ("[i n] AS j", relation("[i n]", "j")),
    ("i j TIMESTAMP BY a", relation("i", "j", timestamp_by=n.TimestampBy(a))),
    ("i TIMESTAMP BY f(a) OVER b, c", relation("i", timestamp_by=n.TimestampBy(call("f", a), (b, c)))),
    ("i TIMESTAMP BY f(a) OVER (b)", relation("i", timestamp_by=n.TimestampBy(call("f", a), (b,)))),
    ("i PARTITION BY a, b", relation("i", partition_by=n.PartitionBy((a, b)))),
    (
        "i PARTITION BY a INTO 4 TIMESTAMP BY b",
        relation("i", timestamp_by=n.TimestampBy(b), partition_by=n.PartitionBy((a,), 4)),
    ),
    (
        "i TIMESTAMP BY b OVER c PARTITION BY a INTO 4",
        relation("i", timestamp_by=n.TimestampBy(b, (c,)), partition_by=n.PartitionBy((a,), 4)),
    ),
    ("(SELECT a FROM t) AS d", n.FromItem(None, select(), name("d"))),
    ("(SELECT a FROM t UNION SELECT b FROM t)", n.FromItem(None, n.UnionQuery((select(), select("b"))))),
]

equal = two("=", a, b)
JOINS: list[tuple[str, n.JoinClause | n.ApplyClause]] = [
    ("JOIN j ON a = b", n.JoinClause("INNER", relation("j"), equal)),
    (
        "INNER JOIN j k TIMESTAMP BY x ON a = b",
        n.JoinClause("INNER", relation("j", "k", timestamp_by=n.TimestampBy(x)), equal),
    ),
    ("LEFT JOIN j ON a = b", n.JoinClause("LEFT", relation("j"), equal)),
    ("LEFT OUTER JOIN j ON a = b", n.JoinClause("LEFT", relation("j"), equal)),
    ("CROSS JOIN j", n.JoinClause("CROSS", relation("j"), None)),
    ("CROSS APPLY GetArrayElements(x) AS e", n.ApplyClause("CROSS", name("GetArrayElements"), x, name("e"))),
    (
        "OUTER APPLY GetRecordProperties(x) AS e",
        n.ApplyClause("OUTER", name("GetRecordProperties"), x, name("e")),
    ),
]


def tumbling(unit: str, size: int, **more: Any) -> n.WindowCall:
    return n.WindowCall("tumbling", (("size", duration(unit, size)),), **more)


GROUPS: list[tuple[str, n.GroupItem]] = [
    ("TumblingWindow(second, 5)", tumbling("second", 5)),
    (
        "Tumbling(s, 5, 1)",
        n.WindowCall("tumbling", (("size", duration("s", 5)), ("offset", duration("s", 1)))),
    ),
    ("tumblingwindow(Duration(hour, 2))", tumbling("hour", 2)),
    (
        "TumblingWindow(Duration(hour, 1), Offset(second, -1))",
        n.WindowCall(
            "tumbling", (("size", duration("hour", 1)), ("offset", duration("second", minus(lit(1)))))
        ),
    ),
    (
        "HoppingWindow(s, 6, 2)",
        n.WindowCall("hopping", (("size", duration("s", 6)), ("hop", duration("s", 2)))),
    ),
    (
        "Hopping(s, 6, 2, 1)",
        n.WindowCall(
            "hopping", (("size", duration("s", 6)), ("hop", duration("s", 2)), ("offset", duration("s", 1)))
        ),
    ),
    (
        "HoppingWindow(Duration(m, 6), Hop(s, 2), Offset(ms, 1))",
        n.WindowCall(
            "hopping", (("size", duration("m", 6)), ("hop", duration("s", 2)), ("offset", duration("ms", 1)))
        ),
    ),
    ("SlidingWindow(s, 3)", n.WindowCall("sliding", (("size", duration("s", 3)),))),
    ("Sliding(Duration(s, 3))", n.WindowCall("sliding", (("size", duration("s", 3)),))),
    (
        "SessionWindow(s, 5, 20)",
        n.WindowCall("session", (("timeout", duration("s", 5)), ("max_duration", duration("s", 20)))),
    ),
    (
        "Session(Timeout(s, 5), MaxDuration(m, 2)) OVER (PARTITION BY a)",
        n.WindowCall("session", (("timeout", duration("s", 5)), ("max_duration", duration("m", 2))), (a,)),
    ),
    ("System.Timestamp()", n.WindowCall("snapshot", ())),
    ("System.Timestamp", n.WindowCall("snapshot", ())),
    (
        "Windows(Tumbling(s, 1), System.Timestamp())",
        n.WindowsCall((tumbling("s", 1), n.WindowCall("snapshot", ()))),
    ),
    (
        "WINDOWS(Window('x', Tumbling(s, 1)), WINDOW(\"y\", Tumbling(Duration(s, 2))))",
        n.WindowsCall((tumbling("s", 1, id=lit("x")), tumbling("s", 2, id=lit("y")))),
    ),
    ("a + 1", two("+", a, lit(1))),
]

A, B, C = (n.PatternName(name(letter)) for letter in "ABC")
PATTERNS: list[tuple[str, n.Pattern]] = [
    ("A", A),
    ("A B", n.PatternSequence((A, B))),
    ("A | B C", n.PatternChoice((A, n.PatternSequence((B, C))))),
    ("(A | B) C", n.PatternSequence((n.PatternChoice((A, B)), C))),
    (
        "A* B+ C?",
        n.PatternSequence(
            (n.PatternRepeat(A, 0, None), n.PatternRepeat(B, 1, None), n.PatternRepeat(C, 0, 1))
        ),
    ),
    ("A{2}", n.PatternRepeat(A, 2, 2)),
    ("(A B){2,}", n.PatternRepeat(n.PatternSequence((A, B)), 2, None)),
    (
        ". A{2,3} .*",
        n.PatternSequence(
            (n.PatternAny(), n.PatternRepeat(A, 2, 3), n.PatternRepeat(n.PatternAny(), 0, None))
        ),
    ),
]

SCRIPTS: list[tuple[str, n.Script]] = [
    ("SELECT a FROM t", n.Script(statements=(select(),))),
    ("select a from t;;", n.Script(statements=(select(),))),
    ("\ufeffSELECT a -- first\nFROM /* not\nthis */ t", n.Script(statements=(select(),))),
    (
        "SELECT a FROM t SELECT b FROM t; SELECT c FROM t",
        n.Script(statements=(select(), select("b"), select("c"))),
    ),
    ("SELECT a INTO o FROM t", n.Script(statements=(dataclasses.replace(select(), into=name("o")),))),
    ("SELECT a FROM t WHERE a = b", n.Script(statements=(dataclasses.replace(select(), where=equal),))),
    ("SELECT a FROM t HAVING a = b", n.Script(statements=(dataclasses.replace(select(), having=equal),))),
    (
        "SELECT a FROM t UNION (SELECT b FROM t UNION SELECT c FROM t) UNION SELECT d FROM t",
        n.Script(
            statements=(n.UnionQuery((select(), n.UnionQuery((select("b"), select("c"))), select("d"))),)
        ),
    ),
    (
        "WITH s AS (SELECT a FROM t), [u v] AS ((SELECT b FROM s)) SELECT c FROM s",
        n.Script(
            steps=(n.Step(name("s"), select()), n.Step(name("[u v]"), select("b", "s"))),
            statements=(select("c", "s"),),
        ),
    ),
    (
        "CREATE TABLE i (a bigint, [b] nvarchar(max)); create table j (c RECORD) SELECT a FROM t",
        n.Script(
            tables=(
                n.CreateTable(
                    name("i"), (n.TableColumn(name("a"), "BIGINT"), n.TableColumn(name("[b]"), "NVARCHAR"))
                ),
                n.CreateTable(name("j"), (n.TableColumn(name("c"), "RECORD"),)),
            ),
            statements=(select(),),
        ),
    ),
    (
        "SELECT * FROM i TIMESTAMP BY x MATCH_RECOGNIZE (LIMIT DURATION(minute, 1) PARTITION BY a, b "
        "MEASURES Last(A.x) AS x, First(B.y) AS pattern AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) "
        "DEFINE A AS a = b, B AS B.x > 1) AS m WHERE a = b",
        n.Script(
            statements=(
                n.Select(
                    (n.StarItem(),),
                    None,
                    relation("i", timestamp_by=n.TimestampBy(x)),
                    match=n.MatchRecognize(
                        duration("minute", 1),
                        (a, b),
                        (
                            n.Item(call("Last", col("A", "x")), name("x")),
                            n.Item(call("First", col("B", "y")), name("pattern")),
                        ),
                        n.PatternSequence((A, B)),
                        ((name("A"), equal), (name("B"), two(">", col("B", "x"), lit(1)))),
                        name("m"),
                    ),
                    where=equal,
                ),
            )
        ),
    ),
]

MATCH = (
    "SELECT * FROM i MATCH_RECOGNIZE (LIMIT DURATION(s, 1) MEASURES A.x AS x AFTER MATCH SKIP TO NEXT ROW "
    "PATTERN ({}) DEFINE A AS A.x > 1)"
)
ALL_TEXTS = [
    *(f"SELECT {text} FROM t" for text, _ in [*EXPRESSIONS, *ITEMS]),
    *(f"SELECT a FROM {text}" for text, _ in SOURCES),
    *(f"SELECT a FROM t {text}" for text, _ in JOINS),
    *(f"SELECT a FROM t GROUP BY {text}" for text, _ in GROUPS),
    *(MATCH.format(text) for text, _ in PATTERNS),
    *(text for text, _ in SCRIPTS),
]


def first(text: str) -> n.Select:
    statement = parse(Source(text)).statements[0]
    assert isinstance(statement, n.Select)
    return statement


@pytest.mark.parametrize(("text", "tree"), EXPRESSIONS)
def test_an_expression_reads_as_its_tree(text: str, tree: n.Expr) -> None:
    assert first(f"SELECT ({text}) FROM t").items == (n.Item(tree),)
    assert first(f"SELECT a FROM t WHERE {text}").where == tree


@pytest.mark.parametrize(("text", "tree"), ITEMS)
def test_an_item_reads_as_its_tree(text: str, tree: n.Item | n.StarItem) -> None:
    assert first(f"SELECT {text} FROM t").items == (tree,)
    assert first(f"SELECT z, {text}, z FROM t").items[1] == tree


@pytest.mark.parametrize(("text", "tree"), SOURCES)
def test_a_source_reads_as_its_tree(text: str, tree: n.FromItem) -> None:
    assert first(f"SELECT a FROM {text}").source == tree
    assert first(f"SELECT a FROM t JOIN {text} ON a = b").joins == (n.JoinClause("INNER", tree, equal),)


@pytest.mark.parametrize(("text", "tree"), JOINS)
def test_a_join_reads_as_its_tree(text: str, tree: n.JoinClause | n.ApplyClause) -> None:
    assert first(f"SELECT a FROM t {text} {text} WHERE a = b").joins == (tree, tree)


@pytest.mark.parametrize(("text", "tree"), GROUPS)
def test_a_group_item_reads_as_its_tree(text: str, tree: n.GroupItem) -> None:
    assert first(f"SELECT a FROM t GROUP BY {text}, b HAVING a = b").group_by == (tree, b)


@pytest.mark.parametrize(("text", "tree"), PATTERNS)
def test_a_pattern_reads_as_its_tree(text: str, tree: n.Pattern) -> None:
    match = first(MATCH.format(text)).match
    assert match is not None
    assert match.pattern == tree


@pytest.mark.parametrize(("text", "tree"), SCRIPTS)
def test_a_script_reads_as_its_tree(text: str, tree: n.Script) -> None:
    assert parse(Source(text)) == tree


def test_a_timestamp_beside_a_window_is_a_key() -> None:
    groups = first("SELECT a FROM t GROUP BY System.Timestamp(), Tumbling(s, 5)").group_by
    assert groups == (call("System.Timestamp"), tumbling("s", 5))


def test_words_that_are_no_reserved_words_name_columns_and_inputs() -> None:
    words = """time value type date day count timestamp duration session limit window first last over left right
        order partition match pattern define top distinct max cross outer inner apply create table cast asc desc exists
        row next""".split()
    query = first(
        f"SELECT {', '.join(words)}, s.{', s.'.join(words)} FROM time WHERE {' + '.join(words)} > 0"
    )
    bare, dotted = (n.Item(col(word)) for word in words), (n.Item(col("s", word)) for word in words)
    assert query.items == (*bare, *dotted)


def test_every_rule_of_the_grammar_is_in_the_table() -> None:
    class NoLexer(Lexer):
        def __init__(self, lexer_conf: Any) -> None: ...
        def lex(self, lexer_state: Any, parser_state: Any) -> Any:
            return iter(())

    grammar = resources.files("tideglass.lang").joinpath("saql.lark").read_text(encoding="utf-8")
    trees = Lark(
        grammar, parser="lalr", lexer=NoLexer, start="script", keep_all_tokens=True, maybe_placeholders=True
    )
    seen: set[str] = set()
    for text in ALL_TEXTS:
        state = trees.parse_interactive()
        for token in tokenize(text)[0]:
            state.feed_token(token)
        tree = state.feed_eof()
        assert isinstance(tree, Tree)
        seen |= {str(part.data) for part in tree.iter_subtrees()}
    methods = {method for method in vars(Builder) if not method.startswith("_")}
    assert seen == methods


def spans(node: Any) -> Iterator[tuple[Any, Span]]:
    """All nodes of a tree that have a span."""
    if isinstance(node, tuple):
        for part in node:
            yield from spans(part)
    elif dataclasses.is_dataclass(node) and not isinstance(node, Span):
        if hasattr(node, "span"):
            yield node, node.span
        for field in dataclasses.fields(node):
            yield from spans(getattr(node, field.name))


@pytest.mark.parametrize("text", ALL_TEXTS)
def test_the_text_of_a_span_is_the_node(text: str) -> None:
    """Read again, alone, the text under an expression's span gives that expression; others are inside."""
    for node, span in spans(parse(Source(text))):
        piece = text[span.start : span.end]
        assert piece == piece.strip("\ufeff \n") or isinstance(node, n.Script)
        match node:
            case n.Script():
                assert span == Span(0, len(text))
            case n.Star() | n.StarItem():
                assert piece.endswith("*")
            case n.Name():
                assert piece.strip("['\"]").replace("]]", "]").replace('""', '"') == node.text.strip('[]"')
            case n.Select() | n.UnionQuery():
                assert parse(Source(piece)).statements == (node,)
            case n.FromItem():
                assert first(f"SELECT a FROM {piece}").source == node
            case n.JoinClause() | n.ApplyClause():
                assert first(f"SELECT a FROM t {piece}").joins == (node,)
            case n.Item():
                assert first(f"SELECT {piece} FROM t").items == (node,)
            case (
                n.PatternName() | n.PatternAny() | n.PatternSequence() | n.PatternChoice() | n.PatternRepeat()
            ):
                match = first(MATCH.format(piece)).match
                assert match is not None
                assert match.pattern == node
            case n.WindowCall() | n.WindowsCall():
                wrapped = f"Windows({piece})" if isinstance(node, n.WindowCall) else piece
                members = node.members if isinstance(node, n.WindowsCall) else (node,)
                if not getattr(node, "over", ()):
                    assert first(f"SELECT a FROM t GROUP BY {wrapped}").group_by == (n.WindowsCall(members),)
            case n.LiteralExpr() if piece.startswith('"'):
                assert piece.strip('"') == node.value
            case (
                n.LiteralExpr() | n.Column() | n.Member() | n.CallExpr() | n.CastExpr() | n.Unary() | n.Binary() | n.Like()
                | n.Between() | n.IsNull() | n.In() | n.CaseExpr()
            ):  # fmt: skip
                assert first(f"SELECT a FROM t WHERE {piece}").where == node
            case n.Step():
                assert parse(Source(f"WITH {piece} SELECT a FROM t")).steps == (node,)
            case n.CreateTable():
                assert parse(Source(f"{piece} SELECT a FROM t")).tables == (node,)
            case n.TableColumn():
                assert parse(Source(f"CREATE TABLE i ({piece}) SELECT a FROM t")).tables[0].columns == (node,)
            case n.TimestampBy():
                assert first(f"SELECT a FROM t {piece}").source.timestamp_by == node
            case n.PartitionBy():
                assert first(f"SELECT a FROM t {piece}").source.partition_by == node
            case n.Over():
                assert piece.upper().startswith("OVER (")
                assert piece.endswith(")")
            case n.Duration():
                assert str(getattr(node.amount, "value", "")) in piece
            case n.MatchRecognize():
                assert first(f"SELECT * FROM i {piece}").match == node
            case _:
                raise AssertionError(f"no check for {type(node).__name__}")


def test_a_query_of_a_hundred_lines_is_read_in_well_under_a_fifth_of_a_second() -> None:
    step = "s{0} AS (\n  SELECT a, count(*) AS n,\n    sum(x + 1) AS total\n  FROM t{0} TIMESTAMP BY time\n"
    step += (
        "  WHERE a > 1 AND NOT b IS NULL\n  GROUP BY a, TumblingWindow(second, 10)\n  HAVING count(*) > 1\n)"
    )
    text = "WITH " + ",\n".join(step.format(index) for index in range(13)) + "\nSELECT * FROM s1"
    assert text.count("\n") >= 100
    parse(Source("SELECT a FROM t"))
    start = time.process_time()
    parse(Source(text))
    assert time.process_time() - start < 0.2


def test_importing_the_parser_does_not_build_it() -> None:
    code = "from tideglass.lang.parser import _automaton; print(_automaton.cache_info().currsize)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "0\n"
