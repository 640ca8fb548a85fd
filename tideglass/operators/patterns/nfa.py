"""The NFA of a pattern: threads of all starts advance together, event by event (`asa.md` 2.14, A-13).

A thread is a start, a state of the pattern, and the places of the events that conditions and measures look
back at (its registers). The threads of a start stand in the order of preference. One whose state accepts is
the best so far, and all less preferred ones are dropped; more preferred ones go on, as a longer match of a
preferred thread counts more. Threads with equal states and equal registers read by conditions have the same
future; only the preferred one of them is kept; so there are not more threads than states unless conditions
look back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Ints, Mask
from tideglass.core.errors import EvaluationError
from tideglass.core.types import ORDER_COLUMNS
from tideglass.core.types import field as typed_field
from tideglass.operators.patterns.events import (
    FAILS,
    FALSE,
    TRUE,
    Codes,
    Definition,
    Events,
    EventTest,
    codes,
    column_of,
)
from tideglass.operators.patterns.extremes import NONE, failure
from tideglass.plan.patterns import MatchedValue, PatternState

#: Threads of one start there may be at a time: conditions that look back at ever other events make ever more.
MAX_THREADS = 10_000
#: Events of one match; the place of a row of matches has room for as many.
MOST_EVENTS = 1 << 20
#: Starts that advance together: what is known of a thread takes some hundred bytes.
STARTS_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True)
class Failing:
    """The test of an event that failed: of which variable, at which place, with which registers."""

    variable: int
    place: int
    registers: tuple[int, ...]


@dataclass(slots=True)
class Matches:
    """What each start has led to. All arrays have an entry for each start.

    lengths: events of its match; 0: no match
    open: further events may still decide
    registers: an array for each register: the values of the match's thread
    trails: the number of the last step of the match's thread; -1: none
    failed: the match's thread ended with a test that failed
    failures: number of failed tests that count as false
    tests: the first test that failed, by the number of the start
    """

    lengths: Ints
    open: Mask
    registers: list[Ints]
    trails: Ints
    failed: Mask
    failures: Ints
    tests: dict[int, Failing] = field(default_factory=dict[int, Failing])

    @classmethod
    def nothing(cls, starts: int, registers: int) -> Matches:
        def filled(value: int) -> Ints:
            return np.full(starts, value, np.int64)

        no = np.zeros(starts, np.bool_)
        none = [filled(NONE) for _ in range(registers)]
        return cls(filled(0), no.copy(), none, filled(-1), no, filled(0))

    @classmethod
    def joined(cls, parts: Sequence[Matches]) -> Matches:
        firsts = np.cumsum([0, *(len(part.lengths) for part in parts)])
        tests = [
            {int(first) + n: test for n, test in part.tests.items()}
            for first, part in zip(firsts, parts, strict=False)
        ]
        return cls(
            np.concatenate([part.lengths for part in parts]),
            np.concatenate([part.open for part in parts]),
            [np.concatenate(each) for each in zip(*(part.registers for part in parts), strict=True)],
            np.concatenate([part.trails for part in parts]),
            np.concatenate([part.failed for part in parts]),
            np.concatenate([part.failures for part in parts]),
            {n: test for each in tests for n, test in each.items()},
        )


@dataclass(frozen=True, slots=True)
class _Threads:
    """Threads by start, those of a start in the order of preference."""

    begins: Ints  # numbers of the starts
    states: Ints
    registers: list[Ints]
    trails: Ints

    def only(self, chosen: Mask | Ints) -> _Threads:
        return _Threads(
            self.begins[chosen],
            self.states[chosen],
            [register[chosen] for register in self.registers],
            self.trails[chosen],
        )

    def failing(self, row: int, variables: Ints, places: Ints) -> Failing:
        """The test that ended a thread."""
        registers = tuple(int(register[row]) for register in self.registers)
        return Failing(int(variables[row]), int(places[row]), registers)


@dataclass(slots=True)
class Trail:
    """Every step of every thread, for the variables of a match: the step before it, and its variable."""

    before: list[Ints] = field(default_factory=list[Ints])
    variables: list[Ints] = field(default_factory=list[Ints])
    count: int = 0

    def add(self, before: Ints, variables: Ints) -> Ints:
        """The numbers of new steps."""
        self.before.append(before)
        self.variables.append(variables)
        first, self.count = self.count, self.count + len(before)
        return np.arange(first, self.count)

    def variables_of(self, lasts: Ints, lengths: Ints) -> Ints:
        """The variables of the threads that end with the steps `lasts`, one thread after the other."""
        before = np.concatenate(self.before) if self.before else np.empty(0, np.int64)
        variables = np.concatenate(self.variables) if self.variables else np.empty(0, np.int64)
        ends = np.cumsum(lengths)
        result = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
        places, steps = ends - 1, lasts
        while len(steps):
            result[places] = variables[steps]
            steps, places = before[steps], places - 1
            going = steps >= 0
            steps, places = steps[going], places[going]
        return result


class Pattern:
    """A pattern ready to be matched.

    values: what conditions and measures read. classified: the variables of a match will be asked for.
    """

    def __init__(
        self,
        states: Sequence[PatternState],
        definitions: Sequence[Definition],
        values: Sequence[MatchedValue],
        *,
        classified: bool = False,
    ) -> None:
        self.definitions = tuple(definitions)
        self.values = {value.name: value for value in values if value.arg is not None}
        self.classified = classified
        self.register_of: dict[str, int] = {}
        self._registers: list[tuple[str, int, str]] = []
        for value in self.values.values():
            extreme = value.function in ("min", "max")
            register = (value.function, value.variable, column_of(value) if extreme else "")
            if register not in self._registers:
                self._registers.append(register)
            self.register_of[value.name] = self._registers.index(register)
        tests = [test for each in definitions for test in each.further]
        self._decisive = sorted({self.register_of[name] for test in tests for name in test.reads})
        counts = [len(state.moves) for state in states]
        self._counts = np.array(counts, np.int64)
        self._firsts = np.cumsum(self._counts) - self._counts
        moves = np.array([move for state in states for move in state.moves], np.int64).reshape(-1, 2)
        self._variables, self._nexts = moves[:, 0], moves[:, 1]
        self._accepts = np.array([state.accepts for state in states], np.bool_)

    def found(
        self,
        events: Events,
        starts: Ints,
        ends: Ints,
        until_ticks: Ints,
        closed: Mask,
        trail: Trail,
        drops_failing: bool,
    ) -> Matches:
        """The matches from each start on.

        starts: places. ends: no event from there on is looked at. until_ticks: when the last event of a
        match may be at the latest. closed: all events until then are there. drops_failing: a test that fails
        means no; else it ends its thread, which then counts as if it had matched. Raises EvaluationError if
        there are too many threads.
        """
        alone = [
            None if each.alone is None else codes(each.alone, self._tested(events, each.alone))
            for each in self.definitions
        ]
        parts = [
            self._found(
                events, alone, starts[part], ends[part], until_ticks[part], closed[part], trail, drops_failing
            )
            for first in range(0, max(1, len(starts)), STARTS_AT_ONCE)
            for part in [slice(first, first + STARTS_AT_ONCE)]
        ]
        return Matches.joined(parts)

    def _found(
        self,
        events: Events,
        alone: Sequence[Codes | None],
        starts: Ints,
        ends: Ints,
        until_ticks: Ints,
        closed: Mask,
        trail: Trail,
        drops_failing: bool,
    ) -> Matches:
        found = Matches.nothing(len(starts), len(self._registers))
        none = [np.full(len(starts), NONE, np.int64) for _ in self._registers]
        threads = _Threads(np.arange(len(starts)), np.zeros(len(starts), np.int64), none, found.trails)
        threads = threads.only(self._counts[threads.states] > 0)
        for depth in range(MOST_EVENTS):
            places = starts[threads.begins] + depth
            there = places < ends[threads.begins]
            found.open[threads.begins[~there & ~closed[threads.begins]]] = True
            going = there.copy()
            going[there] = events.times_ticks[places[there]] <= until_ticks[threads.begins[there]]
            if not going.all():
                threads, places = threads.only(going), places[going]
            if not len(places):
                return found
            threads = self._step(events, alone, threads, places, depth, found, trail, drops_failing)
        raise EvaluationError(f"A match may have at most {MOST_EVENTS - 1} events.")

    def _step(
        self,
        events: Events,
        alone: Sequence[Codes | None],
        threads: _Threads,
        places: Ints,
        depth: int,
        found: Matches,
        trail: Trail,
        drops_failing: bool,
    ) -> _Threads:
        """The threads with one event more; what accepts or fails is noted in `found`."""
        counts = self._counts[threads.states]
        rows = np.repeat(np.arange(len(places)), counts)
        moves = np.arange(len(rows)) + np.repeat(
            self._firsts[threads.states] - (np.cumsum(counts) - counts), counts
        )
        variables, places = self._variables[moves], places[rows]
        verdicts = np.full(len(rows), TRUE, np.int8)
        for variable, known in enumerate(alone):
            if known is not None:
                own = variables == variable
                verdicts[own] = known[places[own]]
        keep = verdicts != FALSE
        threads = _Threads(
            threads.begins[rows][keep],
            self._nexts[moves][keep],
            [register[rows][keep] for register in threads.registers],
            threads.trails[rows][keep],
        )
        variables, places, verdicts = variables[keep], places[keep], verdicts[keep]
        self._register(events, threads, variables, places)
        for variable, definition in enumerate(self.definitions):
            for test in definition.further:
                own = np.flatnonzero((variables == variable) & (verdicts == TRUE))
                if len(own):
                    registers = [register[own] for register in threads.registers]
                    verdicts[own] = self._further_test(events, test, places[own], registers)
        fails = verdicts == FAILS
        if drops_failing and fails.any():
            np.add.at(found.failures, threads.begins[fails], 1)
            begins, first = np.unique(threads.begins[fails], return_index=True)
            for begin, row in zip(begins.tolist(), np.flatnonzero(fails)[first].tolist(), strict=True):
                found.tests.setdefault(begin, threads.failing(row, variables, places))
            verdicts[fails] = FALSE
            fails = verdicts == FAILS
        keep = verdicts != FALSE
        threads, variables, places, fails = threads.only(keep), variables[keep], places[keep], fails[keep]
        if self.classified:
            threads = replace(threads, trails=trail.add(threads.trails, variables))
        live = ~fails & (self._counts[threads.states] > 0)
        ends = np.flatnonzero(fails | self._accepts[threads.states])
        if len(ends):
            begins, first = np.unique(threads.begins[ends], return_index=True)
            best = ends[first]
            found.lengths[begins] = depth + 1
            found.trails[begins] = threads.trails[best]
            found.failed[begins] = fails[best]
            for register, own in zip(found.registers, threads.registers, strict=True):
                register[begins] = own[best]
            for row in best[fails[best]]:
                found.tests[int(threads.begins[row])] = threads.failing(row, variables, places)
            last = np.full(len(found.lengths), len(fails), np.int64)
            last[begins] = best
            live &= np.arange(len(fails)) <= last[threads.begins]
        return self._merged(threads.only(live))

    def _register(self, events: Events, threads: _Threads, variables: Ints, places: Ints) -> None:
        """Notes the events that were matched last."""
        for register, (function, variable, column) in zip(threads.registers, self._registers, strict=True):
            own = variables == variable
            match function:
                case "first":
                    own &= register == NONE
                    register[own] = places[own]
                case "last":
                    register[own] = places[own]
                case _:
                    register[own] = events.ranked(column).best(function, register[own], places[own])

    def _merged(self, threads: _Threads) -> _Threads:
        """The threads without those that have the same future as a preferred one of their start."""
        if not (threads.begins[1:] == threads.begins[:-1]).any():
            return threads
        futures = threads.begins * len(self._counts) + threads.states
        for number in self._decisive:
            register = threads.registers[number]
            low = int(register.min())
            futures = np.unique(futures, return_inverse=True)[1] * (int(register.max()) - low + 1)
            futures = futures + (register - low)
        _, first = np.unique(futures, return_index=True)
        if len(first) < len(futures):
            threads = threads.only(np.sort(first))
        if len(threads.begins) > MAX_THREADS and int(np.bincount(threads.begins).max()) > MAX_THREADS:
            raise EvaluationError(
                f"A pattern may match in at most {MAX_THREADS} ways at once from one event."
            )
        return threads

    # ------------------------------------------------------------ tests of events

    def _further_test(
        self, events: Events, test: EventTest, places: Ints, registers: Sequence[Ints]
    ) -> Codes:
        result = np.full(len(places), FAILS, np.int8)
        sound = np.ones(len(places), np.bool_)
        for name in test.reads:
            sound &= registers[self.register_of[name]] >= NONE
        if sound.any():
            own = [register[sound] for register in registers]
            result[sound] = codes(test, self._tested(events, test, places[sound], own))
        return result

    def _tested(
        self,
        events: Events,
        test: EventTest,
        places: Ints | None = None,
        registers: Sequence[Ints] | None = None,
    ) -> pa.Table:
        """What a condition reads of the events at some places; without registers of the event alone."""
        order = events.rows.select(ORDER_COLUMNS)
        own: Ints = np.arange(events.rows.num_rows) if places is None else places
        if places is not None:
            order = order.take(pa.array(places))
        columns, fields = list(order.columns), list(order.schema)
        for name in test.reads:
            back = own if registers is None else registers[self.register_of[name]]
            column, type_ = events.values(self.values[name], back)
            columns.append(column)
            fields.append(typed_field(name, type_))
        return pa.table(columns, schema=pa.schema(fields))

    def error(self, events: Events, failing: Failing) -> EvaluationError:
        """Why a test failed, with its place in the query and its event."""
        places = np.array([failing.place], np.int64)
        registers = [np.array([register], np.int64) for register in failing.registers]
        definition = self.definitions[failing.variable]
        tests = [] if definition.alone is None else [(definition.alone, None)]
        for test, own in (*tests, *((each, registers) for each in definition.further)):
            for name in test.reads if own is not None else ():
                if failing.registers[self.register_of[name]] < NONE:
                    return self.error_of(events, name, failing.registers[self.register_of[name]])
            try:
                test.condition(self._tested(events, test, places, own), None)
            except EvaluationError as error:
                return error
        raise AssertionError("a test that failed fails again")

    def error_of(self, events: Events, name: str, register: int) -> EvaluationError:
        """Why Min or Max has no value."""
        value = self.values[name]
        place = int(failure(np.array([register]))[0])
        return events.ranked(column_of(value)).error(value.function, place, value.span)
