"""The manifest of a job directory: which job its state belongs to, and how that state began.

What a job is made of is written down piece by piece, so that a later run can list what has changed and
whether the state still fits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from pydantic import Field, TypeAdapter, ValidationError

from tideglass.compile import Compiled
from tideglass.connect.output import OutputConnector
from tideglass.core.durable import sealed, unsealed
from tideglass.core.errors import FRESH, damaged
from tideglass.core.tags import written
from tideglass.job.start.decision import StartMode, StartPlan
from tideglass.plan.fingerprint import state_parts
from tideglass.plan.nodes import Node, Plan, steps_read
from tideglass.plan.topology import Topology
from tideglass.project.settings import JobSettings, format_duration
from tideglass.storage import AnyPath, StoragePath, storage_path

#: Changes when state written by this version cannot be read by the one before, or the reverse.
#: 1: state by the number of its operator. 2: by what the operator does (`plan.fingerprint`).
STATE_FORMAT = 2


@dataclass(frozen=True, slots=True)
class StepHash:
    """A step or output of the query: what it does itself, and with all that feeds it."""

    own: str
    whole: str


@dataclass(frozen=True, slots=True)
class Identity:
    """What a job is made of.

    query: hash of its text
    plan: hash of everything that decides what the operators do and where
    steps: hashes of every step by its name, of every output as `INTO name`
    state: a text for each part of which there is state
    settings: the job settings
    key_groups: number of key groups
    inputs: how and where each input is read; paths are relative to the job directory
    schemas: per input, the fields the query reads and the types CREATE TABLE pins
    outputs: how and where each output is written
    finished_input: the inputs were finished (`--once`)
    """

    query: str
    plan: str
    steps: Mapping[str, StepHash]
    state: tuple[str, ...]
    settings: Mapping[str, Any]
    key_groups: int
    inputs: Mapping[str, Mapping[str, Any]]
    schemas: Mapping[str, Mapping[str, str]]
    outputs: Mapping[str, Mapping[str, Any]]
    finished_input: bool


@dataclass(frozen=True, slots=True)
class Manifest:
    """The identity of the job when it last started, and the plan its newest generation began with.

    identity: None when another version of this package wrote it, which this one cannot compare itself with.
    kept: files the newest generation has from its beginning on; () when an earlier version began it.
    job_id: of the job directory, unlike any other's; "" when an earlier version wrote the manifest.
    """

    state_format: int
    start_plan: Annotated[StartPlan, Field(alias="begun")]
    identity: Identity | None
    kept: tuple[str, ...] = ()
    job_id: str = ""


class Identified(Protocol):
    """An input of any kind."""

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        """What tells it from another, as JSON, for the manifest in `directory`."""
        ...


def identity_of(
    compiled: Compiled,
    settings: JobSettings,
    inputs: Mapping[str, Identified],
    outputs: Mapping[str, OutputConnector],
    directory: AnyPath,
    *,
    finished_input: bool,
) -> Identity:
    """The identity of a job whose directory is `directory`."""
    topology, place = compiled.topology, storage_path(directory)
    return Identity(
        query=_hash(compiled.source.text),
        plan=plan_hash(topology),
        steps=_step_hashes(compiled.plan),
        state=state_parts(topology),
        settings=settings.of_rows(),
        key_groups=topology.key_groups,
        inputs={name: each.identity(place) for name, each in sorted(inputs.items())},
        schemas={
            name: {".".join(path): "" for path in needed.paths}
            | {path: type_.value for path, type_ in needed.payload_types}
            for name, needed in sorted(topology.fields.items())
        },
        outputs={name: each.identity(place) for name, each in sorted(outputs.items())},
        finished_input=finished_input,
    )


def plan_hash(topology: Topology) -> str:
    """Spans are no part of an expression's representation, so moving text changes nothing."""
    parts = (topology.ops, topology.readers, topology.fields, topology.functions, topology.level)
    return _hash(written(parts))


def _step_hashes(plan: Plan) -> dict[str, StepHash]:
    found: dict[str, StepHash] = {}

    def add(name: str, node: Node) -> None:
        own = written(node)
        found[name] = StepHash(
            _hash(own), _hash(own + "".join(found[step].whole for step in steps_read(node)))
        )

    for name, node in plan.steps:
        add(name, node)
    for number, output in enumerate(plan.outputs):
        twins = sum(output.name == other.name for other in plan.outputs[:number])
        add(f"INTO {output.name}" + (f" ({twins + 1})" if twins else ""), output.node)
    return found


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# ---------------------------------------------------------------- the file

_ADAPTER = TypeAdapter(Manifest)


def read_manifest(path: AnyPath) -> Manifest | None:
    """The manifest in a file; None when there is none. Raises StateError for what is none at all."""
    try:
        body = storage_path(path).read_bytes()
    except FileNotFoundError:
        return None
    try:
        content = unsealed(json.loads(body))
        state_format = int(content["state_format"])
        generation = int(content.get("begun", {}).get("generation", 1))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(path, f"does not say what job this is ({error})", FRESH) from error
    if state_format == STATE_FORMAT:
        with suppress(ValidationError):  # of a version that writes what a job is made of in another way
            return _ADAPTER.validate_json(json.dumps(content))
    start_plan = StartPlan(generation, False, StartMode.BEGINNING, f"state of format {state_format}")
    return Manifest(state_format, start_plan, None)


def write_manifest(path: AnyPath, manifest: Manifest) -> None:
    """Replace the manifest, wholly or not at all: from here on a run belongs to its generation."""
    content = sealed(_ADAPTER.dump_python(manifest, mode="json", by_alias=True))
    storage_path(path).write((json.dumps(content, indent=2) + "\n").encode())


# ---------------------------------------------------------------- what has changed


@dataclass(frozen=True, slots=True)
class Changes:
    """What has changed between two starts of a job.

    differences: every difference, in words, a line each.
    keeps_state: whether the state of before can be used now. That must be proven: everything that has state
        does to the same rows what something with state did before (`plan.fingerprint`), and the inputs are
        read in the same way.
    same_inputs: the inputs that are read in the same way.
    """

    differences: tuple[str, ...] = ()
    keeps_state: bool = True
    same_inputs: frozenset[str] = frozenset()


def changes_between(before: Manifest | None, now: Identity) -> Changes:
    """What a job directory's manifest and a job that is to run in it differ in; None: nothing has run yet."""
    if before is None:
        return Changes()
    known = before.identity
    if known is None:
        words = (
            "its manifest is that of another version"
            if before.state_format == STATE_FORMAT
            else f"its state has format {before.state_format}, this version's is {STATE_FORMAT}"
        )
        return Changes((words,), keeps_state=False)
    differences = (
        *_steps(known, now),
        *_settings(known.settings, now.settings),
        *_ends("input", known.inputs, now.inputs),
        *_ends("output", known.outputs, now.outputs),
        *_schemas(known.schemas, now.schemas),
        *_key_groups(known, now),
        *_finished(known, now),
    )
    keeps = (
        set(now.state) <= set(known.state)
        and now.inputs == known.inputs
        and now.key_groups == known.key_groups
        # the stages were told that a finished input has ended
        and (now.finished_input or not known.finished_input)
    )
    same = (name for name, words in known.inputs.items() if words == now.inputs.get(name))
    return Changes(differences, keeps, frozenset(same))


def _steps(before: Identity, now: Identity) -> Iterator[str]:
    for name, step in now.steps.items():
        was = before.steps.get(name)
        if was is None:
            yield f"{_step_words(name)} is new"
        elif was.own != step.own:
            yield f"{_step_words(name)} is another"
        elif was.whole != step.whole:
            yield f"{_step_words(name)} is the same, but what it reads is not"
    yield from (f"{_step_words(name)} is gone" for name in before.steps if name not in now.steps)
    if before.plan != now.plan and before.steps == now.steps and before.settings == now.settings:
        yield "what the query calls or reads is declared in another way, or this version places it otherwise"


def _step_words(name: str) -> str:
    into = name.removeprefix("INTO ")
    return f"the step {name!r}" if into == name else f"the statement that writes to {into!r}"


def _settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in now:
        if before.get(name) != now[name]:
            text_of: Callable[[Any], str] = format_duration if name.endswith("_ticks") else str
            label = name.removesuffix("_ticks")
            yield f"the setting {label} was {text_of(before.get(name))} and is {text_of(now[name])}"


def _ends(kind: str, before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Any]) -> Iterator[str]:
    for name, words in now.items():
        if name not in before:
            yield f"the {kind} {name!r} is new"
        else:
            for key in words:
                if words[key] != before[name].get(key):
                    yield f"the {kind} {name!r}: {key} was {before[name].get(key)!r} and is {words[key]!r}"
    yield from (f"the {kind} {name!r} is gone" for name in before if name not in now)


def _schemas(before: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for name in now.keys() & before.keys():
        for field, type_ in now[name].items():
            was = before[name].get(field)
            if was is not None and was != type_:
                yield f"the input {name!r}: {field} was {was or 'undeclared'} and is {type_ or 'undeclared'}"


def _key_groups(before: Identity, now: Identity) -> Iterator[str]:
    if before.key_groups != now.key_groups:
        yield f"the key groups were {before.key_groups} and are {now.key_groups}"


def _finished(before: Identity, now: Identity) -> Iterator[str]:
    if before.finished_input and not now.finished_input:
        yield "the inputs were finished (--once) and now go on"
