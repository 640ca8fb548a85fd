"""What DEFINE and MEASURES read: the events a pattern has matched so far (`asa.md` 2.14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tideglass.bind.catalog import Environment
from tideglass.bind.grouping import same
from tideglass.bind.scope import Relation, Scope
from tideglass.core.errors import Span
from tideglass.core.types import PAYLOAD
from tideglass.lang import nodes as tree
from tideglass.plan.expressions import Call, Expr, Literal, Path, Ref, rewrite
from tideglass.plan.patterns import ANY_EVENT, MatchedValue

#: Functions of the events of one variable, and of all of them.
OF_VARIABLES = frozenset(("first", "last", "min", "max"))
CLASSIFIER = "classifier"

#: Between the number of a variable and a column of its events; no name holds it.
_OF = "\x00"


class MatchedEvents:
    """The values a pattern looks at, collected while DEFINE and MEASURES are bound.

    A name stands for a field of the last event of the variable before its dot; names without a variable
    have no meaning, as a pattern is about several events. `relation` is the source of FROM.
    """

    def __init__(self, variables: Sequence[tree.Name], relation: Relation, environment: Environment) -> None:
        source = replace(relation, own_name="", substream_keys=())
        self._relations = tuple(
            replace(source, alias=name.text, prefix=f"{number}{_OF}") for number, name in enumerate(variables)
        )
        self._environment = environment
        # the nameless relation is the event tested, of which only System.Timestamp() can be asked
        self.scope = VariableScope((*self._relations, Relation("", (), open=False)), environment)
        self.values: list[MatchedValue] = []

    def of_call(self, call: tree.CallExpr) -> Expr:
        """First, Last, Min or Max of a field of a variable, or Classifier(); see `patterns.check_pattern`."""
        function = call.name.text.casefold()
        if function == CLASSIFIER:
            return self._value(function, ANY_EVENT, None, "Classifier()", call.span)
        (column,) = call.args
        assert isinstance(column, tree.Column)
        relation = self.scope.source(column.path[0])
        assert relation is not None
        arg = Scope((replace(relation, prefix=""),), self._environment).column(column)
        variable = self._relations.index(relation)
        if function == "last":
            return self._last(variable, arg, call.span)
        text = f"{function.capitalize()}({relation.alias}.{_name_of(arg)})"
        return self._value(function, variable, arg, text, call.span)

    def settled(self, expr: Expr) -> Expr:
        """A bound expression in which fields of variables are values of their last events."""

        def change(part: Expr) -> Expr | None:
            match part:
                case Path(base=Ref(name=name), keys=keys) if _OF in name:
                    number, _, column = name.partition(_OF)
                    return self._last(int(number), Path(Ref(column), keys, part.span), part.span)
                case Ref(name=name) if _OF in name:
                    number, _, column = name.partition(_OF)
                    return self._last(int(number), Ref(column, part.span), part.span)
                case _:
                    return None

        return rewrite(expr, change)

    def _last(self, variable: int, arg: Expr, span: Span) -> Expr:
        return self._value("last", variable, arg, f"{self._relations[variable].alias}.{_name_of(arg)}", span)

    def _value(self, function: str, variable: int, arg: Expr | None, text: str, span: Span) -> Expr:
        """The column of a value; equal ones are one."""
        for value in self.values:
            known = (value.function, value.variable) == (function, variable)
            if known and (arg is None or (value.arg is not None and same(arg, value.arg))):
                return Ref(value.name, span)
        taken = {value.name for value in self.values}
        name, number = text, 2
        while name in taken:  # a column [r.x], and the field x of a record r
            name, number = f"{text}#{number}", number + 1
        self.values.append(MatchedValue(name, function, variable, arg, span))
        return Ref(name, span)


class VariableScope(Scope):
    """The names DEFINE and MEASURES know: those of variables, with a field after the dot."""

    def _unqualified(self, name: tree.Name, span: Span) -> Expr:
        first = self.relations[0].alias
        self.environment.diagnostics.error(
            "NOT_OF_A_VARIABLE",
            f"{name.text!r} is no variable of this pattern with a field after it",
            span,
            f"say of which variable's events it is a field, as in {first}.{name.text}",
        )
        return Literal(None, span)


def _name_of(arg: Expr) -> str:
    """A field as the query names it, as far as it is one."""
    match arg:
        case Path(base=Ref(name=name), keys=keys):
            return ".".join(keys if name == PAYLOAD else (name, *keys))
        case Ref(name=name):
            return name.removeprefix("$")
        case Call(args=(first, *_)):  # PartitionId: the field of that name, or else the engine's own
            return _name_of(first)
        case _:
            return "value"
