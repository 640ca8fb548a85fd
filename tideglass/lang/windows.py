"""Windows as written in GROUP BY (`asa.md` 2.1, 3): calls turned into WindowCall and WindowsCall.

A window looks like any function call, so the grammar reads it as one. Which calls are windows, and
in what forms, is in one table here, which the printer uses too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tideglass.lang import nodes as n
from tideglass.lang.problems import Malformed


@dataclass(frozen=True, slots=True)
class WindowForm:
    """The arguments of a window, in order; the last `optional` of them may be left out."""

    roles: tuple[str, ...]
    optional: int = 0


FORMS = {
    "tumbling": WindowForm(("size", "offset"), optional=1),
    "hopping": WindowForm(("size", "hop", "offset"), optional=1),
    "sliding": WindowForm(("size",)),
    "session": WindowForm(("timeout", "max_duration")),
}
# How each argument is called in the long form: HoppingWindow(Duration(minute, 10), Hop(minute, 5)).
ROLE_FUNCTIONS = {
    "size": "Duration",
    "hop": "Hop",
    "offset": "Offset",
    "timeout": "Timeout",
    "max_duration": "MaxDuration",
}
_WRITTEN = {
    "tumbling": "TumblingWindow(unit, size [, offset]) or "
    "TumblingWindow(Duration(unit, n) [, Offset(unit, n)])",
    "hopping": "HoppingWindow(unit, size, hop [, offset]) or "
    "HoppingWindow(Duration(unit, n), Hop(unit, n) [, Offset(unit, n)])",
    "sliding": "SlidingWindow(unit, size) or SlidingWindow(Duration(unit, n))",
    "session": "SessionWindow(unit, timeout, maxDuration) or "
    "SessionWindow(Timeout(unit, n), MaxDuration(unit, n)), with OVER (PARTITION BY key) if wanted",
}


def group_items(exprs: Sequence[n.Expr]) -> tuple[n.GroupItem, ...]:
    """The items of a GROUP BY, windows recognised.

    Without another window the first bare System.Timestamp() is the snapshot window; beside one it
    stays an ordinary key (`asa.md` 2.7).
    """
    items = [_group_item(expr) for expr in exprs]
    if not any(isinstance(item, n.WindowCall | n.WindowsCall) for item in items):
        for index, item in enumerate(items):
            if isinstance(item, n.CallExpr) and _is_timestamp(item):
                items[index] = n.WindowCall("snapshot", (), span=item.span)
                break
    return tuple(items)


def window_kind(call: n.CallExpr) -> str | None:
    """tumbling, hopping, sliding or session when the call's name is a window's, otherwise None."""
    if call.prefix or call.name.quote:
        return None
    kind = call.name.text.lower().removesuffix("window")
    return kind if kind in FORMS else None


def _group_item(expr: n.Expr) -> n.GroupItem:
    if not isinstance(expr, n.CallExpr) or expr.prefix or expr.name.quote:
        return expr
    match expr.name.text.lower():
        case "windows":
            _refuse_extras(expr, over=False)
            if not expr.args:
                raise Malformed("SYNTAX", "Windows( ) names no window", expr.span, _WRITTEN["tumbling"])
            return n.WindowsCall(tuple(_member(arg) for arg in expr.args), expr.span)
        case "window":
            hint = "write Windows(Window('id', ...), ...), or for one window TumblingWindow(minute, 1)"
            raise Malformed("SYNTAX", "Window('id', ...) stands only inside Windows( )", expr.span, hint)
        case _:
            return _window(expr) or expr


def _member(arg: n.Expr) -> n.WindowCall:
    """One argument of Windows( ), with its id if it is wrapped in Window( )."""
    if isinstance(arg, n.CallExpr):
        if not arg.prefix and arg.name.text.lower() == "window":
            return _identified(arg)
        if _is_timestamp(arg):
            return n.WindowCall("snapshot", (), span=arg.span)
        window = _window(arg)
        if window is not None:
            return window
    hint = "its members are windows, Window('id', window) or System.Timestamp()"
    raise Malformed("SYNTAX", "Windows( ) holds something that is no window", arg.span, hint)


def _identified(call: n.CallExpr) -> n.WindowCall:
    _refuse_extras(call, over=False)
    hint = "write Window('id', TumblingWindow(minute, 10))"
    if len(call.args) != 2:
        raise Malformed("SYNTAX", "Window( ) takes an id and a window", call.span, hint)
    name, window = call.args
    if not isinstance(name, n.LiteralExpr):
        if not isinstance(name, n.Column) or len(name.path) != 1 or name.path[0].quote != '"':
            raise Malformed("SYNTAX", "the id of a Window( ) is a string", name.span, hint)
        name = n.LiteralExpr(name.path[0].text, name.span)  # "id": double quotes around a string
    inner = _member(window)
    if inner.id is not None:
        raise Malformed("SYNTAX", "a Window( ) inside a Window( )", window.span, hint)
    return n.WindowCall(inner.kind, inner.args, inner.over, name, call.span)


def _window(call: n.CallExpr) -> n.WindowCall | None:
    kind = window_kind(call)
    if kind is None:
        return None
    _refuse_extras(call, over=kind == "session")
    durations = _long_form(call, kind) or _short_form(call, kind)
    if durations is None:
        message = f"{call.name.text} is not written with these arguments"
        quoted = call.args and isinstance(call.args[0], n.LiteralExpr) and isinstance(call.args[0].value, str)
        hint = f"write {_WRITTEN[kind]}" + (", the unit without quotes" if quoted else "")
        raise Malformed("SYNTAX", message, call.span, hint)
    keys = call.over.partition_by if call.over else ()
    return n.WindowCall(kind, durations, keys, None, call.span)


def _fits(kind: str, count: int) -> bool:
    form = FORMS[kind]
    return len(form.roles) - form.optional <= count <= len(form.roles)


def _short_form(call: n.CallExpr, kind: str) -> tuple[tuple[str, n.Duration], ...] | None:
    """`(unit, n, ...)`: every amount is in the one unit."""
    if not call.args or not _fits(kind, len(call.args) - 1):
        return None
    unit, *amounts = call.args
    if not isinstance(unit, n.Column) or len(unit.path) != 1:
        return None
    name = unit.path[0]
    spans = [unit.span.to(amounts[0].span), *(amount.span for amount in amounts[1:])]
    roles = FORMS[kind].roles
    return tuple((role, n.Duration(name, e, s)) for role, e, s in zip(roles, amounts, spans, strict=False))


def _long_form(call: n.CallExpr, kind: str) -> tuple[tuple[str, n.Duration], ...] | None:
    """`(Duration(unit, n), Hop(unit, n), ...)`: each argument names its role."""
    if not call.args or not _fits(kind, len(call.args)):
        return None
    found: list[tuple[str, n.Duration]] = []
    for role, arg in zip(FORMS[kind].roles, call.args, strict=False):
        if not isinstance(arg, n.CallExpr) or arg.prefix or arg.over or len(arg.args) != 2:
            return None
        unit, amount = arg.args
        if arg.name.text.lower() != ROLE_FUNCTIONS[role].lower():
            return None
        if not isinstance(unit, n.Column) or len(unit.path) != 1:
            return None
        found.append((role, n.Duration(unit.path[0], amount, arg.span)))
    return tuple(found)


def _refuse_extras(call: n.CallExpr, over: bool) -> None:
    """Errors for DISTINCT, and for an OVER that is not the one a session window may have."""
    if call.distinct:
        raise Malformed("SYNTAX", f"{call.name.text} takes no DISTINCT", call.span)
    if call.over is None:
        return
    if not over or not call.over.partition_by or call.over.order_by or call.over.limit or call.over.when:
        hint = "only a session window has one: SessionWindow(...) OVER (PARTITION BY key)"
        raise Malformed("SYNTAX", f"{call.name.text} cannot have this OVER clause", call.over.span, hint)


def _is_timestamp(call: n.CallExpr) -> bool:
    prefix = [part.text.lower() for part in call.prefix]
    return prefix == ["system"] and call.name.text.lower() == "timestamp" and not call.args and not call.over
