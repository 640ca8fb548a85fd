"""What has changed between two starts of a job, piece by piece, and whether its state still fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tideglass.job.start.manifest import STATE_FORMAT, Identity, Manifest
from tideglass.project.settings import format_duration


@dataclass(frozen=True, slots=True)
class Changes:
    """told: every difference, in words, a line each. keeps_state: the state of before is that of now.

    It is kept only where that is proven: all that has state now does the same to the same as something
    that had it before (`plan.fingerprint`), and the inputs are read in the same way.
    """

    differences: tuple[str, ...]
    keeps_state: bool


def changes_between(before: Manifest, now: Identity) -> Changes:
    """What a job directory's manifest and a job that is to run in it differ in."""
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
        # what has ended once has told the stages so
        and (now.finished_input or not known.finished_input)
    )
    return Changes(differences, keeps)


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
