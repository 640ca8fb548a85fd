"""Function calls: which function is meant, whether it is allowed here, and its expression (`asa.md` 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from tideglass.bind.advice import FUNCTIONS, function_names
from tideglass.bind.aggregates import bind_aggregate
from tideglass.bind.analytics import Analytics, bind_analytic
from tideglass.bind.anomalies import ANOMALY_DETECTION
from tideglass.bind.catalog import Environment, UserFunction
from tideglass.bind.clauses import ANALYTIC_OVER, ANALYTIC_VALUE, GROUP_BY, Clause
from tideglass.bind.dateparts import bind_date_part
from tideglass.bind.grouping import GroupBinding
from tideglass.bind.metadata import bind_metadata
from tideglass.bind.patterns.values import CLASSIFIER, OF_VARIABLES, MatchedEvents
from tideglass.bind.scope import Relation, Scope
from tideglass.core.errors import Diagnostics
from tideglass.core.suggest import did_you_mean
from tideglass.core.types import PANE, SYSTEM_TIMESTAMP, WINDOW_ID, Type
from tideglass.functions.callables import PREFIX, PythonCallable
from tideglass.functions.registry import AGGREGATES, SCALARS, AggregateSignature
from tideglass.lang import nodes as tree
from tideglass.lang.windows import FORMS
from tideglass.plan.calls import USERS
from tideglass.plan.expressions import Call, Cast, Expr, Literal, Ref


class CallBinder(Protocol):
    """What binding a call needs from the binder of expressions around it."""

    @property
    def scope(self) -> Scope: ...
    @property
    def environment(self) -> Environment: ...
    @property
    def clause(self) -> Clause: ...
    @property
    def grouping(self) -> GroupBinding | None: ...
    @property
    def analytics(self) -> Analytics | None: ...
    @property
    def matched(self) -> MatchedEvents | None: ...
    @property
    def diagnostics(self) -> Diagnostics: ...
    def value(self, node: tree.Expr) -> Expr: ...
    def condition(self, node: tree.Expr) -> Expr: ...
    def inside_aggregate(self) -> CallBinder: ...
    def over_source(self, relation: Relation, clause: Clause) -> CallBinder: ...


ANALYTIC = frozenset(("lag", "last", "isfirst")) | ANOMALY_DETECTION
TABLE_FUNCTIONS = frozenset(("getarrayelements", "getelements", "getrecordproperties"))
WINDOW_FUNCTIONS = frozenset(f"{kind}{suffix}" for kind in FORMS for suffix in ("", "window")) | frozenset(
    ("windows", "window", "duration", "hop", "offset", "timeout", "maxduration")
)


def bind_call(call: tree.CallExpr, binder: CallBinder) -> Expr:
    """The expression a call stands for; every rule it breaks is reported."""
    name = call.name.text.casefold()
    prefix = ".".join(part.text.casefold() for part in call.prefix)
    match prefix:
        case "system":
            return _system(call, name, binder)
        case "udf":
            _plain(call, binder)
            if not binder.clause.user_functions:
                message = f"UDF.{call.name.text} cannot be called inside {binder.clause.name}"
                hint = "call it in a WITH step first"
                binder.diagnostics.error("FUNCTION_IN_ANALYTIC", message, call.span, hint)
            args = tuple(_event_or_value(arg, binder) for arg in call.args)
            function = binder.environment.function(call.name.text, False)
            if function is not None and function.python is not None:
                return _python_call(call, function.name, function.python, args, binder)
            return Call(f"udf.{_user_function(call, binder)}", args, call.span)
        case "uda":
            signature = AggregateSignature(f"{USERS}{_user_function(call, binder)}", 1, 1, "A user's own.")
            if call.over is not None:
                message = f"the user-defined aggregate {call.name.text} cannot have OVER"
                hint = "it is computed over the window of a GROUP BY"
                binder.diagnostics.error("OVER_HERE", message, call.over.span, hint)
            return bind_aggregate(replace(call, over=None), signature, binder)
        case "":
            return _built_in(call, name, binder)
        case _:
            return _prefixed(call, name, binder)


def _python_call(
    call: tree.CallExpr, name: str, function: PythonCallable, args: tuple[Expr, ...], binder: CallBinder
) -> Expr:
    """A call of a function of Python, whose result has the type it is declared to have."""
    _check_count(call, function.least, function.most, binder, "as the function of Python has them")
    made = Call(f"{PREFIX}{name}", args, call.span)
    returns = function.returns
    if returns is None or returns in (Type.RECORD, Type.ARRAY):
        return made
    level_has_bit = binder.environment.level >= "1.2"
    return Cast(made, Type.BIGINT if returns is Type.BIT and not level_has_bit else returns, span=call.span)


def _user_function(call: tree.CallExpr, binder: CallBinder) -> str:
    """The name of a user's function as its author spells it; reports a missing or a wrong one."""
    aggregate = call.prefix[0].text.casefold() == "uda"
    function = binder.environment.function(call.name.text, aggregate)
    if function is not None and function.aggregate == aggregate:
        return function.name
    wanted = UserFunction(call.name.text, aggregate).called
    if function is not None:
        hint = f"{function.name} is {'an aggregate' if function.aggregate else 'a scalar function'}: "
        hint += f"call it as {function.called}"
    else:
        known = [each.name for each in (binder.environment.known_functions or {}).values()]
        what = "aggregate: a main with init, accumulate and computeResult," if aggregate else "function"
        hint = did_you_mean(call.name.text, known) or f"add a JavaScript {what} of that name to the job"
    binder.diagnostics.error("UNKNOWN_FUNCTION", f"there is no function {wanted}", call.span, hint)
    return call.name.text


def _built_in_names() -> tuple[str, ...]:
    return (*SCALARS, *AGGREGATES, *ANALYTIC)


def _prefixed(call: tree.CallExpr, name: str, binder: CallBinder) -> Expr:
    prefix = ".".join(part.text for part in call.prefix)
    known = name in _built_in_names()
    message = f"the built-in function {call.name.text} takes no prefix {prefix!r}"
    if known and binder.environment.level != "1.2":
        binder.diagnostics.warn("PREFIXED_FUNCTION", message, call.span, "level 1.2 rejects this")
        return _built_in(call, name, binder)
    if known:
        binder.diagnostics.error("PREFIXED_FUNCTION", message, call.span, f"write {call.name.text}(...)")
    else:
        binder.diagnostics.error(
            "UNKNOWN_FUNCTION",
            f"there is no function {prefix}.{call.name.text}",
            call.span,
            did_you_mean(prefix, ("System", "UDF", "uda")) or "prefixes are System, UDF and uda",
        )
    _check_arguments(call, binder)
    return Literal(None, call.span)


def _system(call: tree.CallExpr, name: str, binder: CallBinder) -> Expr:
    _plain(call, binder)
    if name not in ("timestamp", "window", "pane"):
        near = did_you_mean(call.name.text, ("Timestamp", "Window", "Pane"))
        hint = near or "there are System.Timestamp(), System.Window().Id and System.Pane()"
        binder.diagnostics.error(
            "UNKNOWN_FUNCTION", f"there is no function System.{call.name.text}", call.span, hint
        )
        return Literal(None, call.span)
    _check_count(call, 0, 0, binder)
    if name == "timestamp":
        if not binder.clause.system_timestamp:
            binder.diagnostics.error(
                "SYSTEM_TIMESTAMP_HERE",
                f"System.Timestamp() cannot be used in {binder.clause.name}, which defines it",
                call.span,
                "use fields of the event",
            )
        return Ref(_time_column(binder), call.span)
    if name == "pane":
        return _pane(call, binder)
    if not binder.clause.window_id:
        binder.diagnostics.error(
            "WINDOW_ID_HERE",
            f"System.Window() can be used in the SELECT list of a GROUP BY only, not in {binder.clause.name}",
            call.span,
            "select it AS a column there, and use the column in the next step",
        )
        return Literal(None, call.span)
    has_ids = binder.grouping is not None and binder.grouping.has_window_ids
    window_id = Ref(WINDOW_ID, call.span) if has_ids else Literal(None, call.span)
    return Call("record.of", (Literal("Id", call.span), window_id), call.span)


def _pane(call: tree.CallExpr, binder: CallBinder) -> Expr:
    """System.Pane(), our own: which result of its window a row is (decision 32)."""
    if binder.grouping is not None:
        return Ref(PANE, call.span)
    binder.diagnostics.error(
        "PANE_HERE",
        "System.Pane() can be used in the SELECT list and HAVING of a GROUP BY only, "
        f"not in {binder.clause.name} without groups",
        call.span,
        "select it AS a column there, and use the column in the next step",
    )
    return Literal(None, call.span)


def _time_column(binder: CallBinder) -> str:
    relations = binder.scope.relations
    return SYSTEM_TIMESTAMP if len(relations) != 1 else relations[0].prefix + SYSTEM_TIMESTAMP


def _built_in(call: tree.CallExpr, name: str, binder: CallBinder) -> Expr:
    if binder.matched is not None and name == CLASSIFIER:
        _plain(call, binder)
        _check_count(call, 0, 0, binder)
    if binder.matched is not None and name in (*OF_VARIABLES, CLASSIFIER):
        return binder.matched.of_call(call)
    if name in ANALYTIC:
        return _analytic(call, binder)
    if name in AGGREGATES:
        if call.over is not None and call.over.limit is not None:
            return _analytic(call, binder)
        return bind_aggregate(call, AGGREGATES[name], binder)
    if name == "getmetadatapropertyvalue":
        _plain(call, binder)
        return bind_metadata(call, binder.scope, binder.diagnostics)
    if name in SCALARS:
        return _scalar(call, name, binder)
    if name in TABLE_FUNCTIONS:
        hint = f"write FROM ... CROSS APPLY {call.name.text}(...) AS alias"
        message = f"{call.name.text} makes rows and can stand after APPLY only"
        binder.diagnostics.error("TABLE_FUNCTION_HERE", message, call.span, hint)
        return Literal(None, call.span)
    if name in WINDOW_FUNCTIONS:
        message = f"{call.name.text} can stand in GROUP BY only"
        hint = "the end of a row's window is System.Timestamp(), its name System.Window().Id"
        binder.diagnostics.error("WINDOW_OUTSIDE_GROUP_BY", message, call.span, hint)
        return Literal(None, call.span)
    return _unknown(call, name, binder)


def _unknown(call: tree.CallExpr, name: str, binder: CallBinder) -> Expr:
    """Reports a function that is not there, with what may have been meant."""
    own = (binder.environment.known_functions or {}).get(name)
    if own is not None:
        hint = f"a function of the project is called by its prefix: {own.called}(...)"
    elif name == CLASSIFIER:
        hint = "it tells in MEASURES of MATCH_RECOGNIZE which variables matched"
    else:
        names = function_names(with_windows=binder.clause is GROUP_BY)
        near = did_you_mean(call.name.text, names, least=0.75)
        hint = FUNCTIONS.get(name) or near or "a JavaScript function is called as UDF.name(...)"
    binder.diagnostics.error(
        "UNKNOWN_FUNCTION", f"there is no function {call.name.text}", call.name.span, hint
    )
    if name not in FUNCTIONS:  # its arguments may be of another shape, such as CONVERT(type, e)
        _check_arguments(call, binder)
    return Literal(None, call.span)


def _scalar(call: tree.CallExpr, name: str, binder: CallBinder) -> Expr:
    signature = SCALARS[name]
    _plain(call, binder)
    _check_count(
        call, signature.min_args, signature.max_args, binder, f"write {signature.usage(call.name.text)}"
    )
    args: list[Expr] = []
    for position, arg in enumerate(call.args):
        if position == signature.datepart_arg:
            args.append(bind_date_part(arg, binder.diagnostics))
        elif binder.clause.source_times and name == "datediff":
            args.append(_source_time(arg, binder) or binder.value(arg))
        else:
            args.append(binder.value(arg))
    return Call(name, tuple(args), call.span)


def _source_time(arg: tree.Expr, binder: CallBinder) -> Expr | None:
    match arg:
        case tree.Column(path=(name,)):
            relation = binder.scope.source(name)
            if relation is not None and relation.reference:
                binder.diagnostics.error(
                    "REFERENCE_HAS_NO_TIME",
                    f"{relation.alias!r} is reference data, whose rows have no timestamp",
                    arg.span,
                    "a join with reference data needs no bound in time; name a column to compare datetimes",
                )
                return Literal(None, arg.span)
            if relation is None or relation.applied:  # what APPLY makes has no time of its own
                return None
            return relation.time(SYSTEM_TIMESTAMP, arg.span)
        case _:
            return None


def _event_or_value(arg: tree.Expr, binder: CallBinder) -> Expr:
    """An argument of a user's function: the name of a source stands for its whole event."""
    match arg:
        case tree.Column(path=(name,)):
            relation = binder.scope.source(name)
            return binder.value(arg) if relation is None else relation.event(arg.span)
        case _:
            return binder.value(arg)


def _analytic(call: tree.CallExpr, binder: CallBinder) -> Expr:
    if binder.analytics is None:
        nested = binder.clause in (ANALYTIC_VALUE, ANALYTIC_OVER)
        where = "inside another analytic function" if nested else f"in {binder.clause.name}"
        binder.diagnostics.error(
            "NESTED_ANALYTIC" if nested else "ANALYTIC_HERE",
            f"the analytic function {call.name.text} cannot be used {where}",
            call.span,
            "compute the inner one in a WITH step first" if nested else "",
        )
        return Literal(None, call.span)
    return bind_analytic(call, binder.analytics, binder.over_source, binder.diagnostics)


def _check_arguments(call: tree.CallExpr, binder: CallBinder) -> None:
    """Binds the arguments of a call that failed, for the errors inside them."""
    for arg in call.args:
        if not isinstance(arg, tree.Star):
            binder.value(arg)


def _plain(call: tree.CallExpr, binder: CallBinder) -> None:
    if call.over is not None:
        message = f"{call.name.text} is no aggregate and cannot have OVER"
        binder.diagnostics.error("OVER_HERE", message, call.over.span)
    if call.distinct:
        message = f"{call.name.text} is no aggregate and cannot have DISTINCT"
        binder.diagnostics.error("DISTINCT_HERE", message, call.span)


def _check_count(
    call: tree.CallExpr, least: int, most: int | None, binder: CallBinder, hint: str = ""
) -> None:
    count = len(call.args)
    if count >= least and (most is None or count <= most):
        return
    wanted = f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"
    binder.diagnostics.error(
        "ARGUMENT_COUNT",
        f"{call.name.text} takes {wanted} argument{'' if wanted == '1' else 's'}, not {count}",
        call.span,
        hint,
    )
