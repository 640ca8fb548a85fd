"""What the parser says about text it cannot read: code, words, place and advice."""

# ruff: noqa: E501 - a row of a table is a line

from __future__ import annotations

import pytest

from tideglass.core.errors import QueryError, Source
from tideglass.lang.parser import parse


def complaint(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        parse(Source(text))
    return str(caught.value)


# A query; where the carets are (the text above them); code; message; hint.
ERRORS = [
    ("SELECT a, FROM t", "FROM", "SYNTAX", "an expression or '*' was expected where 'FROM' stands",
     "remove the comma before it"),
    ("SELECT f(a, ) FROM t", ")", "SYNTAX", "an expression was expected where ')' stands", "remove the comma before it"),
    ("SELECT a b c FROM t", "c", "SYNTAX", "FROM, INTO or ',' was expected where 'c' stands",
     "a comma may be missing before it"),
    ("SELECT a FORM t", "FORM", "SYNTAX", "'FORM' is no word that fits here", "did you mean FROM?"),
    ("SELEC a FROM t", "SELEC", "SYNTAX", "'SELEC' is no word that fits here", "did you mean SELECT?"),
    ("SELECT from FROM t", "from", "SYNTAX", "FROM is a reserved word", "as a name it is written [from]"),
    ("SELECT a FROM t WHERE end = 1", "end", "SYNTAX", "END is a reserved word", "as a name it is written [end]"),
    ("SELECT a AS group FROM t", "group", "SYNTAX", "GROUP is a reserved word", "as a name it is written [group]"),
    ("SELECT a INTO my-out FROM t", "-", "SYNTAX", "FROM was expected where '-' stands",
     "a name with other characters in it is written in brackets: [my-out]"),
    ("SELECT a FROM t TIMESTAMP x", "x", "SYNTAX",
     "GROUP BY, HAVING, JOIN, LEFT JOIN, SELECT, UNION or WHERE was expected where 'x' stands",
     "the clause is TIMESTAMP BY"),
    ("SELECT a FROM t GROUP a", "a", "SYNTAX", "BY was expected where 'a' stands", "the clause is GROUP BY"),
    ("WITH s (SELECT a FROM t) SELECT a FROM s", "(", "SYNTAX", "AS was expected where a query begins",
     "a step is written WITH name AS (SELECT ... FROM ...)"),
    ("WITH s AS SELECT a FROM t SELECT a FROM s", "SELECT", "SYNTAX", "'(' was expected where 'SELECT' stands",
     "a step is written WITH name AS (SELECT ... FROM ...)"),
    ("SELECT sum(a FROM t", "FROM", "SYNTAX", "')', ',' or an operator was expected where 'FROM' stands",
     "a parenthesis is not closed"),
    ("SELECT a FROM t WHERE (a = 1))", ")", "SYNTAX", "GROUP BY, HAVING, SELECT, UNION or an operator was expected where ')' stands",
     "this parenthesis closes nothing"),
    ("SELECT CASE WHEN a = 1 THEN 2 ELSE 3 FROM t", "FROM", "SYNTAX", "END or an operator was expected where 'FROM' stands",
     "a CASE ends with END"),
    ("SELECT a FROM t WHERE a == 1", "=", "SYNTAX", "an expression was expected where '=' stands",
     "equality is written with one ="),
    ("SELECT a FROM t WHERE a BETWEEN 1 OR 2", "OR", "SYNTAX", "AND or an operator was expected where 'OR' stands",
     "write AND in place of 'OR'"),
    ("SELECT a FROM t JOIN u WHERE a = 1", "WHERE", "SYNTAX", "ON or an alias was expected where 'WHERE' stands",
     "a JOIN says what matches: ON ..."),
    ("SELECT 'a FROM t", "'a FROM t", "SYNTAX", "this string has no end",
     "end it with '; a quote inside a string is written twice: 'it''s'"),
    ("SELECT [a FROM t", "[a FROM t", "SYNTAX", "this bracketed name has no end", "end it with ]"),
    ("SELECT a /* b FROM t", "/*", "SYNTAX", "this comment has no end", "end it with */"),
    ("SELECT a FROM 3d", "3d", "SYNTAX", "'3d' is neither a number nor a name",
     "a name that begins with a digit is written [3d]"),
    ("SELECT NULLIF(a, -9223372036854775809) FROM t", "9223372036854775809", "SYNTAX",
     "9223372036854775809 is outside the range of bigint", "a number with a point or an exponent is a float: 9223372036854775809.0"),
    ("SELECT [] FROM t", "[]", "SYNTAX", "a name is empty", ""),
    ("SELECT a FROM t PARTITION BY b INTO 2.5", "2.5", "SYNTAX", "2.5 is not a whole number", ""),
    ("SELECT a FROM t PARTITION BY b PARTITION BY c", "PARTITION BY c", "SYNTAX",
     "PARTITION BY stands here a second time", "keep one of them"),
    ("SELECT CAST(a AS int) FROM t", "int", "UNKNOWN_TYPE", "there is no type INT", "write BIGINT"),
    ("CREATE TABLE t (a nvarchar(50)) SELECT a FROM t", "nvarchar(50)", "UNKNOWN_TYPE", "NVARCHAR(50) is not a type",
     "write NVARCHAR(MAX)"),
    ("SELECT a FROM t GROUP BY Sliding(s)", "Sliding(s)", "SYNTAX", "Sliding is not written with these arguments",
     "write SlidingWindow(unit, size) or SlidingWindow(Duration(unit, n))"),
    ("SELECT a FROM t GROUP BY Sliding(s, 1) OVER (PARTITION BY a)", "OVER (PARTITION BY a)", "SYNTAX",
     "Sliding cannot have this OVER clause",
     "only a session window has one: SessionWindow(...) OVER (PARTITION BY key)"),
    ("SELECT a FROM t GROUP BY Windows(Sliding(s, 1), a)", "a", "SYNTAX", "Windows( ) holds something that is no window",
     "its members are windows, Window('id', window) or System.Timestamp()"),
    ("SELECT a FROM t GROUP BY Window('x', Sliding(s, 1))", "Window('x', Sliding(s, 1))", "SYNTAX",
     "Window('id', ...) stands only inside Windows( )", "write Windows(Window('id', ...), ...), or for one window TumblingWindow(minute, 1)"),
    ("SELECT a FROM t WHERE a = ‘x", "‘", "SYNTAX", "'‘' means nothing here", "use the plain quote '"),
    ("SELECT TOP 3 a FROM t", "TOP", "NOT_IN_LANGUAGE", "TOP is not in the language",
     "TopOne() OVER (ORDER BY ...) and CollectTop(n) OVER (ORDER BY ...) keep the first rows of a window"),
    ("SELECT DISTINCT a FROM t", "DISTINCT", "NOT_IN_LANGUAGE", "SELECT DISTINCT is not in the language",
     "group by the columns in a window, or count with COUNT(DISTINCT x)"),
    ("SELECT a FROM t ORDER BY a", "ORDER", "NOT_IN_LANGUAGE", "ORDER BY has no place in a streaming query",
     "rows come out in the order of time; ORDER BY stands in OVER ( ) only"),
    ("SELECT a FROM t LIMIT 10", "LIMIT", "NOT_IN_LANGUAGE", "LIMIT is not in the language",
     "TopOne() OVER (ORDER BY ...) and CollectTop(n) OVER (ORDER BY ...) keep the first rows of a window"),
    ("SELECT a FROM t WHERE a IN (SELECT b FROM u)", "IN (", "NOT_IN_LANGUAGE", "IN (SELECT ...) is not in the language",
     "put the query into a WITH step and JOIN it"),
    ("SELECT a FROM t WHERE NOT EXISTS (SELECT b FROM u)", "EXISTS", "NOT_IN_LANGUAGE",
     "EXISTS (SELECT ...) is not in the language", "put the query into a WITH step and JOIN it"),
    ("SELECT (SELECT b FROM u) FROM t", "(", "NOT_IN_LANGUAGE", "a subquery cannot be a value",
     "put the query into a WITH step and JOIN it"),
    ("SELECT a FROM t, u", ",", "NOT_IN_LANGUAGE", "FROM takes one input; others are joined",
     "write JOIN ... ON ... AND DATEDIFF(second, a, b) BETWEEN 0 AND 10"),
    ("SELECT a FROM t RIGHT JOIN u ON a = b", "RIGHT", "NOT_IN_LANGUAGE", "RIGHT JOIN is not in the language",
     "swap the sides and write LEFT JOIN"),
    ("SELECT a FROM t FULL OUTER JOIN u ON a = b", "FULL", "NOT_IN_LANGUAGE", "FULL JOIN is not in the language",
     "write a LEFT JOIN each way and UNION the two"),
    ("SELECT a FROM t UNION ALL WHERE a = 1", "WHERE", "SYNTAX", "SELECT was expected where 'WHERE' stands", ""),
    ("WITH s AS (SELECT a FROM t), SELECT a FROM s", "SELECT", "SYNTAX", "a name was expected where 'SELECT' stands",
     "remove the comma before it"),
    ("SELECT a[0] AS b FROM t", "AS", "SYNTAX", "FROM, INTO or ',' was expected where 'AS' stands",
     "an element of an array is GetArrayElement(a, 0), a field of a record r.name or r.[a name]"),
    ("SELECT a FROM t GROUP BY a, Sliding(s, 1) WHERE a = 1", "WHERE", "SYNTAX",
     "HAVING, SELECT, UNION, ',' or an operator was expected where 'WHERE' stands",
     "WHERE stands before GROUP BY; groups are filtered by HAVING"),
    ("SELECT a FROM t WHERE a = 1 TIMESTAMP BY b", "TIMESTAMP", "SYNTAX",
     "GROUP BY, HAVING, SELECT, UNION or an operator was expected where 'TIMESTAMP' stands",
     "TIMESTAMP BY stands after an input, in FROM"),
    ("SELECT e.ArrayValue FROM t CROSS APPLY a AS e", "AS", "SYNTAX", "'(' was expected where 'AS' stands",
     "write APPLY GetArrayElements(a) AS e or APPLY GetRecordProperties(a) AS p"),
    ("SELECT ArrayValue FROM t CROSS APPLY GetArrayElements(a) WHERE b = 1", "WHERE", "SYNTAX",
     "an alias was expected where 'WHERE' stands", "what APPLY makes needs a name: APPLY GetArrayElements(...) AS a"),
    ("SELECT TRY_CAST(f(a, b), float) FROM t", ",", "SYNTAX", "AS or an operator was expected where ',' stands",
     "write TRY_CAST(value AS type)"),
    ("SELECT CAST(a float) FROM t", "float", "SYNTAX", "AS or an operator was expected where 'float' stands",
     "write CAST(value AS type)"),
    ("SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a) FROM t", "WITHIN GROUP", "NOT_IN_LANGUAGE",
     "WITHIN GROUP is not in the language", "write PERCENTILE_CONT(0.5) OVER (ORDER BY x)"),
    ("SELECT LAG(a) OVER (PARTITION BY b, LIMIT DURATION(s, 5)) AS c FROM t", "LIMIT", "SYNTAX",
     "an expression was expected where 'LIMIT' stands", "remove the comma before it"),
    ("SELECT LAG(a) OVER (LIMIT DURATION(s, 5) PARTITION BY b) AS c FROM t", "PARTITION", "SYNTAX",
     "WHEN or ')' was expected where 'PARTITION' stands",
     "inside OVER ( ) the order is PARTITION BY, ORDER BY, LIMIT DURATION, WHEN"),
    ("SELECT LAG(a) OVER (LIMIT DURATION(s, 5) WHERE a = 1) AS c FROM t", "WHERE", "SYNTAX",
     "WHEN or ')' was expected where 'WHERE' stands", "inside OVER ( ) the condition is written WHEN ..."),
    ("SELECT LAG(a) OVER (LIMIT DURATION(5, s)) AS c FROM t", "5", "SYNTAX", "a name was expected where '5' stands",
     "write DURATION(unit, n), as in DURATION(minute, 5)"),
    ("SELECT a FROM t INTO u", "INTO", "SYNTAX",
     "GROUP BY, HAVING, JOIN, LEFT JOIN, SELECT, UNION, WHERE or an alias was expected where 'INTO' stands",
     "INTO stands before FROM: SELECT ... INTO output FROM input"),
    ("SELECT a FROM t WHERE a LIKE '50!%' ESCAPE '!'", "ESCAPE", "SYNTAX",
     "GROUP BY, HAVING, SELECT, UNION or an operator was expected where 'ESCAPE' stands",
     "in a pattern [%] and [_] stand for the characters themselves"),
    ("insert INTO u SELECT a FROM t", "insert", "NOT_IN_LANGUAGE", "INSERT is not in the language",
     "write SELECT ... INTO output FROM input"),
    ("SELECT a FROM t; SET b = 1", "SET", "NOT_IN_LANGUAGE", "SET is not in the language",
     "there are no variables; write the value where it is used"),
    ("SELECT a FROM t EXCEPT SELECT a FROM u", "EXCEPT", "NOT_IN_LANGUAGE", "EXCEPT is not in the language",
     "UNION is the only set operator; LEFT JOIN and IS NULL find what is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "code", "message", "hint"), ERRORS)
def test_an_error_says_what_where_and_how_to_go_on(
    text: str, place: str, code: str, message: str, hint: str
) -> None:
    with pytest.raises(QueryError) as caught:
        parse(Source(text))
    (found,) = caught.value.diagnostics
    assert (found.code, found.message, found.hint) == (code, message, hint)
    assert text[found.span.start : found.span.end] == place


def test_the_whole_complaint_is_shown_with_its_line_and_carets() -> None:
    assert complaint("SELECT a,\n  b c d\nFROM t").splitlines() == [
        "query:2:7: [SYNTAX] FROM, INTO or ',' was expected where 'd' stands",
        "    b c d",
        "        ^",
        "  hint: a comma may be missing before it",
    ]


def test_a_text_that_ends_too_soon_is_marked_at_its_last_word() -> None:
    assert complaint("SELECT a FROM t WHERE  -- and then?\n").splitlines() == [
        "query:1:21: [SYNTAX] an expression was expected where the query ends",
        "  SELECT a FROM t WHERE  -- and then?",
        "                      ^",
        "  hint: something is missing at the end",
    ]


@pytest.mark.parametrize("text", ["", "  \n", "-- nothing"])
def test_an_empty_text_is_an_empty_query(text: str) -> None:
    assert "the query is empty" in complaint(text)


def test_errors_of_all_statements_are_reported_at_once() -> None:
    text = """CREATE TABLE i (a varchar);
WITH s AS (SELECT a, FROM t),
u AS (SELECT TOP 5 a FROM t),
v AS (SELECT a FROM t)
SELECT a FROM t ORDER BY a
SELECT a FROM t;
SELECT a b c FROM t; SELECT a FROM t GROUP BY Hopping(s)"""
    places = [line.split(" ")[0] for line in complaint(text).splitlines() if line.startswith("query:")]
    assert places == [f"query:{place}:" for place in ("1:19", "2:22", "3:14", "5:17", "7:12", "7:47")]


def test_what_follows_an_unclosed_string_is_not_blamed() -> None:
    assert complaint("SELECT a FROM t WHERE a = 'x\nGROUP a FROM").count("query:") == 1


def test_the_parenthesis_that_ends_a_broken_step_is_not_blamed() -> None:
    assert (
        complaint(
            "WITH s AS (SELECT a, FROM t UNION SELECT a FROM u), v AS (SELECT a FROM t) SELECT a FROM s"
        ).count("query:")
        == 1
    )


@pytest.mark.parametrize(
    "text",
    [
        "ELECT O()s t\nGROUP BY SessionWindow((y)",
        "SELECT a FROM t GROUP BY HoppingWindow((y",
        "SELECT f(a, (b",
    ],
)
def test_every_place_is_within_the_text_also_behind_a_repair_at_its_end(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(Source(text))
    spans = [each.span for each in caught.value.diagnostics]
    assert all(0 <= span.start <= span.end <= len(text) for span in spans), spans
