"""Damaged queries: each is refused at a place in the text, or gives the same rows in any manner."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from fuzz.corpus import cases, queries
from fuzz.mutation import EDGE_NUMBERS, EDGE_TEXTS, mutate_query
from fuzz.trial import Trial, holds
from support.harness import AT_ONCE, Manner, exact, input_infos, play
from tideglass.compile import Compiled, compile_query
from tideglass.core.errors import Diagnostic, EvaluationError, InputError, QueryError, Source
from tideglass.lang.parser import parse
from tideglass.lang.printer import print_script
from tideglass.plan.explain import explain_crossings, explain_stages, explain_steps
from tideglass.project.settings import from_options

PARTITIONS = 2
#: A query may nest so many windows and joins that its rows are too many for a short trial.
_MOST_EVENTS = 12


def make(rng: Random) -> Trial:
    """A query of the repository, damaged, and the settings, functions and reference data it had."""
    case = rng.choice(cases())
    others = queries()
    text = mutate_query(rng, case.query, others) if rng.random() < 0.97 else case.query
    settings = {**case.settings}
    if rng.random() < 0.2:
        settings["on_error"] = "drop"
    if rng.random() < 0.1:
        settings["compatibility_level"] = rng.choice(["1.0", "1.1", "1.2"])
    files = {"query.asaql": text.encode("utf-8", "surrogatepass")}
    files |= {f"{name}.js": script.encode() for name, script in case.functions.items()}
    options = {"settings": settings, "reference": case.reference, "events": rng.getrandbits(32)}
    return Trial("query", files, json.loads(json.dumps(options)))


def check(trial: Trial) -> None:
    """Raises for whatever is not one of the project's own errors, and for a promise that does not hold."""
    text = trial.files["query.asaql"].decode("utf-8", "surrogatepass")
    source = Source(text, "query.asaql")
    functions = {
        name.removesuffix(".js"): content.decode()
        for name, content in trial.files.items()
        if name.endswith(".js")
    }
    compiled = _compiled(source, trial, functions)
    if compiled is None:
        return
    explain_steps(compiled.plan)
    explain_stages(compiled.topology)
    explain_crossings(compiled.topology)
    rng = Random(trial.options["events"])
    rows = {
        name: _rows(rng, [path for path in fields.paths if not path[0].startswith("$")])
        for name, fields in compiled.topology.fields.items()
        if name not in compiled.topology.references
    }
    manner = Manner(
        takes=(*(rng.choice([0, 1, 2, 5]) for _ in range(3)), 1),
        chunk_rows=rng.choice([1, 2, 1000]),
        key_groups=rng.choice([1, 2, 5]),
        reverse=rng.random() < 0.5,
        restarts=rng.choice([0, 1, 2]),
        end_apart=rng.random() < 0.5,
    )
    at_once = _outcome(text, rows, trial, functions, AT_ONCE)
    otherwise = _outcome(text, rows, trial, functions, manner)
    holds(at_once == otherwise, "rows depend on batches", f"{manner}\n{at_once}\n{otherwise}")


def _compiled(source: Source, trial: Trial, functions: dict[str, str]) -> Compiled | None:
    """The query ready to run, or None if it is refused as it should be."""
    settings = from_options(trial.options["settings"])
    try:
        tree = parse(source)
    except QueryError as error:
        _in_place(error.diagnostics, source)
        return None
    reference = trial.options["reference"]
    known = input_infos({name: [] for name in _names(source.text)}, reference) if reference else None
    try:
        compiled = compile_query(
            source,
            settings,
            key_groups=2,
            inputs=known,
            functions=functions,
        )
    except QueryError as error:
        _in_place(error.diagnostics, source)
        return None
    _in_place(compiled.warnings, source)
    printed = print_script(tree)
    again = parse(Source(printed))
    holds(again == tree, "printed text means another tree", printed)
    return compiled


def _in_place(found: Sequence[Diagnostic], source: Source) -> None:
    """A code, a message and a place inside the text for each."""
    for each in found:
        inside = 0 <= each.span.start <= each.span.end <= len(source.text)
        holds(inside, "an error is placed outside of the text", each)
        holds(each.code and each.message.strip(), "an error says nothing", each)
        holds("Traceback" not in each.render(source), "an error shows a traceback", each)


def _names(text: str) -> list[str]:
    """Words that may be names of inputs where all inputs must be known."""
    words = sorted(word for word in text.replace("[", " ").replace("]", " ").split() if word.isidentifier())
    return list({word.lower(): word for word in words}.values())


def _outcome(
    text: str, rows: dict[str, list[dict[str, Any]]], trial: Trial, functions: dict[str, str], manner: Manner
) -> Any:
    """The exact rows, or that the run stops with one of the project's own errors."""
    reference = trial.options["reference"]
    inputs = rows
    if reference:
        given = {name.lower() for name in rows}
        inputs = {**{name: [] for name in _names(text) if name.lower() not in given}, **rows}
    try:
        came = play(
            text,
            inputs,
            trial.options["settings"],
            manner,
            partitions=PARTITIONS,
            reference=reference,
            functions=functions,
        )
    except (EvaluationError, InputError) as error:
        holds(str(error).strip(), "an error says nothing", type(error))
        return type(error).__name__
    except QueryError as error:  # some things show only when a number of partitions is known
        _in_place(error.diagnostics, Source(text))
        return [each.code for each in error.diagnostics]
    holds(not came.watched.breaches, "a watermark runs backwards", came.watched.breaches)
    for (name, partition, _), facts in came.metrics.partitions.items():
        given = sum(str(row["_partition"]) == partition for row in inputs[_same(name, inputs)])
        counters = facts.counters
        counted = counters.accepted + counters.adjusted + counters.dropped + facts.rejected
        holds(counted == given, "counters do not add up", f"{name} {partition}: {counters} of {given}")
    json.dumps(came.rows)
    return exact(came.rows)


def _same(name: str, inputs: dict[str, Any]) -> str:
    return next(each for each in inputs if each.lower() == name.lower())


# ---------------------------------------------------------------- events with the fields a query reads


def _rows(rng: Random, paths: Sequence[tuple[str, ...]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    seconds = 0.0
    usual = {path: rng.randrange(7) for path in paths}
    for _ in range(rng.randrange(_MOST_EVENTS)):
        seconds += rng.choice([0, 0, 0.5, 1, 3, 20])
        row: dict[str, Any] = {"_arrival": _iso(seconds), "_partition": rng.randrange(PARTITIONS)}
        for path in paths:
            value = _value(rng, path[-1], usual[path], seconds)
            if value != "absent":
                _put(row, path, value)
        rows.append(row)
    return rows


def _put(row: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        inner = row.setdefault(name, {})
        if not isinstance(inner, dict):
            return
        row = inner
    row[path[-1]] = value


def _value(rng: Random, name: str, usual: int, seconds: float) -> Any:
    """Mostly one kind of value per field, as in life, and now and then something else."""
    if name.lower() in ("t", "time", "ts") or "time" in name.lower():
        odd = rng.random()
        late = rng.choice([0, 0, 0, -1, -4, 2, -400, 400])
        return _iso(seconds + late) if odd > 0.04 else rng.choice([None, "noon", 5, "absent", "9999-12-31"])
    kind = usual if rng.random() > 0.06 else rng.randrange(9)
    match kind:
        case 0 | 1:
            return rng.choice([0, 1, 1, 2, 3, 5, -1])
        case 2:
            return rng.choice([0.5, 1.5, 2.0, -0.25, 1e-9])
        case 3 | 4:
            return rng.choice(["a", "a", "b", "c", "", "A"])
        case 5:
            return rng.choice([None, 1, 2, "absent"])
        case 6:
            return rng.choice(["1", "2.5", "x", True, False])
        case 7:
            edge: list[Any] = [rng.choice(EDGE_NUMBERS), rng.choice(EDGE_TEXTS)]
            value = rng.choice(edge)
            return value if not isinstance(value, str) else value.replace("\x00", "?")
        case _:
            return rng.choice([[], [1, "a", None], {}, {"a": 1, "b": {"c": [2]}}, [[1], {"x": 2}], True])


def _iso(seconds: float) -> str:
    whole, fraction = divmod(round(seconds * 10**7) + 3600 * 10**7, 10**7)
    return f"2026-01-01T{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}.{fraction:07}Z"
