"""What a GROUP BY makes of expressions: keys, shared aggregates, and the check that nothing else is used."""

from __future__ import annotations

from collections.abc import Container, Sequence

from tideglass.bind.advice import FUNCTIONS
from tideglass.core.errors import Diagnostics, Span
from tideglass.core.types import PANE, SYSTEM_TIMESTAMP, WINDOW_ID
from tideglass.plan.calls import AggregateCall
from tideglass.plan.expressions import Call, Case, Cast, Expr, Literal, Path, Ref
from tideglass.plan.nodes import Named


def same(left: Expr | AggregateCall, right: Expr | AggregateCall) -> bool:
    """Whether two bound expressions are the same, spans aside.

    Compares their text form, since `==` holds between the literals 1, 1.0 and true.
    """
    return repr(left) == repr(right)


def _same_but_for_case(left: Expr, right: Expr) -> bool:
    """Whether two fields differ by the case of their names only (A-09)."""
    match left, right:
        case (Ref(), Ref()) | (Path(), Path()):
            return repr(left).casefold() == repr(right).casefold()
        case _:
            return False


class GroupBinding:
    """The keys and aggregates of one GROUP BY, collected while its SELECT and HAVING are bound."""

    def __init__(self, keys: Sequence[Expr], has_window_ids: bool, aliases: Container[str] = ()) -> None:
        """aliases: names that the SELECT list defines, in lower case; the list itself cannot read them."""
        self._aliases = aliases
        self.has_window_ids = has_window_ids
        self._aggregates: list[AggregateCall] = []
        self._keys: list[Expr] = []
        self._reported: set[Span] = set()
        for key in keys:
            if not any(same(key, other) for other in self._keys):
                self._keys.append(key)

    @property
    def keys(self) -> tuple[Named, ...]:
        return tuple(Named(f"$k{n}", key) for n, key in enumerate(self._keys))

    @property
    def aggregates(self) -> tuple[tuple[str, AggregateCall], ...]:
        return tuple((f"$a{n}", call) for n, call in enumerate(self._aggregates))

    def aggregate(self, call: AggregateCall) -> Ref:
        """The column holding the result of `call`; equal calls are computed once."""
        for n, other in enumerate(self._aggregates):
            if same(call, other):
                return Ref(f"$a{n}", call.span)
        self._aggregates.append(call)
        return Ref(f"$a{len(self._aggregates) - 1}", call.span)

    def has_key_named(self, name: str) -> bool:
        """Whether a key is a plain column of that name."""
        return any(_last_name(key).casefold() == name.casefold() for key in self._keys)

    def key_of(self, expr: Expr, span: Span) -> Ref | None:
        """The key column equal to `expr`: exactly, or as the only one that differs by case (A-09)."""
        for n, key in enumerate(self._keys):
            if same(key, expr):
                return Ref(f"$k{n}", span)
        close = [n for n, key in enumerate(self._keys) if _same_but_for_case(key, expr)]
        return Ref(f"$k{close[0]}", span) if len(close) == 1 else None

    def lift(self, expr: Expr, diagnostics: Diagnostics) -> Expr:
        """`expr`, bound over the rows, as an expression over the groups.

        What equals a key becomes that key's column; System.Timestamp() is the window's end even when it
        is also a key (A-28); any other column is reported as NOT_GROUPED.
        """
        if isinstance(expr, Ref) and _is_of_groups(expr.name):
            return expr
        key = self.key_of(expr, expr.span)
        if key is not None:
            return key
        match expr:
            case Literal():
                return expr
            case Path(base=Ref(name=name)) if _is_of_groups(name):
                return expr
            case Ref() | Path(base=Ref()):
                return self._not_grouped(expr, diagnostics)
            case Path(base=base, keys=keys):
                return Path(self.lift(base, diagnostics), keys, expr.span)
            case Call(function=function, args=args):
                return Call(function, tuple(self.lift(arg, diagnostics) for arg in args), expr.span)
            case Cast(expr=inner, type=type_, lenient=lenient):
                return Cast(self.lift(inner, diagnostics), type_, lenient, expr.span)
            case Case(branches=branches, otherwise=otherwise):
                lifted = tuple(
                    (self.lift(condition, diagnostics), self.lift(value, diagnostics))
                    for condition, value in branches
                )
                return Case(lifted, self.lift(otherwise, diagnostics), expr.span)

    def _not_grouped(self, expr: Ref | Path, diagnostics: Diagnostics) -> Expr:
        if isinstance(expr, Path) and isinstance(expr.base, Ref):
            for length in range(len(expr.keys) - 1, -1, -1):
                record = Path(expr.base, expr.keys[:length], expr.span) if length else expr.base
                key = self.key_of(record, expr.span)
                if key is not None:
                    return Path(key, expr.keys[length:], expr.span)
        if expr.span in self._reported:  # one place may stand for several columns, as PartitionId does
            return Literal(None, expr.span)
        self._reported.add(expr.span)
        name = _last_name(expr)
        hint = f"add {name} to GROUP BY, or aggregate it, as in MAX({name})" if name else "add it to GROUP BY"
        if name.casefold() in FUNCTIONS and name.casefold().startswith("window"):
            hint = FUNCTIONS[name.casefold()]
        elif name.casefold() in self._aliases:
            hint = f"{name} is an alias of this SELECT; repeat the expression, or read it in a later step"
        diagnostics.error(
            "NOT_GROUPED",
            f"{repr(name) if name else 'this'} is neither a grouping key nor inside an aggregate",
            expr.span,
            hint,
        )
        return Literal(None, expr.span)


def _is_of_groups(name: str) -> bool:
    """Whether a column is made by the groups themselves: window's end and id, pane, aggregates."""
    return name in (SYSTEM_TIMESTAMP, WINDOW_ID, PANE) or (name.startswith("$a") and name[2:].isdigit())


def _last_name(expr: Expr) -> str:
    match expr:
        case Path(keys=keys):
            return keys[-1]
        case Ref(name=name) if not name.startswith("$"):
            return name
        case _:
            return ""
