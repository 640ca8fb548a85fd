"""MATCH_RECOGNIZE: every way to match is tried in order of preference, from each event on (2.14, A-13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tideglass.lang import nodes as n

from .expressions import Bound, Scope, aggregate, ticks_of
from .rows import Row
from .values import OracleError, Value, identity

#: Events in order, each with the variable it matched; '' is the dot.
Matched = tuple[tuple[Row, str], ...]

#: What is computed, or where failing rows are left out, the second argument if that fails.
Attempt = Callable[[Callable[[], Any], Any], Any]


class MatchScope(Scope):
    """Evaluates over the events matched so far; a bare `A.x` is that of the last event of A."""

    def __init__(self, matched: Matched, variables: Sequence[str], level: tuple[int, int]) -> None:
        self.of = {name: [row for row, own in matched if own == name] for name in variables}
        self.matched = matched
        last = [Bound(name, rows[-1] if rows else None, rows) for name, rows in self.of.items()]
        row = matched[-1][0]
        super().__init__(last, row.time, row.order, level)

    def intercept(self, expr: n.Expr) -> tuple[bool, Value]:
        if not isinstance(expr, n.CallExpr) or expr.prefix:
            return False, None
        function = expr.name.text.lower()
        if function == "classifier":
            return True, [name for _, name in self.matched if name]
        if function not in ("first", "last", "min", "max"):
            return False, None
        (field,) = expr.args
        if not isinstance(field, n.Column) or len(field.path) < 2:
            raise OracleError(f"{function} takes a field of a variable")
        rows = next(
            (rows for name, rows in self.of.items() if name.lower() == field.path[0].text.lower()), []
        )
        scopes = [
            Scope([Bound(field.path[0].text, row, rows)], row.time, row.order, self.level) for row in rows
        ]
        if function in ("min", "max"):
            return True, aggregate(expr, scopes) if scopes else None
        return True, scopes[0 if function == "first" else -1].value(field) if scopes else None


@dataclass(frozen=True)
class Matcher:
    """One MATCH_RECOGNIZE over the events of one key, in order."""

    match: n.MatchRecognize
    rows: Sequence[Row]
    level: tuple[int, int]
    attempt: Attempt

    def rows_of_matches(self) -> Iterator[Row]:
        """The measures of the preferred match from each event on, with the timestamp of its last event."""
        for start, first in enumerate(self.rows):
            found = next((way for way in self.ways(self.match.pattern, start, ()) if way), None)
            if found is None:
                continue
            scope = MatchScope(found, self.variables, self.level)
            named = self.attempt(lambda scope=scope: self.measures(scope), None)
            if named is None:
                continue
            last = found[-1][0]
            yield Row(named, last.time, (*last.order, *first.order), listed=frozenset(named))

    def measures(self, scope: MatchScope) -> dict[str, Value]:
        items = self.match.measures
        return {item.alias.text: scope.value(item.expr) for item in items if item.alias is not None}

    @property
    def variables(self) -> list[str]:
        return [name.text for name, _ in self.match.define]

    def ways(self, pattern: n.Pattern, start: int, matched: Matched) -> Iterator[Matched]:
        """What may have been matched after `pattern`, the preferred way first: greedy, leftmost option."""
        match pattern:
            case n.PatternAny() | n.PatternName():
                yield from self.event(pattern, start, matched)
            case n.PatternSequence(parts=(part, *rest)):
                for way in self.ways(part, start, matched):
                    yield from self.ways(n.PatternSequence(tuple(rest)), start, way)
            case n.PatternSequence():
                yield matched
            case n.PatternChoice():
                for option in pattern.options:
                    yield from self.ways(option, start, matched)
            case n.PatternRepeat(part=part, least=least, most=most):
                if most != 0:
                    rest = n.PatternRepeat(part, max(least - 1, 0), None if most is None else most - 1)
                    for way in self.ways(part, start, matched):
                        if len(way) > len(matched):
                            yield from self.ways(rest, start, way)
                        elif least:
                            yield way
                if not least:
                    yield matched

    def event(self, pattern: n.PatternAny | n.PatternName, start: int, matched: Matched) -> Iterator[Matched]:
        """The next event, if it lies within the limit and its definition holds."""
        place = start + len(matched)
        if place == len(self.rows):
            return
        row = self.rows[place]
        if row.time - self.rows[start].time > ticks_of(self.match.limit):
            return
        if isinstance(pattern, n.PatternAny):
            yield (*matched, (row, ""))
            return
        for name, condition in self.match.define:
            if name.text.lower() == pattern.name.text.lower():
                way = (*matched, (row, name.text))
                scope = MatchScope(way, self.variables, self.level)
                if self.attempt(lambda s=scope, c=condition: s.true(c), False):
                    yield way
                return
        raise OracleError(f"{pattern.name.text} is not defined")


def matches(
    match: n.MatchRecognize, rows: Sequence[Row], alias: str, level: tuple[int, int], attempt: Attempt
) -> list[Row]:
    """A row for each match; events of different keys never meet."""
    parts: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        scope = Scope([Bound(alias, row, rows)], row.time, row.order, level)

        def key_of(scope: Scope = scope) -> tuple[object, ...]:
            return tuple(identity(scope.value(key)) for key in match.partition_by)

        key = attempt(key_of, None)
        if key is not None:
            parts.setdefault(key, []).append(row)
    return [
        found for part in parts.values() for found in Matcher(match, part, level, attempt).rows_of_matches()
    ]
