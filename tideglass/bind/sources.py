"""FROM: what an input, a step or a derived table becomes (`asa.md` 1.2, 2.4, A-20)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from tideglass.bind.catalog import Environment, InputInfo
from tideglass.bind.clauses import PARTITION_BY, TIMESTAMP_BY
from tideglass.bind.expressions import Expressions
from tideglass.bind.partition_keys import handed_columns, partition_keys
from tideglass.bind.scope import BoundRows, Relation, Scope, SubstreamKey
from tideglass.core.errors import Span
from tideglass.core.suggest import did_you_mean
from tideglass.lang import nodes as tree
from tideglass.plan.expressions import Expr
from tideglass.plan.nodes import InputScan, StepRef


@dataclass(slots=True)
class BoundStep:
    """A WITH step.

    name: its name
    rows: its query, bound
    span: where the name stands in the text
    bare_input: the FROM of a step that is nothing but `SELECT * FROM input`; None: the step is more
    is_read: a later query reads it
    """

    name: str
    rows: BoundRows
    span: Span
    bare_input: tree.FromItem | None = None
    is_read: bool = False


@dataclass(slots=True)
class Sources:
    """Resolves what stands in FROM: steps bound so far, then inputs.

    environment: what the whole script shares
    bind_query: binds a derived table; its reader asks for some keys (`bind.partition_keys`)
    steps: the steps bound so far, by case-folded name
    later_steps: case-folded names of steps later in the script, which cannot be read
    inputs_read: names of the inputs read so far
    """

    environment: Environment
    bind_query: Callable[[tree.Query, Iterable[str]], BoundRows]
    steps: dict[str, BoundStep] = field(default_factory=dict[str, BoundStep])
    later_steps: set[str] = field(default_factory=set[str])
    inputs_read: set[str] = field(default_factory=set[str])

    def step_or_none(self, relation: tree.FromItem) -> BoundStep | None:
        return None if relation.name is None else self.steps.get(relation.name.text.casefold())

    def is_reference(self, relation: tree.FromItem) -> bool:
        """Whether FROM or JOIN names a reference-data input."""
        if relation.name is None or self.step_or_none(relation) is not None:
            return False
        info = self.environment.input(relation.name.text)
        return info is not None and info.kind == "reference"

    def bind(self, relation: tree.FromItem) -> tuple[BoundRows, Relation]:
        """The rows of a source and the relation its columns are named by."""
        if relation.name is None:
            return self._derived(relation)
        step = self.step_or_none(relation)
        if step is None:
            return self._input(relation, relation.name)
        step.is_read = True
        if relation.timestamp_by is None:
            return self._step(relation, relation.name, step)
        if step.bare_input is None or step.bare_input.timestamp_by is not None:
            self._refuse_timestamp_by(relation.timestamp_by, f"the step {step.name!r}")
            return self._step(relation, relation.name, step)
        pushed_down = replace(
            step.bare_input,
            alias=relation.alias or relation.name,
            timestamp_by=relation.timestamp_by,
            partition_by=relation.partition_by or step.bare_input.partition_by,
        )
        assert pushed_down.name is not None
        return self._input(pushed_down, pushed_down.name)

    def _derived(self, relation: tree.FromItem) -> tuple[BoundRows, Relation]:
        assert relation.query is not None
        rows = self.bind_query(relation.query, partition_keys(relation))
        named = self._named(relation, rows, relation.alias.text if relation.alias else "")
        if relation.timestamp_by is not None:
            self._refuse_timestamp_by(relation.timestamp_by, "a derived table")
        self._bind_partition_by(relation, named)
        return rows, named

    def _step(self, relation: tree.FromItem, name: tree.Name, step: BoundStep) -> tuple[BoundRows, Relation]:
        node = step.rows.node
        rows = replace(step.rows, node=StepRef(step.name, node.columns, node.open, relation.span))
        named = self._named(relation, rows, (relation.alias or name).text, step.name)
        self._bind_partition_by(relation, named)
        return rows, named

    def _named(self, relation: tree.FromItem, rows: BoundRows, alias: str, own_name: str = "") -> Relation:
        """A step or derived table as its reader names its columns."""
        handed = handed_columns(rows.node.columns) & partition_keys(relation).keys()
        return replace(Relation.of(rows, alias, own_name), handed=handed)

    def _input(self, relation: tree.FromItem, name: tree.Name) -> tuple[BoundRows, Relation]:
        info = self._find_input(name)
        alias = (relation.alias or name).text
        raw = Relation(
            alias,
            info.columns or (),
            info.columns is None,
            info.name,
            metadata=info.metadata,
            raw=True,
            events=True,
        )
        expressions = Expressions(Scope((raw,), self.environment), self.environment, TIMESTAMP_BY)
        timestamp, over = None, ()
        if relation.timestamp_by is not None:
            timestamp = expressions.value(relation.timestamp_by.expr)
            over = tuple(expressions.value(key) for key in relation.timestamp_by.over)
        partition_by = self._bind_partition_by(relation, raw)
        scan = InputScan(
            info.name,
            timestamp,
            over,
            partition_by,
            self.environment.payload_types.get(info.name.casefold(), ()),
            raw.columns,
            raw.open,
            name.span,
        )
        keys: list[SubstreamKey] = []
        if relation.timestamp_by is not None:
            # The same keys once more, as the readers of the scan name them.
            named = replace(raw, raw=False)
            read = Expressions(
                Scope((named,), self.environment.unreported()),
                self.environment.unreported(),
                TIMESTAMP_BY,
            )
            keys = [
                SubstreamKey(self.environment.words(key.span) or "key", read.value(key))
                for key in relation.timestamp_by.over
            ]
        rows = BoundRows(scan, info.metadata, tuple(keys), events=True)
        return rows, Relation.of(rows, alias, info.name)

    def bind_reference(self, relation: tree.FromItem) -> tuple[BoundRows, Relation]:
        """The rows of a reference input, which have no time, and the relation its columns are named by."""
        for clause, words in (
            (relation.timestamp_by, "TIMESTAMP BY"),
            (relation.partition_by, "PARTITION BY"),
        ):
            if clause is not None:
                self.environment.diagnostics.error(
                    "CLAUSE_ON_REFERENCE",
                    f"{words} belongs to a stream; reference data has neither timestamps nor partitions",
                    clause.span,
                    f"leave {words} out here",
                )
        assert relation.name is not None
        rows, named = self._input(replace(relation, timestamp_by=None, partition_by=None), relation.name)
        return rows, replace(named, metadata=None, reference=True, events=False)

    def _find_input(self, name: tree.Name) -> InputInfo:
        environment = self.environment
        if name.text.casefold() in self.later_steps and (
            environment.known_inputs is None or name.text.casefold() not in environment.known_inputs
        ):
            environment.diagnostics.error(
                "STEP_IS_LATER",
                f"the step {name.text!r} is defined further down",
                name.span,
                "a step can read earlier steps only; move it up",
            )
            return InputInfo(name.text)
        info = environment.input(name.text)
        if info is None:
            inputs = [known.name for known in (environment.known_inputs or {}).values()]
            hint = did_you_mean(name.text, [*inputs, *(step.name for step in self.steps.values())])
            environment.diagnostics.error(
                "UNKNOWN_INPUT",
                f"no input or step is named {name.text!r}",
                name.span,
                hint or ("the inputs are " + ", ".join(map(repr, inputs)) if inputs else ""),
            )
            return InputInfo(name.text)
        self.inputs_read.add(info.name.casefold())
        return info

    def _bind_partition_by(self, relation: tree.FromItem, named: Relation) -> tuple:
        clause = relation.partition_by
        if clause is None:
            return ()
        if clause.into is not None and clause.into < 2:
            self.environment.diagnostics.error(
                "PARTITION_COUNT",
                "PARTITION BY ... INTO needs a count of 2 or more",
                clause.span,
                "leave INTO out to keep the partitions as they are",
            )
        expressions = Expressions(Scope((named,), self.environment), self.environment, PARTITION_BY)
        return tuple(expressions.value(key) for key in clause.exprs)

    def partition_keys(self, relation: tree.FromItem, named: Relation) -> tuple[Expr, ...]:
        """The keys of PARTITION BY of a bound source, as its readers name the columns."""
        again = self.environment.unreported()
        reader = Expressions(Scope((replace(named, prefix=""),), again), again, PARTITION_BY)
        return (
            tuple(reader.value(key) for key in relation.partition_by.exprs) if relation.partition_by else ()
        )

    def _refuse_timestamp_by(self, clause: tree.TimestampBy, what: str) -> None:
        self.environment.diagnostics.error(
            "TIMESTAMP_BY_ON_STEP",
            f"TIMESTAMP BY belongs to an input; {what} has its timestamps already",
            clause.span,
            "put TIMESTAMP BY where the input is read (a step that is only SELECT * FROM input may have it)",
        )
