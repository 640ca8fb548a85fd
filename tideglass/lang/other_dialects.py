"""What people bring from other languages: T-SQL, Spark SQL, Flink SQL, ksqlDB, KQL.

Each is named, with what SAQL has in its place.

Most of these words are names here (`rows`, `filter`, `offset`), so one counts only where reading stopped,
or right after it when it was taken for an alias.
"""

from __future__ import annotations

from collections.abc import Sequence

from lark import Token

from tideglass.core.errors import Diagnostic, Span

NAMES = frozenset({"NAME", "BRACKETED", "QUOTED"})

_KEEPERS = (
    "TopOne() OVER (ORDER BY ...) and CollectTop(n) OVER (ORDER BY ...) keep the first rows of a window"
)
_IN_A_STEP = "put the query into a WITH step and JOIN it"
_PATTERNS = "write REGEXMATCH(s, 'pattern') = 1"
_JOINS = "JOIN and LEFT JOIN are the joins there are; each says ON what and how far apart in time"
_NAMED_WINDOWS = "write the window in GROUP BY, or OVER (PARTITION BY ... LIMIT DURATION(minute, 5))"
_LOOKING_BACK = "say how far back in time: AVG(x) OVER (PARTITION BY k LIMIT DURATION(minute, 5))"
_ONE_COLUMN_EACH = "write a column for each value: SUM(CASE WHEN k = 'a' THEN x ELSE 0 END) AS a"

#: Keywords of other dialects that tokens.py recognizes: the message, and what to do instead.
FOREIGN_KEYWORDS = {
    "ORDER": (
        "ORDER BY has no place in a streaming query",
        "rows come out in the order of time; ORDER BY stands in OVER ( ) only",
    ),
    "TOP": ("TOP is not in the language", _KEEPERS),
    "LIMIT": ("LIMIT is not in the language", _KEEPERS),
    "DISTINCT": (
        "SELECT DISTINCT is not in the language",
        "group by the columns in a window, or count with COUNT(DISTINCT x)",
    ),
    "RIGHT": ("RIGHT JOIN is not in the language", "swap the sides and write LEFT JOIN"),
    "FULL": ("FULL JOIN is not in the language", "write a LEFT JOIN each way and UNION the two"),
    "EXCEPT": (
        "EXCEPT is not in the language",
        "UNION is the only set operator; LEFT JOIN and IS NULL find what is missing",
    ),
    "INTERSECT": (
        "INTERSECT is not in the language",
        "UNION is the only set operator; JOIN finds what both sides have",
    ),
    "EXISTS": ("EXISTS (SELECT ...) is not in the language", _IN_A_STEP),
}

#: Words that are names to tokens.py; the hint for each.
_WORDS = {
    **dict.fromkeys(("ROWS", "RANGE"), _LOOKING_BACK),
    **dict.fromkeys(("OFFSET", "FETCH"), _KEEPERS),
    **dict.fromkeys(("RLIKE", "REGEXP", "SIMILAR"), _PATTERNS),
    **dict.fromkeys(("NATURAL", "SEMI", "ANTI", "ASOF", "STRAIGHT_JOIN"), _JOINS),
    **dict.fromkeys(("PIVOT", "UNPIVOT"), _ONE_COLUMN_EACH),
    **dict.fromkeys(
        ("RESPECT", "IGNORE"), "leave NULLs out by a condition: LAG(x) OVER (... WHEN x IS NOT NULL)"
    ),
    **dict.fromkeys(
        ("PRIMARY", "FOREIGN", "UNIQUE", "DEFAULT", "CHECK", "IDENTITY"),
        "a column of CREATE TABLE is a name and a type",
    ),
    "QUALIFY": "compute the function in a WITH step and filter by WHERE in the next one",
    "TABLESAMPLE": "filter by a column, such as WHERE id % 10 = 0",
    "FILTER": "count what a condition holds for by SUM(CASE WHEN condition THEN 1 ELSE 0 END)",
    "INTERVAL": "move a time by DATEADD(minute, 5, t); a window is written TumblingWindow(minute, 5)",
    "WATERMARK": "name the time of an event with TIMESTAMP BY; how late it may be is a setting of the job",
    "EMIT": "rows come out when their window ends; leave it out",
    "ILIKE": "write LOWER(s) LIKE 'a%'",
    "MOD": "write a % b",
    "DIV": "write a / b, which gives a whole number of whole numbers",
    "XOR": "write (a OR b) AND NOT (a AND b)",
    "ISNULL": "write x IS NULL",
    "NOTNULL": "write x IS NOT NULL",
    "USING": "write ON a.key = b.key",
    "LATERAL": "elements of an array are rows by CROSS APPLY GetArrayElements(a) AS e",
    "WINDOW": _NAMED_WINDOWS,
    "NULLS": "filter NULLs by WHERE x IS NOT NULL",
    "COLLATE": "text is compared by its characters; write LOWER(a) = LOWER(b) to ignore case",
    "AT": "times are UTC; move one by DATEADD(hour, 2, t)",
    "OPTION": "leave it out",
    "FOR": "reference data of the right time is joined by itself; leave it out",
    "OUTPUT": "write SELECT ... INTO output FROM input",
    "CONTAINS": "write s LIKE '%a%'",
    "STARTSWITH": "write s LIKE 'a%'",
    "ENDSWITH": "write s LIKE '%a'",
    "HAS": "write s LIKE '%a%'",
    "MATCHES": _PATTERNS,
    **dict.fromkeys(("ELSEIF", "ELSIF"), "write another WHEN ... THEN ... before ELSE"),
}

# Statements of other dialects, which begin with a word that is a name here.
_STATEMENTS = {
    **dict.fromkeys(("INSERT", "UPSERT"), "write SELECT ... INTO output FROM input"),
    **dict.fromkeys(
        ("UPDATE", "DELETE", "MERGE", "TRUNCATE"),
        "rows are never changed; write SELECT ... INTO output FROM input",
    ),
    **dict.fromkeys(("DECLARE", "SET", "LET"), "there are no variables; write the value where it is used"),
    **dict.fromkeys(
        ("USE", "GO", "EXEC", "EXECUTE", "PRINT", "BEGIN", "COMMIT", "SHOW", "DESCRIBE", "EXPLAIN"),
        "a job is one script of SELECT statements; leave it out",
    ),
    **dict.fromkeys(
        ("IF", "WHILE", "RETURN"), "rows are chosen by WHERE, values by CASE WHEN ... THEN ... ELSE ... END"
    ),
    **dict.fromkeys(("ALTER", "DROP"), "inputs and outputs belong to the project; leave it out"),
}
_CREATED = {
    **dict.fromkeys(
        ("VIEW", "TEMPORARY", "TEMP", "OR"), "write a WITH step: WITH name AS (SELECT ... FROM ...)"
    ),
    **dict.fromkeys(
        ("STREAM", "SINK", "SOURCE", "EXTERNAL", "DATABASE", "INDEX"),
        "inputs and outputs belong to the project; CREATE TABLE declares the columns of one",
    ),
    **dict.fromkeys(("FUNCTION", "AGGREGATE"), "functions are files of the project, in JavaScript"),
}


def foreign(tokens: Sequence[Token], index: int, expected: frozenset[str]) -> Diagnostic | None:
    """The construct of another dialect at which, or right after which, reading stopped at `tokens[index]`.

    expected: the terminals that would have fitted there.
    """
    token, previous = tokens[index], tokens[index - 1] if index else Token("$START", "")
    following = tokens[index + 1] if index + 1 < len(tokens) else Token("$END", "")
    if token.type in FOREIGN_KEYWORDS and following.type != "DURATION":
        return keyword(tokens, index)
    if "SELECT" in expected and "UNION" not in expected:
        statement = _statement(tokens, index)
        if statement is not None:
            return statement
    if token.type == "WITH" and following.type != "LPAR":
        return _refused(
            "a script has one WITH, and this is another",
            token,
            "put all steps after the first WITH, with commas: WITH a AS (...), b AS (...)",
        )
    if token.type == "WITH":
        return _refused("WITH (...) after an input is not in the language", token, "leave it out")
    if token.type == "GROUP" and previous.upper() == "WITHIN":
        hint = "write PERCENTILE_CONT(0.5) OVER (ORDER BY x)"
        return _refused("WITHIN GROUP is not in the language", token, hint, previous)
    if token.type == "QLPAR" and "NUMBER" in expected:
        return _refused("a subquery cannot be a value", token, _IN_A_STEP)
    if token.type == "QLPAR" and previous.type == "IN":
        return _refused("IN (SELECT ...) is not in the language", token, _IN_A_STEP, previous)
    if token.type == "COMMA" and previous.type in NAMES and "JOIN" in expected:
        begins_step = [each.type for each in tokens[index + 2 : index + 4]] == ["AS", "QLPAR"]
        if following.type not in NAMES or begins_step:
            return None  # a comma too many, or the parenthesis of a step before the next one is missing
        hint = "write JOIN ... ON ... AND DATEDIFF(second, a, b) BETWEEN 0 AND 10"
        return _refused("FROM takes one input; others are joined", token, hint)
    return _word(tokens, index)


def keyword(tokens: Sequence[Token], index: int) -> Diagnostic:
    """The message about a keyword of another dialect."""
    token, previous = tokens[index], tokens[index - 1] if index else Token("$START", "")
    message, hint = FOREIGN_KEYWORDS[token.type]
    if token.type == "EXCEPT" and previous.type == "STAR":
        message, hint = "* EXCEPT (...) is not in the language", "name the columns you want"
    if token.type == "ORDER" and any(each.type == "MATCH_RECOGNIZE" for each in tokens[:index]):
        message = "ORDER BY is not in the language of MATCH_RECOGNIZE"
        hint = "events are matched in the order of their times; leave it out"
    return Diagnostic("NOT_IN_LANGUAGE", message, _span(token), hint)


def _statement(tokens: Sequence[Token], index: int) -> Diagnostic | None:
    """A statement of another dialect, where one begins."""
    token = tokens[index]
    following = tokens[index + 1] if index + 1 < len(tokens) else Token("$END", "")
    word = token.upper()
    if token.type == "NAME" and word in _STATEMENTS:
        return _refused(f"{word} is not in the language", token, _STATEMENTS[word])
    if token.type == "NAME" and word == "CREATE" and following.upper() in _CREATED:
        created = following.upper()
        return _refused(f"CREATE {created} is not in the language", token, _CREATED[created])
    if token.type in NAMES and following.type == "PIPE":
        hint = "write SELECT columns INTO output FROM input WHERE condition"
        return _refused("a query begins with SELECT; steps joined by | are another language", token, hint)
    if token.type == "FROM":
        return _refused("a query begins with SELECT", token, "write SELECT ... INTO output FROM input")
    return None


def _word(tokens: Sequence[Token], index: int) -> Diagnostic | None:
    """A word of another dialect that is a name here: at the place, or before it, taken for an alias."""
    for at in (index - 1, index, index - 2):
        if at >= 1 and tokens[at].type == "NAME" and tokens[at].upper() in _WORDS:
            word = tokens[at].upper()
            if at == index or _is_no_name(tokens, at, index):
                return _refused(f"{word} is not in the language", tokens[at], _WORDS[word])
    return None


def _is_no_name(tokens: Sequence[Token], at: int, index: int) -> bool:
    """Whether a word that was read as a name before the place `index` was probably meant as a keyword."""
    if tokens[at].upper() == "INTERVAL" and tokens[at + 1].type in ("STRING", "NUMBER"):
        return True
    if at < index - 1 and tokens[at].upper() not in ("FOR", "LATERAL"):
        return False
    return tokens[at - 1].type not in ("COMMA", "DOT", "AS", "FROM", "INTO", "JOIN", "SELECT")


def _refused(message: str, token: Token, hint: str, first: Token | None = None) -> Diagnostic:
    span = _span(token) if first is None else Span(first.start_pos or 0, token.end_pos or 0)
    return Diagnostic("NOT_IN_LANGUAGE", message, span, hint)


def _span(token: Token) -> Span:
    return Span(token.start_pos or 0, token.end_pos or 0)
