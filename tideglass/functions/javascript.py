"""JavaScript inside the process: functions and aggregates of users (`asa.md` 4.11), and patterns (4.7).

One V8 context per process. Rows cross as JSON text, many at a time; a value comes back as tagged text
(`core.types`), because only the value says what type it has.

A script whose `main` has `init`, `accumulate` and `computeResult` is an aggregate. Each group of each window
is given an instance of its own: `init()`, then `accumulate(value, timestamp)` for each of its events,
then `computeResult()`. That is what `deaccumulate` and `deaccumulateState` must come to as well, so they
are not called, and no error adds up that a script would make by taking away what it once added.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tideglass.core.errors import EvaluationError
from tideglass.core.types import Type
from tideglass.functions.conversions import json_sql
from tideglass.functions.library import PythonFunction
from tideglass.functions.signature import Sql, literal_sql

if TYPE_CHECKING:
    import pyarrow as pa

_RUNTIME = """
var tideglass = {functions: {}};
tideglass.encode = function (v) {
  if (v === null || v === undefined) return null;
  switch (typeof v) {
    case 'string': return 's' + v;
    case 'boolean': return 'b' + (v ? 1 : 0);
    case 'number':
      if (!Number.isFinite(v)) throw new Error('the result ' + v + ' is no finite number');
      if (Number.isInteger(v) && v >= -9223372036854775808 && v < 9223372036854775808)
        return 'i' + BigInt(v).toString();
      return 'f' + v;
    case 'object':
      if (v instanceof Date) {
        if (isNaN(v)) throw new Error('the result is no valid date');
        return 'd' + v.getTime();
      }
      return (Array.isArray(v) ? 'a' : 'r') + JSON.stringify(v);
  }
  throw new Error('a ' + typeof v + ' is no value of the query language');
};
tideglass.run = function (name, dates, text) {
  const f = tideglass.functions[name], rows = JSON.parse(text), out = [];
  for (const row of rows) {
    for (const i of dates) if (row[i] !== null) row[i] = new Date(row[i]);
    try { out.push(tideglass.encode(f.apply(null, row))); }
    catch (e) { return JSON.stringify({error: String(e)}); }
  }
  return JSON.stringify(out);
};
tideglass.decode = function (text) {
  if (text === null) return null;
  const rest = text.slice(1);
  switch (text[0]) {
    case 's': return rest;
    case 'b': return rest === '1';
    case 'd': {
      const ticks = BigInt(rest), ms = ticks / 10000n;
      return new Date(Number(ticks % 10000n < 0n ? ms - 1n : ms));
    }
    case 'i': case 'f': return Number.isFinite(Number(rest)) ? Number(rest) : null;
  }
  return JSON.parse(rest);
};
tideglass.aggregator = function (main) {
  const made = new main();
  for (const method of ['init', 'accumulate', 'computeResult'])
    if (typeof made[method] !== 'function') throw new Error('main has no method ' + method);
  return main;
};
tideglass.aggregate = function (name, text) {
  const main = tideglass.functions[name], groups = JSON.parse(text), out = [];
  for (const [group, events] of groups.entries()) {
    let method = 'init', event = null;
    try {
      const made = new main();
      made.init();
      method = 'accumulate';
      for (const [place, [value, timestamp]] of events.entries()) {
        event = place;
        made.accumulate(tideglass.decode(value), tideglass.decode(timestamp));
      }
      method = 'computeResult';
      out.push(tideglass.encode(made.computeResult()));
    } catch (e) { return JSON.stringify({error: String(e), group: group, event: event, method: method}); }
  }
  return JSON.stringify(out);
};
tideglass.match = function (text) {
  const cache = new Map();
  return JSON.stringify(JSON.parse(text).map(([s, p]) => {
    if (!cache.has(p)) { try { cache.set(p, new RegExp(p, 'is')); } catch (e) { cache.set(p, null); } }
    const r = cache.get(p), at = r === null ? -1 : s.search(r);
    return at < 0 ? 0 : [...s.slice(0, at)].length + 1;
  }));
};
"""

_contexts: dict[int, Any] = {}
_sources: dict[str, str] = {}


def _context() -> Any:
    """This process's context; made on first use, and again after a fork."""
    pid = os.getpid()
    if pid not in _contexts:
        from py_mini_racer import MiniRacer

        made = cast("Any", MiniRacer())
        made.eval(_RUNTIME)
        for name, source in _sources.items():
            made.eval(_definition(name, source))
        _contexts.clear()
        _contexts[pid] = made
    return _contexts[pid]


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
        try:
            _context().eval(_definition(name, source))
        except EvaluationError:
            raise
        except Exception as problem:
            what = called(name, is_aggregate(source))
            raise EvaluationError(f"The script of {what} cannot be used: {problem}") from problem
        _sources[name] = source


def _run(names: pa.Array, dates: pa.Array, arguments: pa.Array) -> pa.Array:
    import pyarrow as pa

    if len(arguments) == 0:
        return pa.array([], pa.string())
    name = str(names[0])
    if name not in _sources:
        raise EvaluationError(f"The function UDF.{name} has no script.")
    rows = "[" + ",".join(cast("list[str]", arguments.to_pylist())) + "]"
    answer = json.loads(_context().call("tideglass.run", name, json.loads(str(dates[0])), rows))
    if isinstance(answer, dict):
        failed = cast("Mapping[str, str]", answer)
        raise EvaluationError(f"The function UDF.{name} failed: {failed['error']}.")
    return pa.array([_tagged(value) for value in cast("list[str | None]", answer)], pa.string())


@dataclass(frozen=True, slots=True)
class GroupFailure:
    """The first group whose aggregate failed, what failed it, in which method, and at which of its events.

    event: the last one the script was given; None before the first.
    """

    group: int
    event: int | None
    method: str
    error: str


def aggregate(name: str, groups: Sequence[str]) -> list[str | None] | GroupFailure:
    """The result of uda.name for each group as tagged text; or the first group that has none.

    groups: the events of each as a JSON array of [value, timestamp], both as tagged text.
    """
    answer = json.loads(_context().call("tideglass.aggregate", name, f"[{','.join(groups)}]"))
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
    known = [pair for pair in pairs if None not in pair]
    positions = iter(json.loads(_context().call("tideglass.match", json.dumps(known))))
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
