"""How deeply a query may be nested.

Functions that walk queries and expressions recurse into each level, and recursion has a limit. The limit here
leaves room for the levels of SQL that one level of a query becomes; tests run a query of every shape that is
as deep as the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import cast

from tideglass.core.errors import Diagnostics, Span
from tideglass.lang import nodes as tree

#: Levels of an expression, a pattern or a query. It is no rule of the service.
DEEPEST = 100

_EXPRESSIONS = (
    tree.Member, tree.CallExpr, tree.CastExpr, tree.Unary, tree.Binary, tree.Like, tree.Between, tree.IsNull,
    tree.In, tree.CaseExpr,
)  # fmt: skip
_QUERIES = (tree.Select, tree.UnionQuery)
_PATTERNS = (tree.PatternSequence, tree.PatternChoice, tree.PatternRepeat)


def check_depth(script: tree.Script, diagnostics: Diagnostics) -> None:
    """Reports every expression, pattern and query of the script that is nested too deeply: TOO_DEEP."""
    deepest: dict[tuple[str, Span], int] = {}
    waiting: list[tuple[object, int, tuple[str, Span] | None]] = [(script, 0, None)]
    while waiting:
        node, above, outermost = waiting.pop()
        what = _kind(node)
        if what:
            if outermost is None or (outermost[0] != what and above < DEEPEST):
                outermost = what, cast(tree.Expr, node).span
            above += _levels(node)
            deepest[outermost] = max(deepest.get(outermost, 0), above)
        waiting += [(part, above, outermost) for part in _parts(node)]
    for (what, span), levels in deepest.items():
        if levels > DEEPEST:
            diagnostics.error(
                "TOO_DEEP",
                f"the {what} is nested {levels} levels deep; at most {DEEPEST} are possible",
                span,
                "compute a part of it in a WITH step, and use that in the next one",
            )


def _kind(node: object) -> str:
    """What a node that is a level of its own is called; '' for any other."""
    if isinstance(node, _EXPRESSIONS):
        return "expression"
    if isinstance(node, _QUERIES):
        return "query"
    return "pattern" if isinstance(node, _PATTERNS) else ""


def _levels(node: object) -> int:
    """How many levels a node is: CASE x WHEN y also compares, and each JOIN is around those before it."""
    match node:
        case tree.CaseExpr():
            return 1 if node.operand is None else 2
        case tree.Select():
            return 1 + len(node.joins)
        case _:
            return 1


def _parts(node: object) -> Iterator[object]:
    """The direct parts of a node. A chain of AND or OR has all its parts on one level."""
    if isinstance(node, tuple):
        yield from node  # pyright: ignore[reportUnknownVariableType]
    elif isinstance(node, tree.Binary) and node.op.upper() in ("AND", "OR"):
        yield from tree.chained(node)
    elif is_dataclass(node):
        for part in fields(node):
            yield getattr(node, part.name)
