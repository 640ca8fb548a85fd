"""The binder: from a script to its plan, or to everything that is wrong with it (`asa.md` 2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tideglass.bind import substreams
from tideglass.bind.catalog import Environment, InputInfo
from tideglass.bind.depth import check_depth
from tideglass.bind.expressions import bind_type
from tideglass.bind.partition_keys import asked_of_steps, handed_on
from tideglass.bind.scope import BoundRows
from tideglass.bind.select import SelectBinder
from tideglass.bind.sources import BoundStep, Sources
from tideglass.bind.unions import bind_union
from tideglass.core.errors import Diagnostic, Source, Span
from tideglass.core.suggest import did_you_mean
from tideglass.core.types import Type
from tideglass.functions.callables import UserCode
from tideglass.lang import nodes as tree
from tideglass.plan.nodes import InputScan, Lookup, Node, Output, Plan, steps_read, walk

LEVELS = ("1.0", "1.1", "1.2")

#: Where the rows of a statement without INTO go (`asa.md` 2.4).
DEFAULT_OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Bound:
    """A script that can run, and what its writer should know about it."""

    plan: Plan
    warnings: tuple[Diagnostic, ...]


def bind(
    script: tree.Script,
    source: Source,
    inputs: Mapping[str, InputInfo] | None = None,
    level: str = "1.2",
    functions: Mapping[str, UserCode] | None = None,
    outputs: Sequence[str] | None = None,
) -> Bound:
    """The plan of `script`.

    `inputs` None: any name in FROM that is no step is a stream input of unknown fields.
    `level` is the compatibility level, one of LEVELS (`asa.md` 5.5). `functions`: the scripts of the
    user's own by name; None lets every name be one. `outputs`: those the job has; writing to another one is
    warned of, None lets every name be one.
    Raises QueryError with all errors found, and ValueError for an unknown level.
    """
    if level not in LEVELS:
        raise ValueError(f"there is no compatibility level {level!r}; there are {', '.join(LEVELS)}")
    environment = Environment.of(source, inputs, level, functions, outputs)
    diagnostics = environment.diagnostics
    check_depth(script, diagnostics)
    diagnostics.raise_if_any(source)
    plan = _ScriptBinder(environment).bind(script)
    # An alias used in HAVING is bound twice, and so are its errors.
    diagnostics.found = list(dict.fromkeys(diagnostics.found))
    diagnostics.raise_if_any(source)
    return Bound(plan, tuple(diagnostics.warnings))


class _ScriptBinder:
    """Binds tables, then steps in order, then statements; checks what concerns all of them."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._diagnostics = environment.diagnostics
        self._sources = Sources(environment, self._nested_query)
        self._selects = SelectBinder(self._sources, environment)

    def bind(self, script: tree.Script) -> Plan:
        self._tables(script.tables)
        self._steps(script.steps, asked_of_steps(script))
        outputs = self._statements(script.statements)
        plan = self._plan(outputs)
        scans = [each for node in _roots(plan) for each in walk(node) if isinstance(each, InputScan)]
        substreams.check_over(scans, self._diagnostics)
        self._warn_of_unused(script)
        return plan

    # ------------------------------------------------------------ CREATE TABLE

    def _tables(self, tables: tuple[tree.CreateTable, ...]) -> None:
        types = self._environment.payload_types
        for table in tables:
            key = table.name.text.casefold()
            if key in types:
                self._diagnostics.error(
                    "DUPLICATE_TABLE",
                    f"the input {table.name.text!r} already has a CREATE TABLE",
                    table.name.span,
                    "an input has one schema",
                )
                continue
            columns: dict[str, Type] = {}
            for column in table.columns:
                if column.name.text in columns:
                    self._diagnostics.error(
                        "DUPLICATE_COLUMN",
                        f"the table already has a column {column.name.text!r}",
                        column.name.span,
                    )
                type_ = bind_type(column.type, column.span, self._environment)
                columns[self._environment.field_key(column.name.text)] = type_
            types[key] = tuple(columns.items())

    # ------------------------------------------------------------ WITH

    def _steps(self, steps: tuple[tree.Step, ...], asked: Mapping[str, Iterable[str]]) -> None:
        bound = self._sources.steps
        for position, step in enumerate(steps):
            self._sources.later_steps = {later.name.text.casefold() for later in steps[position + 1 :]}
            key = step.name.text.casefold()
            rows = self._nested_query(step.query, asked.get(key, ()))
            if key in bound:
                self._diagnostics.error(
                    "DUPLICATE_STEP",
                    f"another step is already named {step.name.text!r}",
                    step.name.span,
                    "give every step a name of its own",
                )
                continue
            bound[key] = BoundStep(step.name.text, rows, step.name.span, self._bare_input(step.query))
        self._sources.later_steps = set()

    def _bare_input(self, query: tree.Query) -> tree.FromItem | None:
        """The FROM of `SELECT * FROM input`, whose reader may add a TIMESTAMP BY (A-20)."""
        match query:
            case tree.Select(
                items=(tree.StarItem(path=()),),
                joins=(),
                match=None,
                where=None,
                group_by=(),
                having=None,
                source=source,
            ) if source.name is not None and self._sources.step_or_none(source) is None:
                return source
            case _:
                return None

    def _nested_query(self, query: tree.Query, asked: Iterable[str]) -> BoundRows:
        """A query inside the script, where INTO is not allowed; asked: keys its readers partition it by."""
        for select in _selects(query):
            if select.into is not None:
                self._diagnostics.error(
                    "INTO_HERE",
                    "INTO cannot be used inside WITH or in a derived table",
                    select.into.span,
                    "write INTO in the statement that reads this query",
                )
        return self._query(query, asked)

    def _query(self, query: tree.Query, asked: Iterable[str] = ()) -> BoundRows:
        selects = list(_selects(query))
        handed = handed_on(selects, asked)
        if isinstance(query, tree.Select):
            return self._selects.bind(query, handed)
        branches = [self._selects.bind(select, handed) for select in selects]
        return bind_union(branches, [select.span for select in selects], self._diagnostics)

    # ------------------------------------------------------------ statements

    def _statements(self, statements: tuple[tree.Query, ...]) -> list[Output]:
        """What goes to each output. Several statements may write to one: each row keeps its own columns."""
        outputs: list[Output] = []
        spelled: dict[str, str] = {}
        for statement in statements:
            first, *others = _selects(statement)
            for select in others:
                if select.into is not None:
                    self._diagnostics.error(
                        "INTO_HERE",
                        "INTO of a UNION stands in its first SELECT only",
                        select.into.span,
                        "all rows of the union go to one output",
                    )
            name = DEFAULT_OUTPUT if first.into is None else first.into.text
            rows = self._query(statement)
            span = statement.span if first.into is None else first.into.span
            self._warn_of_output(name, span, is_named=first.into is not None)
            name = spelled.setdefault(name.casefold(), name)
            outputs.append(Output(name, rows.node, statement.span))
        if not outputs:
            self._diagnostics.error(
                "NO_STATEMENT",
                "the script has no SELECT statement",
                Span(),
                "write SELECT ... INTO ... FROM ...",
            )
        return outputs

    def _warn_of_output(self, name: str, span: Span, *, is_named: bool) -> None:
        known = self._environment.known_outputs
        if known is None or name.casefold() in {each.casefold() for each in known}:
            return
        message = f"the job has no output {name!r}"
        message += "" if is_named else ", where the rows of a statement without INTO go"
        hint = did_you_mean(name, known) or f"it has {', '.join(known)}"
        self._diagnostics.warn("UNKNOWN_OUTPUT", message, span, hint)

    def _plan(self, outputs: list[Output]) -> Plan:
        """The plan of what the outputs need: steps nobody reads are left out."""
        steps = self._sources.steps
        needed: set[str] = set()
        waiting = [output.node for output in outputs]
        while waiting:
            for reference in steps_read(waiting.pop()):
                if reference not in needed:
                    needed.add(reference)
                    waiting.append(steps[reference.casefold()].rows.node)
        kept = tuple((step.name, step.rows.node) for step in steps.values() if step.name in needed)
        nodes = [node for _, node in kept] + [output.node for output in outputs]
        parts = [part for node in nodes for part in walk(node)]
        names = dict.fromkeys(part.input for part in parts if isinstance(part, InputScan))
        references = dict.fromkeys(part.input for part in parts if isinstance(part, Lookup))
        spans = tuple((step.name, step.span) for step in steps.values() if step.name in needed)
        return Plan(kept, tuple(outputs), tuple(names), self._environment.level, tuple(references), spans)

    # ------------------------------------------------------------ what is left over

    def _warn_of_unused(self, script: tree.Script) -> None:
        read = self._sources.inputs_read
        if self._diagnostics.errors:  # what cannot be bound may be what reads the rest
            return
        for step in self._sources.steps.values():
            if not step.is_read:
                message = f"no statement reads the step {step.name!r}"
                self._diagnostics.warn("UNUSED_STEP", message, step.span, "it is left out of the job")
        for table in script.tables:
            if table.name.text.casefold() not in read:
                self._diagnostics.warn(
                    "UNKNOWN_TABLE",
                    f"no input of this query is named {table.name.text!r}; its CREATE TABLE has no effect",
                    table.name.span,
                    did_you_mean(table.name.text, read),
                )
        for key, info in (self._environment.known_inputs or {}).items():
            if key not in read:
                self._diagnostics.warn(
                    "UNUSED_INPUT", f"the query does not read the input {info.name!r}", Span()
                )


def _selects(query: tree.Query) -> Iterator[tree.Select]:
    """The SELECTs of a query in the order of the text."""
    if isinstance(query, tree.Select):
        yield query
    else:
        for term in query.terms:
            yield from _selects(term)


def _roots(plan: Plan) -> Iterator[Node]:
    yield from (node for _, node in plan.steps)
    yield from (output.node for output in plan.outputs)
