"""FROM with joins of streams and of reference data: time bounds, keys and rules of ON (`asa.md` 2.8, 2.9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tideglass.bind.analytics import Analytics
from tideglass.bind.catalog import Environment
from tideglass.bind.clauses import ON, PARTITION_BY
from tideglass.bind.expressions import Expressions
from tideglass.bind.join_condition import OnParts, has_datediff, on_parts
from tideglass.bind.scope import BoundRows, Relation, Scope, SubstreamKey
from tideglass.core.errors import Diagnostics, Span
from tideglass.core.types import SYSTEM_TIMESTAMP
from tideglass.lang import nodes as tree
from tideglass.plan.expressions import (
    Expr,
    Ref,
    conjunction,
    rewrite,
)
from tideglass.plan.nodes import InputScan, Join, Lookup
from tideglass.plan.windows import LONGEST_TICKS


@dataclass(frozen=True, slots=True)
class _Ticks:
    lower: int
    upper: int
    unmatched: int


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
        on = on_parts(expressions.condition(join.on), last.prefix)
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
            conjunction(on.rest),
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
        on = OnParts((), (), (), None)
        if join.on is not None:
            expressions = Expressions(
                Scope(tuple(relations), self.environment), self.environment, ON, analytics=analytics
            )
            on = on_parts(expressions.condition(join.on), last.prefix)
        self._equal += on.keys
        node = Lookup(
            left.node,
            scan.input,
            join.kind.lower() if join.on is not None else "inner",
            left_prefix,
            last.prefix,
            on.keys,
            conjunction(on.rest),
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

    def _check_bounds(
        self, on: OnParts, relations: Sequence[Relation], place: Span, is_input: bool
    ) -> _Ticks:
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
        self, on: OnParts, relations: Sequence[Relation], half: bool, place: Span, is_input: bool
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
            if any(has_datediff(part) for part in on.rest):
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
