"""Patterns as automata: what may follow each event, in order of preference (`asa.md` 2.14, A-13).

Preferred are, at each event in turn: the further left option of `|`, another repetition over none. A
repetition that would match no event is tried only where the least number asks for it, and ends the
repeating; so a pattern is never stuck in one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tideglass.lang import nodes as tree
from tideglass.plan.patterns import ANY_EVENT, PatternState

#: States a pattern may have: (a{50} b{50}){4} has 400.
MOST_STATES = 5_000


class PatternTooLong(Exception):
    """The repetitions of a pattern, written out, have more than MOST_STATES places."""


@dataclass(frozen=True, slots=True)
class _Done:
    """Nothing is left of the pattern."""


@dataclass(frozen=True, slots=True)
class _Then:
    """What is left: `pattern`, and then `rest`."""

    pattern: tree.Pattern
    rest: _Rest


@dataclass(frozen=True, slots=True)
class _Again:
    """What is left after a repetition of `part`: the others, and then `rest`.

    least, most: of `part`, with the one that is under way
    empty: it has no event yet
    """

    part: tree.Pattern
    least: int
    most: int | None
    rest: _Rest
    empty: bool


_Rest: TypeAlias = _Done | _Then | _Again
#: A variable's number and the rest of the pattern after its event; None: the match may end.
_Step: TypeAlias = tuple[int, _Rest] | None


def automaton(pattern: tree.Pattern, variables: Mapping[str, int]) -> tuple[PatternState, ...]:
    """The states of a pattern; the first is where a match begins, and never ends.

    variables: numbers by case-folded name. Raises PatternTooLong.
    """
    numbers: dict[_Rest, int] = {_Then(pattern, _Done()): 0}
    found: list[_Rest] = list(numbers)
    states: list[PatternState] = []
    while len(states) < len(found):
        moves: dict[tuple[int, int], None] = {}
        accepts = False
        for step in _steps(found[len(states)], variables, set()):
            if step is None:
                accepts = bool(states)
                if accepts:
                    break
                continue
            variable, remaining = step
            if remaining not in numbers:
                if len(found) == MOST_STATES:
                    raise PatternTooLong
                numbers[remaining] = len(found)
                found.append(remaining)
            moves.setdefault((variable, numbers[remaining]))
        states.append(PatternState(tuple(moves), accepts))
    return tuple(states)


def _steps(remaining: _Rest, variables: Mapping[str, int], seen: set[_Rest]) -> Iterator[_Step]:
    """The next events there may be, the preferred one first; what was `seen` before only repeats itself."""
    if remaining in seen:
        return
    seen.add(remaining)
    match remaining:
        case _Done():
            yield None
        case _Then(pattern=pattern, rest=rest):
            yield from _enter(pattern, rest, variables, seen)
        case _Again(part=part, least=least, most=most, rest=rest, empty=False):
            others = tree.PatternRepeat(part, max(least - 1, 0), None if most is None else most - 1)
            yield from _enter(others, rest, variables, seen)
        case _Again(least=least, rest=rest):
            if least:
                yield from _steps(rest, variables, seen)


def _enter(
    pattern: tree.Pattern, rest: _Rest, variables: Mapping[str, int], seen: set[_Rest]
) -> Iterator[_Step]:
    match pattern:
        case tree.PatternAny():
            yield ANY_EVENT, _started(rest)
        case tree.PatternName(name=name):
            yield variables[name.text.casefold()], _started(rest)
        case tree.PatternSequence(parts=(part,)):
            yield from _enter(part, rest, variables, seen)
        case tree.PatternSequence(parts=(part, *others)):
            yield from _enter(part, _Then(tree.PatternSequence(tuple(others)), rest), variables, seen)
        case tree.PatternSequence():
            yield from _steps(rest, variables, seen)
        case tree.PatternChoice(options=options):
            for option in options:
                yield from _enter(option, rest, variables, seen)
        case tree.PatternRepeat(part=part, least=least, most=most):
            if most != 0:
                yield from _enter(part, _Again(part, least, most, rest, empty=True), variables, seen)
            if not least:
                yield from _steps(rest, variables, seen)


def _started(remaining: _Rest) -> _Rest:
    """The rest of the pattern after an event: every repetition under way has it."""
    match remaining:
        case _Done():
            return remaining
        case _Then(pattern=pattern, rest=rest):
            return _Then(pattern, _started(rest))
        case _Again(part=part, least=least, most=most, rest=rest):
            return _Again(part, least, most, _started(rest), empty=False)
