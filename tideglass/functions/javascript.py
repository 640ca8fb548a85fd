"""JavaScript: functions and aggregates of users (`asa.md` 4.11), and regular expressions (4.7).

Scripts run in a process of their own (`functions.sandbox`). Rows cross as JSON text, many at a time; a
value comes back as tagged text (`core.types`), because its type depends on the value.

A script whose `main` has `init`, `accumulate` and `computeResult` is an aggregate. Each group of each window
gets an instance of its own: `init()`, then `accumulate(value, timestamp)` for each of its events,
then `computeResult()`. `deaccumulate` and `deaccumulateState` must have the same result, so they
are not called, and no error adds up that a script would make by taking away what it once added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tideglass.core.errors import EvaluationError
from tideglass.core.limits import Limits
from tideglass.core.types import Type
from tideglass.functions.conversions import json_sql
from tideglass.functions.duckdb_functions import PythonFunction
from tideglass.functions.sandbox import Exceeded, Sandbox, ScriptError, arguments_source, sandbox
from tideglass.functions.signature import Sql, literal_sql

if TYPE_CHECKING:
    import pyarrow as pa

_RUNTIME = Path(__file__).with_name("runtime.js")

#: Characters of arguments handed over at once, which bounds what is held of them beside the scripts' own.
_CHARACTERS_AT_ONCE = 4_000_000
#: Calls that went over a limit are remembered: a row is looked for among others by calling again and again.
_MOST_REMEMBERED = 1000

_sources: dict[str, str] = {}
_limits: list[Limits] = [Limits()]
_exceeded: dict[tuple[str, str], str] = {}


def _sandbox() -> Sandbox:
    return sandbox(_limits[0], _prepared)


def _prepared() -> list[str]:
    """What every new process begins with."""
    return [_RUNTIME.read_text(), *(_definition(name, source) for name, source in _sources.items())]


def set_limits(limits: Limits) -> None:
    """Sets what JavaScript and regular expressions may take in this process from now on."""
    if limits != _limits[0]:
        _limits[0] = limits
        _exceeded.clear()


def is_aggregate(source: str) -> bool:
    """Whether a script is an aggregate, `uda.name`, and no scalar function, `UDF.name`.

    >>> is_aggregate("function main() { this.accumulate = ...; this.computeResult = ... }")
    True
    """
    return bool(re.search(r"\baccumulate\b", source) and re.search(r"\bcomputeResult\b", source))


def called(name: str, aggregate: bool) -> str:
    """A user's function as a query calls it."""
    return f"{'uda' if aggregate else 'UDF'}.{name}"


def _definition(name: str, source: str) -> str:
    if is_aggregate(source):
        made = f"(function () {{ {source}\nreturn tideglass.aggregator(main); }})()"
        return f"tideglass.functions[{json.dumps(name)}] = {made}; 0"
    found = re.search(r"\bfunction\s*\*?\s+([A-Za-z_$][\w$]*)", source)
    if found is None:
        raise EvaluationError(f"The script of UDF.{name} has no function.")
    return f"tideglass.functions[{json.dumps(name)}] = (function () {{ {source}\nreturn {found[1]}; }})(); 0"


def define(sources: Mapping[str, str]) -> None:
    """Makes JavaScript functions known by name; the script of each has one function, or is an aggregate.

    Raises EvaluationError for a script that has none or cannot be compiled, and for an aggregate without
    one of its methods. Defining a name again replaces it.
    """
    for name, source in sources.items():
        if _sources.get(name) == source:
            continue
        what = called(name, is_aggregate(source))
        try:
            _sandbox().define(_definition(name, source))
        except ScriptError as problem:
            raise EvaluationError(f"The script of {what} cannot be used: {problem}") from problem
        except Exceeded as exceeded:
            raise EvaluationError(f"The script of {what} {_over(exceeded.limit)}") from exceeded
        _sources[name] = source
        _exceeded.clear()


def _over(limit: str) -> str:
    """The message about work over a limit, with its remedy."""
    if limit == "time":
        within = f"{_limits[0].javascript_seconds} s"
        return f"did not end within {within}; make it quicker, or raise JavaScriptTimeoutInSeconds."
    most = f"{_limits[0].javascript_megabytes} MB"
    return f"took more than {most} of memory; make it hold less, or raise JavaScriptMemoryInMB."


def _run(names: pa.Array, dates: pa.Array, arguments: pa.Array) -> pa.Array:
    import pyarrow as pa

    if len(arguments) == 0:
        return pa.array([], pa.string())
    name = str(names[0])
    if name not in _sources:
        raise EvaluationError(f"The function UDF.{name} has no script.")
    results: list[str | None] = []
    for rows in _loads(cast("list[str]", arguments.to_pylist())):
        work = f"rows({arguments_source(name, json.loads(str(dates[0])), _array(rows))})"
        answer = _asked(f"The function UDF.{name}", work, rows)
        if isinstance(answer, dict):
            failed = cast("Mapping[str, str]", answer)
            raise EvaluationError(f"The function UDF.{name} failed: {failed['error']}.")
        results += [_tagged(value) for value in cast("list[str | None]", answer)]
    return pa.array(results, pa.string())


def _array(texts: Sequence[str]) -> str:
    return f"[{','.join(texts)}]"


def _loads(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts in their order, in lists of some _CHARACTERS_AT_ONCE or of one text."""
    load: list[str] = []
    size = 0
    for text in texts:
        if load and size + len(text) > _CHARACTERS_AT_ONCE:
            yield load
            load, size = [], 0
        load.append(text)
        size += len(text)
    if load:
        yield load


def _asked(what: str, work: str, inputs: Sequence[str]) -> Any:
    """What the runtime answers to work on inputs, of which each is one call.

    Raises EvaluationError for an input on which a limit was reached, now or before.
    """
    for text in inputs if _exceeded else ():
        if (what, text) in _exceeded:
            raise EvaluationError(f"{what} {_over(_exceeded[what, text])}")
    try:
        return _sandbox().run(f"tideglass.start(tideglass.{work})")
    except Exceeded as exceeded:
        if isinstance(exceeded.at, int):
            if len(_exceeded) >= _MOST_REMEMBERED:
                _exceeded.clear()
            _exceeded[what, inputs[exceeded.at]] = exceeded.limit
        raise EvaluationError(f"{what} {_over(exceeded.limit)}") from exceeded
    except ScriptError as problem:
        raise EvaluationError(f"{what} failed: {problem}.") from problem


@dataclass(frozen=True, slots=True)
class GroupFailure:
    """The first group whose aggregate failed.

    group: number of the group
    event: number of the last event the script has got; None: before the first
    method: the method of the script that failed
    error: what the script threw
    """

    group: int
    event: int | None
    method: str
    error: str


def aggregate(name: str, groups: Sequence[str]) -> list[str | None] | GroupFailure:
    """The result of uda.name for each group as tagged text; or the first group that has none.

    groups: the events of each as a JSON array of [value, timestamp], both as tagged text.
    """
    work = f"groups({arguments_source(name, _array(groups))})"
    try:
        answer = _sandbox().run(f"tideglass.start(tideglass.{work})")
    except Exceeded as exceeded:
        at: Mapping[str, Any] = exceeded.at or {"group": 0, "event": None, "method": "accumulate"}
        return GroupFailure(**at, error=f"it {_over(exceeded.limit)}".rstrip("."))
    except ScriptError as problem:
        raise EvaluationError(f"The function uda.{name} failed: {problem}.") from problem
    if isinstance(answer, dict):
        return GroupFailure(**cast("Mapping[str, Any]", answer))
    return [_tagged(value) for value in cast("list[str | None]", answer)]


def _tagged(value: str | None) -> str | None:
    if value is None or value[0] not in "fd":
        return value
    if value[0] == "d":
        return f"d{int(float(value[1:])) * 10_000}"
    return f"f{float(value[1:])!r}"


def match_positions(texts: pa.Array, patterns: pa.Array) -> pa.Array:
    """Position (from 1) of each pattern's first match: 0 if there is none or the pattern is invalid.

    Case-insensitive, and a dot matches line ends too.
    """
    import pyarrow as pa

    pairs = list(zip(texts.to_pylist(), patterns.to_pylist(), strict=True))
    known = [json.dumps(pair) for pair in pairs if None not in pair]
    found: list[int] = []
    for load in _loads(known):
        found += _asked("REGEXMATCH", f"matches({arguments_source(_array(load))})", load)
    positions = iter(found)
    return pa.array([None if None in pair else next(positions) for pair in pairs], pa.int64())


PYTHON_FUNCTIONS = (PythonFunction("tg_udf", _run, ("VARCHAR", "VARCHAR", "VARCHAR"), "VARCHAR"),)


def call_sql(name: str, args: tuple[Sql, ...]) -> Sql:
    """SQL of a call of UDF.name; its value is tagged text."""
    dates = [place for place, arg in enumerate(args) if arg.type is Type.DATETIME]
    parts = [
        f"coalesce(CAST(CAST({arg.text} AS DOUBLE) / 10000 AS VARCHAR), 'null')"
        if arg.type is Type.DATETIME
        else json_sql(arg)
        for arg in args
    ]
    row = " || ',' || ".join(parts) if parts else "''"
    text = f"tg_udf({literal_sql(name)}, {literal_sql(json.dumps(dates))}, '[' || {row} || ']')"
    return Sql(text, Type.VARIANT, fallible=True)
