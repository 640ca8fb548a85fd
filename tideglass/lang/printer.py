"""Syntax tree to text: `parse(print_script(tree))` is `tree` again for every tree the parser makes.

One layout for all queries: a clause a line, keywords in capitals, aliases with AS, parentheses only
where the tree needs them, windows in the short form where one unit allows it.
"""

from __future__ import annotations

from tideglass.lang import nodes as n
from tideglass.lang.windows import FORMS, ROLE_FUNCTIONS

_INDENT = "    "

# How tightly each kind of expression binds; the rules of saql.lark of the same names.
_OR, _AND, _NOT, _PREDICATE, _SUM, _SIGNED, _PRODUCT, _FACTOR, _COMPLEMENT, _PRIMARY = range(10)
_COMPARISONS = ("=", "<>", ">", ">=", "<", "<=")


def print_script(script: n.Script) -> str:
    """The text of a script, with a line break at its end."""
    parts = [f"{_create_table(table)};\n" for table in script.tables]
    if script.steps:
        parts.append(f"WITH {', '.join(_step(step) for step in script.steps)}\n")
    parts.extend(f"{print_query(statement)};\n" for statement in script.statements)
    return "".join(parts)


def print_query(query: n.Query, indent: str = "") -> str:
    """The text of a query; all lines but the first begin with `indent`."""
    newline = "\n" + indent
    if isinstance(query, n.UnionQuery):
        terms = [
            _nested(term, indent) if isinstance(term, n.UnionQuery) else print_query(term, indent)
            for term in query.terms
        ]
        return f"{newline}UNION{newline}".join(terms)
    lines = ["SELECT", *_listed([_item(item) for item in query.items])]
    if query.into is not None:
        lines.append(f"INTO {_name(query.into)}")
    lines.append(f"FROM {_relation(query.source, indent)}")
    lines.extend(_join(join, indent) for join in query.joins)
    if query.match is not None:
        lines.extend(_match(query.match))
    if query.where is not None:
        lines.append(f"WHERE {print_expr(query.where)}")
    if query.group_by:
        lines.append(f"GROUP BY {', '.join(_group_item(item) for item in query.group_by)}")
    if query.having is not None:
        lines.append(f"HAVING {print_expr(query.having)}")
    return newline.join(lines)


def print_expr(expr: n.Expr) -> str:
    """The text of an expression, on one line unless a string in it has line breaks."""
    return _expr(expr, _OR)


# ---------------------------------------------------------------- script


def _create_table(table: n.CreateTable) -> str:
    types = {"NVARCHAR": "NVARCHAR(MAX)"}
    columns = [f"{_name(column.name)} {types.get(column.type, column.type)}" for column in table.columns]
    return "\n".join([f"CREATE TABLE {_name(table.name)} (", *_listed(columns), ")"])


def _step(step: n.Step) -> str:
    return f"{_name(step.name)} AS {_nested(step.query, '')}"


def _nested(query: n.Query, indent: str) -> str:
    inner = indent + _INDENT
    return f"(\n{inner}{print_query(query, inner)}\n{indent})"


def _listed(texts: list[str]) -> list[str]:
    """One line each, indented, with commas between."""
    return [f"{_INDENT}{text}{',' if index < len(texts) - 1 else ''}" for index, text in enumerate(texts)]


def _name(name: n.Name) -> str:
    match name.quote:
        case "[":
            return f"[{name.text.replace(']', ']]')}]"
        case '"':
            return '"' + name.text.replace('"', '""') + '"'
        case _:
            return name.text


def _path(path: tuple[n.Name, ...]) -> str:
    return ".".join(_name(part) for part in path)


def _exprs(exprs: tuple[n.Expr, ...]) -> str:
    return ", ".join(print_expr(expr) for expr in exprs)


# ---------------------------------------------------------------- SELECT


def _item(item: n.Item | n.StarItem) -> str:
    if isinstance(item, n.StarItem):
        return f"{_path(item.path)}.*" if item.path else "*"
    # A bare `a = b` in a SELECT list would name b; a condition stands in parentheses.
    text = _expr(item.expr, _SUM)
    return text if item.alias is None else f"{text} AS {_name(item.alias)}"


def _relation(relation: n.FromItem, indent: str) -> str:
    if relation.query is not None:
        text = _nested(relation.query, indent)
    else:
        assert relation.name is not None, "a relation has a name or a query"
        text = _name(relation.name)
    if relation.alias is not None:
        text += f" AS {_name(relation.alias)}"
    stamp, partition = relation.timestamp_by, relation.partition_by
    if stamp is not None:
        text += f" TIMESTAMP BY {print_expr(stamp.expr)}" + (
            f" OVER {_exprs(stamp.over)}" if stamp.over else ""
        )
    if partition is not None:
        text += f" PARTITION BY {_exprs(partition.exprs)}"
        text += f" INTO {partition.into}" if partition.into is not None else ""
    return text


def _join(join: n.JoinClause | n.ApplyClause, indent: str) -> str:
    if isinstance(join, n.ApplyClause):
        return f"{join.kind} APPLY {_name(join.function)}({print_expr(join.arg)}) AS {_name(join.alias)}"
    on = f" ON {print_expr(join.on)}" if join.on is not None else ""
    return f"{join.kind} JOIN {_relation(join.relation, indent)}{on}"


def _group_item(item: n.GroupItem) -> str:
    match item:
        case n.WindowCall():
            return _window(item)
        case n.WindowsCall():
            return f"Windows({', '.join(_window(member) for member in item.members)})"
        case _:
            return print_expr(item)


def _window(window: n.WindowCall) -> str:
    if window.kind == "snapshot":
        text = "System.Timestamp()"
    else:
        durations = [duration for _, duration in window.args]
        if len({duration.unit for duration in durations}) == 1:
            args = ", ".join(
                [_name(durations[0].unit), *(print_expr(duration.amount) for duration in durations)]
            )
        else:
            args = ", ".join(_duration(duration, ROLE_FUNCTIONS[role]) for role, duration in window.args)
        assert window.kind in FORMS, f"no window is of the kind {window.kind}"
        text = f"{window.kind.capitalize()}Window({args})"
    if window.over:
        text += f" OVER (PARTITION BY {_exprs(window.over)})"
    return text if window.id is None else f"Window({print_expr(window.id)}, {text})"


def _duration(duration: n.Duration, function: str = "DURATION") -> str:
    return f"{function}({_name(duration.unit)}, {print_expr(duration.amount)})"


# ---------------------------------------------------------------- MATCH_RECOGNIZE


def _match(match: n.MatchRecognize) -> list[str]:
    """The lines of the clause."""
    lines = [f"LIMIT {_duration(match.limit)}"]
    if match.partition_by:
        lines.append(f"PARTITION BY {_exprs(match.partition_by)}")
    lines.append(f"MEASURES {', '.join(_item(item) for item in match.measures)}")
    lines.append("AFTER MATCH SKIP TO NEXT ROW")
    lines.append(f"PATTERN ({_pattern(match.pattern, 0)})")
    lines.append(f"DEFINE {', '.join(f'{_name(name)} AS {print_expr(when)}' for name, when in match.define)}")
    alias = f" AS {_name(match.alias)}" if match.alias is not None else ""
    return ["MATCH_RECOGNIZE (", *(_INDENT + line for line in lines), f"){alias}"]


def _pattern(pattern: n.Pattern, least: int) -> str:
    """Levels: 0 choice, 1 sequence, 2 repetition, 3 single event."""
    match pattern:
        case n.PatternName():
            return _name(pattern.name)
        case n.PatternAny():
            return "."
        case n.PatternChoice():
            text, level = " | ".join(_pattern(option, 1) for option in pattern.options), 0
        case n.PatternSequence():
            text, level = " ".join(_pattern(part, 2) for part in pattern.parts), 1
        case n.PatternRepeat():
            text, level = _pattern(pattern.part, 3) + _quantifier(pattern.least, pattern.most), 2
    return text if level >= least else f"({text})"


def _quantifier(least: int, most: int | None) -> str:
    match least, most:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case 0, 1:
            return "?"
        case _, None:
            return f"{{{least},}}"
        case _:
            return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


# ---------------------------------------------------------------- expressions


def _expr(expr: n.Expr, least: int) -> str:
    """The expression, in parentheses if it binds looser than `least`."""
    if isinstance(expr, n.Unary) and expr.op in "+-" and least == _FACTOR:
        return _signed(expr.op, _expr(expr.operand, _FACTOR))  # after * a sign needs no parentheses
    text, level = _bound(expr)
    return text if level >= least else f"({text})"


def _bound(expr: n.Expr) -> tuple[str, int]:
    """The text of an expression and how tightly it binds."""
    match expr:
        case n.LiteralExpr():
            return _literal(expr.value)
        case n.Column():
            return _path(expr.path), _PRIMARY
        case n.Star():
            return "*", _PRIMARY
        case n.Member():
            tight = isinstance(expr.base, n.CallExpr | n.CastExpr | n.Member)
            base = _expr(expr.base, _PRIMARY) if tight else f"({print_expr(expr.base)})"
            return f"{base}.{_name(expr.name)}", _PRIMARY
        case n.CallExpr():
            return _call(expr), _PRIMARY
        case n.CastExpr():
            type_ = "NVARCHAR(MAX)" if expr.type == "NVARCHAR" else expr.type
            return f"{'TRY_' if expr.lenient else ''}CAST({print_expr(expr.expr)} AS {type_})", _PRIMARY
        case n.CaseExpr():
            return _case(expr), _PRIMARY
        case n.Unary():
            return _unary(expr)
        case n.Binary():
            return _binary(expr)
        case n.Like():
            return f"{_expr(expr.value, _SUM)} {_not(expr)}LIKE {_expr(expr.pattern, _SUM)}", _PREDICATE
        case n.Between():
            low, high = _expr(expr.low, _SUM), _expr(expr.high, _SUM)
            return f"{_expr(expr.value, _SUM)} {_not(expr)}BETWEEN {low} AND {high}", _PREDICATE
        case n.IsNull():
            return f"{_expr(expr.value, _SUM)} IS {_not(expr)}NULL", _PREDICATE
        case n.In():
            return f"{_expr(expr.value, _SUM)} {_not(expr)}IN ({_exprs(expr.options)})", _PREDICATE


def _not(predicate: n.Like | n.Between | n.IsNull | n.In) -> str:
    return "NOT " if predicate.negated else ""


def _literal(value: int | float | str | None) -> tuple[str, int]:
    if value is None:
        return "NULL", _PRIMARY
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'", _PRIMARY
    return repr(value), _PRIMARY if value >= 0 else _SIGNED


def _unary(expr: n.Unary) -> tuple[str, int]:
    match expr.op:
        case "NOT":
            return f"NOT {_expr(expr.operand, _NOT)}", _NOT
        case "~":
            return f"~{_expr(expr.operand, _FACTOR)}", _COMPLEMENT
        case _:
            return _signed(expr.op, _expr(expr.operand, _SIGNED)), _SIGNED


def _signed(sign: str, operand: str) -> str:
    gap = " " if operand.startswith(sign) else ""  # two minus signs would begin a comment
    return f"{sign}{gap}{operand}"


def _binary(expr: n.Binary) -> tuple[str, int]:
    left, right = {
        "OR": (_OR, _AND),
        "AND": (_AND, _NOT),
        **dict.fromkeys(_COMPARISONS, (_SUM, _SUM)),
        **dict.fromkeys("*/%", (_PRODUCT, _FACTOR)),
    }.get(expr.op, (_SUM, _SIGNED))
    level = _PREDICATE if expr.op in _COMPARISONS else left
    return f"{_expr(expr.left, left)} {expr.op} {_expr(expr.right, right)}", level


def _call(call: n.CallExpr) -> str:
    args = ("DISTINCT " if call.distinct else "") + _exprs(call.args)
    text = f"{_path((*call.prefix, call.name))}({args})"
    if call.over is None:
        return text
    over = call.over
    parts: list[str] = []
    if over.partition_by:
        parts.append(f"PARTITION BY {_exprs(over.partition_by)}")
    if over.order_by:
        items = [print_expr(item.expr) + (" DESC" if item.descending else "") for item in over.order_by]
        parts.append(f"ORDER BY {', '.join(items)}")
    if over.limit is not None:
        parts.append(f"LIMIT {_duration(over.limit)}")
    if over.when is not None:
        parts.append(f"WHEN {print_expr(over.when)}")
    return f"{text} OVER ({' '.join(parts)})"


def _case(case: n.CaseExpr) -> str:
    parts = ["CASE"]
    if case.operand is not None:
        parts.append(print_expr(case.operand))
    parts.extend(f"WHEN {print_expr(when)} THEN {print_expr(then)}" for when, then in case.branches)
    if case.otherwise is not None:
        parts.append(f"ELSE {print_expr(case.otherwise)}")
    return " ".join([*parts, "END"])
