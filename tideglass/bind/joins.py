"""FROM with joins of streams and of reference data: time bounds, keys and rules of ON (`asa.md` 2.8, 2.9)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tideglass.bind.analytics import Analytics
from tideglass.bind.catalog import Environment
from tideglass.bind.clauses import ON, PARTITION_BY
from tideglass.bind.expressions import Expressions
from tideglass.bind.scope import BoundRows, Relation, Scope, SubstreamKey
from tideglass.core.errors import Diagnostics, Span
from tideglass.core.time import ORIGIN_TICKS, TICKS_PER_DAY
from tideglass.core.types import SYSTEM_TIMESTAMP, Type
from tideglass.functions.dates import PART_TICKS
from tideglass.lang import nodes as tree
from tideglass.plan.expressions import Call, Cast, Expr, Literal, Ref, connected, references, rewrite
from tideglass.plan.nodes import InputScan, Join, Lookup, TimeBound
from tideglass.plan.windows import LONGEST_TICKS

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}
_MAKES_DATETIME = frozenset(("dateadd", "datetimefromparts"))


@dataclass(slots=True)
class JoinChain:
    """What the joins of one FROM clause know of each other, from left to right.

    partition_keys: what the first source is partitioned by, as a reader of it alone names it
    """

    environment: Environment
    partition_keys: tuple[Expr, ...] = ()
    #: pairs of expressions that earlier ONs made equal
    _equal: list[tuple[Expr, Expr]] = field(default_factory=list[tuple[Expr, Expr]])
    #: per prefix, the least and most that the source's $ts lies after the joined row's
    _ahead_ticks: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    @property
    def _diagnostics(self) -> Diagnostics:
        return self.environment.diagnostics

    def join(
        self,
        join: tree.JoinClause,
        left: BoundRows,
        right: BoundRows,
        relations: Sequence[Relation],
        analytics: Analytics | None = None,
    ) -> BoundRows:
        """The rows of a join of streams; reports everything that is wrong with its ON.

        `relations` are all sources up to the joined one, which is the last; all have their prefixes.
        """
        *_, last = relations
        left, left_prefix = self._entered(left, relations[0])
        if join.on is None:
            self._diagnostics.error(
                "CROSS_JOIN_OF_STREAMS",
                "CROSS JOIN is for reference data; streams are joined within a distance in time",
                join.span,
                f"write JOIN ... ON DATEDIFF(minute, {relations[0].alias}, {last.alias}) BETWEEN 0 AND 5",
            )
            return left
        scope = Scope(tuple(relations), self.environment)
        expressions = Expressions(scope, self.environment, ON, analytics=analytics)
        on = _split(expressions.condition(join.on), last.prefix)
        self._equal += on.keys
        self._check_keys(join, left, right, last)
        ticks = self._check_bounds(on, relations, join.on.span, isinstance(right.node, InputScan))
        node = Join(
            left.node,
            right.node,
            join.kind.lower(),
            left_prefix,
            last.prefix,
            on.keys,
            on.bounds,
            _all(on.rest),
            ticks.lower,
            ticks.upper,
            ticks.unmatched,
        )
        self._move_ahead(last.prefix, node)
        return replace(left, node=node, metadata=None, events=False)

    def lookup(
        self,
        join: tree.JoinClause,
        left: BoundRows,
        reference: BoundRows,
        relations: Sequence[Relation],
        analytics: Analytics,
    ) -> BoundRows:
        """The rows of a join with reference data, whose rows have no time: ON may ask for anything.

        `relations` are all sources up to the reference input, which is the last.
        """
        *_, last = relations
        left, left_prefix = self._entered(left, relations[0])
        scan = reference.node
        assert isinstance(scan, InputScan)
        on = _On((), (), (), None)
        if join.on is not None:
            expressions = Expressions(
                Scope(tuple(relations), self.environment), self.environment, ON, analytics=analytics
            )
            on = _split(expressions.condition(join.on), last.prefix)
        self._equal += on.keys
        node = Lookup(
            left.node,
            scan.input,
            join.kind.lower() if join.on is not None else "inner",
            left_prefix,
            last.prefix,
            on.keys,
            _all(on.rest),
            scan.columns,
            scan.open,
            scan.payload_types,
            join.span,
        )
        return replace(left, node=node)

    def _entered(self, left: BoundRows, first: Relation) -> tuple[BoundRows, str]:
        """The rows of the first source as the joined rows name them, with the prefix their columns get.

        What is joined already has its names.
        """
        if self._ahead_ticks:
            return left, ""
        self._ahead_ticks[first.prefix] = (0, 0)
        self.partition_keys = tuple(prefixed(key, first.prefix) for key in self.partition_keys)
        return replace(left, substream_keys=_qualified(left.substream_keys, first.prefix)), first.prefix

    # ------------------------------------------------------------ bounds

    def _check_bounds(self, on: _On, relations: Sequence[Relation], place: Span, is_input: bool) -> _Ticks:
        """How far apart in time the rows of a pair may lie; reports what is unbounded or too long."""
        lower = [(self._ahead_ticks.get(_prefix_of(b.base), (0, 0))[0], b) for b in on.bounds]
        upper = [(self._ahead_ticks.get(_prefix_of(b.base), (0, 0))[1], b) for b in on.bounds]
        lowest = [(ahead, b, b.lowest) for ahead, b in lower if b.lowest is not None]
        highest = [(ahead, b, b.highest) for ahead, b in upper if b.highest is not None]
        if not lowest or not highest:
            self._report_unbounded(on, relations, bool(lowest or highest), place, is_input)
            return _Ticks(0, 0, 0)
        earliest_ticks = max(b.unit_ticks * count for _, b, count in lowest)
        latest_ticks = min(b.unit_ticks * count for _, b, count in highest)
        if max(latest_ticks, earliest_ticks, 0) - min(latest_ticks, earliest_ticks, 0) > LONGEST_TICKS:
            self._diagnostics.error(
                "JOIN_TOO_LONG",
                "the rows of a join may lie at most 7 days apart",
                place,
                "narrow the bounds of DATEDIFF",
            )
        return _Ticks(
            max(ahead + (count - 1) * b.unit_ticks + 1 for ahead, b, count in lowest),
            min(ahead + (count + 1) * b.unit_ticks - 1 for ahead, b, count in highest),
            latest_ticks,
        )

    def _report_unbounded(
        self, on: _On, relations: Sequence[Relation], half: bool, place: Span, is_input: bool
    ) -> None:
        right = relations[-1]
        before = [relation for relation in relations[:-1] if not relation.applied][-1]
        example = f"DATEDIFF(minute, {before.alias}, {right.alias}) BETWEEN 0 AND 5"
        if on.odd_unit is not None:
            message = f"a distance in {on.odd_unit} does not bound the join: its length varies"
            hint = "use week, day, hour, minute, second or millisecond"
        elif half:
            message, hint = "the distance in time is bounded on one side only", f"write {example}"
        else:
            message = f"nothing says how far rows of {right.alias!r} may be from those before in time"
            hint = f"add AND {example}"
            if is_input:
                hint += f'; if {right.own_name!r} is reference data, its input says "Type": "Reference data"'
            if any(_has_datediff(part) for part in on.rest):
                hint = f"DATEDIFF in ON takes the names of the sources, not their columns: {example}"
        self._diagnostics.error("JOIN_NOT_BOUNDED", message, place, hint)

    def _move_ahead(self, right_prefix: str, join: Join) -> None:
        """What is known of each source's time relative to the rows of `join`."""
        moves_ticks = [0, join.upper_ticks] + ([join.unmatched_ticks] if join.kind == "left" else [])
        least_ticks, most_ticks = min(0, moves_ticks[-1]), max(moves_ticks)
        for prefix, (low, high) in self._ahead_ticks.items():
            self._ahead_ticks[prefix] = (low - most_ticks, high - least_ticks)
        self._ahead_ticks[right_prefix] = (min(0, join.lower_ticks), 0)

    # ------------------------------------------------------------ keys

    def _check_keys(
        self, join: tree.JoinClause, left: BoundRows, right_rows: BoundRows, right: Relation
    ) -> None:
        """Substream keys and partition keys of both sides must be equated (`asa.md` 1.7, 2.8)."""
        assert join.on is not None
        place = join.on.span
        ours, theirs = left.substream_keys, _qualified(right_rows.substream_keys, right.prefix)
        for n in range(max(len(ours), len(theirs))):
            mine, other = (keys[n] if n < len(keys) else None for keys in (ours, theirs))
            named = mine or other
            if named is not None and not (mine and other and self._are_equal(mine.expr, other.expr)):
                self._diagnostics.error(
                    "SUBSTREAM_KEY_NOT_JOINED",
                    f"the substream key {named.text!r} of TIMESTAMP BY ... OVER must be equated in ON",
                    place,
                    "equate the keys of both sides, in the order in which OVER names them",
                )
        partitioned = join.relation.partition_by
        if partitioned is None or not self.partition_keys:
            return
        again = self.environment.unreported()
        reader = Expressions(Scope((right,), again), again, PARTITION_BY)
        for n, key in enumerate(partitioned.exprs):
            mine = self.partition_keys[n] if n < len(self.partition_keys) else None
            if not self._are_equal(mine, reader.value(key)):
                self._diagnostics.error(
                    "PARTITION_KEY_NOT_JOINED",
                    f"both sides are partitioned, so ON must equate {self.environment.words(key.span)!r} "
                    "with the partition key of the other side",
                    place,
                    "add it to ON with AND, or leave PARTITION BY out",
                )

    def _are_equal(self, left: Expr | None, right: Expr | None) -> bool:
        """Whether the ONs so far make two expressions equal, maybe by way of others."""
        if left is None or right is None:
            return False
        known, waiting = {repr(left)}, [left]
        while waiting:
            here = repr(waiting.pop())
            for pair in self._equal:
                for one, other in (pair, pair[::-1]):
                    if repr(one) == here and repr(other) not in known:
                        known.add(repr(other))
                        waiting.append(other)
        return repr(right) in known


# ---------------------------------------------------------------- ON, taken apart


@dataclass(frozen=True, slots=True)
class _Ticks:
    lower: int
    upper: int
    unmatched: int


@dataclass(frozen=True, slots=True)
class _On:
    """The meaning of the conjuncts of ON; `odd_unit` is a date part that bounds nothing."""

    keys: tuple[tuple[Expr, Expr], ...]
    bounds: tuple[TimeBound, ...]
    rest: tuple[Expr, ...]
    odd_unit: str | None


def _split(condition: Expr, right_prefix: str) -> _On:
    keys: list[tuple[Expr, Expr]] = []
    limits: list[TimeBound] = []
    rest: list[Expr] = []
    odd_unit: str | None = None
    for part in _conjuncts(condition):
        comparisons = list(_comparisons(part))
        found = [_limit(*comparison, right_prefix) for comparison in comparisons]
        bounds = [bound for bound in found if isinstance(bound, TimeBound)]
        odd_unit = next((unit for unit in found if isinstance(unit, str)), odd_unit)
        limits += bounds
        if bounds and len(bounds) == len(found):
            continue
        key = _key(part, right_prefix)
        if key is None:
            rest.append(part)
        else:
            keys.append(key)
    return _On(tuple(keys), _merged(limits), tuple(rest), odd_unit)


def _conjuncts(expr: Expr) -> Iterator[Expr]:
    match expr:
        case Call(function="and", args=args):
            for arg in args:
                yield from _conjuncts(arg)
        case _:
            yield expr


def _all(parts: Sequence[Expr]) -> Expr | None:
    return connected("and", parts) if parts else None


def _comparisons(part: Expr) -> Iterator[tuple[Expr, str, Expr]]:
    """A condition as comparisons of a DATEDIFF with something, if it is one."""
    match part:
        case Call(function="between", args=(value, low, high)):
            yield value, ">=", low
            yield value, "<=", high
        case Call(function="=" | "<" | "<=" | ">" | ">=" as operator, args=(left, right)):
            if isinstance(right, Call) and right.function == "datediff":
                left, operator, right = right, _MIRRORED[operator], left
            yield left, operator, right
        case _:
            return


def _limit(difference: Expr, operator: str, limit: Expr, right_prefix: str) -> TimeBound | str | None:
    """The bound a comparison sets to the time between a source and the right one; a unit that cannot."""
    number = _number(limit)
    match difference:
        case Call(
            function="datediff", args=(Literal(value=str() as unit), Ref(name=first), Ref(name=second))
        ):
            pass
        case _:
            return None
    time = right_prefix + SYSTEM_TIMESTAMP
    if number is None or (first == time) == (second == time):
        return None
    base = second if first == time else first
    if not base.endswith("." + SYSTEM_TIMESTAMP):
        return None
    if unit not in PART_TICKS:
        return unit
    if first == time:
        number, operator = -number, _MIRRORED[operator]
    lowest = {">=": math.ceil(number), ">": math.floor(number) + 1, "=": math.ceil(number)}.get(operator)
    highest = {"<=": math.floor(number), "<": math.ceil(number) - 1, "=": math.floor(number)}.get(operator)
    origin_ticks = ORIGIN_TICKS - TICKS_PER_DAY if unit == "week" else ORIGIN_TICKS
    return TimeBound(base, PART_TICKS[unit], origin_ticks, lowest, highest)


def _has_datediff(part: Expr) -> bool:
    compared = [side for left, _, right in _comparisons(part) for side in (left, right)]
    return any(isinstance(side, Call) and side.function == "datediff" for side in compared)


def _number(expr: Expr) -> int | float | None:
    match expr:
        case Literal(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case Call(function="neg" | "pos" as sign, args=(inner,)):
            value = _number(inner)
            return None if value is None else -value if sign == "neg" else value
        case _:
            return None


def _merged(limits: Sequence[TimeBound]) -> tuple[TimeBound, ...]:
    """One bound for each source and unit."""
    merged: dict[tuple[str, int, int], TimeBound] = {}
    for bound in limits:
        where = (bound.base, bound.unit_ticks, bound.origin_ticks)
        other = merged.get(where, replace(bound, lowest=None, highest=None))
        lowest = [n for n in (bound.lowest, other.lowest) if n is not None]
        highest = [n for n in (bound.highest, other.highest) if n is not None]
        merged[where] = replace(bound, lowest=max(lowest, default=None), highest=min(highest, default=None))
    return tuple(merged.values())


def _key(part: Expr, right_prefix: str) -> tuple[Expr, Expr] | None:
    """Left and right of an equation between the sides, if rows can be brought together by its values.

    A text may equal a datetime without looking like it, so an equation with a datetime is no key.
    """
    match part:
        case Call(function="=", args=(one, other)):
            pass
        case _:
            return None
    sides = [{name.startswith(right_prefix) for name in references(side)} for side in (one, other)]
    if any(SYSTEM_TIMESTAMP in references(side) or _is_datetime(side) for side in (one, other)):
        return None
    if sides == [{False}, {True}]:
        return one, other
    return (other, one) if sides == [{True}, {False}] else None


def _is_datetime(expr: Expr) -> bool:
    """Whether the value is a datetime by the text of the query alone."""
    match expr:
        case Ref(name=name):
            return name.rpartition(".")[2] in (SYSTEM_TIMESTAMP, "$arrival")
        case Cast(type=type_):
            return type_ is Type.DATETIME
        case Call(function=function):
            return function in _MAKES_DATETIME
        case _:
            return False


# ---------------------------------------------------------------- prefixes


def prefixed(expr: Expr, prefix: str) -> Expr:
    """An expression over a source alone as one over joined rows."""
    return _renamed(expr, lambda name: prefix + name)


def without_prefix(expr: Expr, prefix: str) -> Expr:
    """An expression over joined rows as one over the source alone, whose columns the join prefixes."""
    return _renamed(expr, lambda name: name.removeprefix(prefix))


def _renamed(expr: Expr, rename: Callable[[str], str]) -> Expr:
    return rewrite(expr, lambda each: Ref(rename(each.name), each.span) if isinstance(each, Ref) else None)


def _qualified(keys: Sequence[SubstreamKey], prefix: str) -> tuple[SubstreamKey, ...]:
    return tuple(
        SubstreamKey(key.text, None if key.expr is None else prefixed(key.expr, prefix)) for key in keys
    )


def _prefix_of(time_column: str) -> str:
    return time_column.removesuffix(SYSTEM_TIMESTAMP)
