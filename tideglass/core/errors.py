"""Everything that can go wrong, as one family.

TideglassError
├── QueryError      the query cannot run; holds every Diagnostic found, each with its place
├── ProjectError    a project file is missing, malformed or asks for what is not supported
├── EvaluationError a row made the query fail while it ran (`asa.md` A-33)
├── InputError      an input as a whole cannot be read (single bad events are counted, not raised)
├── OutputError     an output cannot be written; OutputUnavailable: not now
├── StorageError    a store of files cannot be reached, refuses, or is of a kind that is not supported
└── StateError      a checkpoint or run directory does not fit the job
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tideglass.core.masking import masked

#: Characters shown of a line of the query, and of these before the piece a message is about.
_SHOWN_CHARACTERS, _SHOWN_BEFORE = 110, 40


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the query text: offsets [start, end) in characters."""

    start: int = 0
    end: int = 0

    def to(self, other: Span) -> Span:
        return Span(min(self.start, other.start), max(self.end, other.end))


@dataclass(frozen=True, slots=True)
class Source:
    """A query text and the name it is reported under."""

    text: str
    name: str = "query"

    def line_column(self, offset: int) -> tuple[int, int]:
        """1-based line and column of a character offset."""
        before = self.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error or warning of the compiler.

    code: a stable name, such as `UNKNOWN_INPUT`
    message: what is wrong, in the user's words
    span: where in the text
    hint: what to do; empty: nothing is known
    severity: `error` or `warning`
    """

    code: str
    message: str
    span: Span
    hint: str = ""
    severity: str = "error"  # or "warning"

    def render(self, source: Source) -> str:
        """The message with its place, the line, carets under the piece, and the hint."""
        line, column = source.line_column(self.span.start)
        text = source.text.split("\n")[line - 1].rstrip("\r").replace("\t", " ")
        shown, carets = _excerpt(text, column - 1, self.span.end - self.span.start)
        warning = "warning " if self.severity == "warning" else ""
        lines = [
            f"{source.name}:{line}:{column}: {warning}[{self.code}] {self.message}",
            f"  {shown}",
            f"  {carets}",
        ]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


def _excerpt(line: str, start: int, length: int) -> tuple[str, str]:
    """What is shown of a line, and the carets below it; of a long line only what surrounds the piece.

    >>> _excerpt("SELECT a", 7, 1)
    ('SELECT a', '       ^')
    """
    first = 0 if len(line) <= _SHOWN_CHARACTERS else max(0, start - _SHOWN_BEFORE)
    last = min(len(line), first + _SHOWN_CHARACTERS)
    opening, closing = "… " if first else "", " …" if last < len(line) else ""
    width = max(1, min(length, last - start))
    return opening + line[first:last] + closing, " " * (len(opening) + start - first) + "^" * width


def _by_place(diagnostics: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(diagnostics, key=lambda d: (d.span.start, d.span.end)))


class TideglassError(Exception):
    """Base of every error this package raises on purpose. As a text it holds no secret that is known here."""

    def __str__(self) -> str:
        return masked(super().__str__())

    def __repr__(self) -> str:
        return masked(super().__repr__())


class QueryError(TideglassError):
    """The query cannot run. Holds all errors found, in the order of their place.

    Warnings are shown after them, since a warning often explains an error.
    """

    def __init__(
        self, diagnostics: Sequence[Diagnostic], source: Source, warnings: Sequence[Diagnostic] = ()
    ) -> None:
        self.diagnostics = _by_place(diagnostics)
        self.warnings = _by_place(warnings)
        self.source = source
        shown = (*self.diagnostics, *self.warnings)
        super().__init__("\n".join(d.render(source) for d in shown))


class ProjectError(TideglassError):
    """A project file cannot be used; the message names the file and the remedy."""


class InputError(TideglassError):
    """An input cannot be read at all."""


class OutputError(TideglassError):
    """An output cannot be written."""


class OutputUnavailable(OutputError):
    """An output cannot be written now, and may be later: network, throttling, a time-out, a lock.

    retry_after_seconds: how long it asks to be left alone; None where it does not say.
    """

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class StorageError(TideglassError):
    """A store of files cannot be used; the message names the place and the remedy, never a secret."""


class StateError(TideglassError):
    """A run directory or checkpoint does not fit the job that is to use it."""


#: The ways out of damaged state. The first loses and doubles nothing, as long as the inputs are still there.
REBUILD = (
    "--start last (for a job over topics: another number of --key-groups) builds the state anew from the "
    "inputs and goes on after the rows that are written; --fresh starts anew and replaces all rows"
)
RESTART = (
    "--start TIME gives the rows from an output time on, with the state built anew; "
    "--fresh starts anew and replaces all rows"
)
FRESH = "--fresh starts anew and replaces all rows"


def damaged(path: object, problem: str, hint: str) -> StateError:
    """A file of a job directory is not as it was written. problem: what shows it, a predicate of the file."""
    return StateError(
        f"[STATE_DAMAGED] {path} {problem}; a run that went on could give wrong rows\n  hint: {hint}"
    )


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that failed: what the expression read there, as JSON text, and its place in the total order.

    place: timestamp and arrival in ticks, input, partition and offset; None where rows have none
    pieces: fields of `values` that the engine named, with the piece of the query each stands for
    """

    values: str = ""
    place: tuple[int, int, int, int, int] | None = None
    pieces: tuple[tuple[str, Span], ...] = ()


class EvaluationError(TideglassError):
    """Evaluating the query on a row failed, which stops the job (`asa.md` A-33).

    Programs know the piece of the query and the row; their host adds the text of the query and the names of
    the inputs (`evaluate.failure.located`).
    """

    def __init__(self, message: str, span: Span | None = None, row: FailedRow | None = None) -> None:
        self.message = message
        self.span = span
        self.row = row
        super().__init__(f"{message} The row has {row.values}." if row and row.values else message)


@dataclass(slots=True)
class Diagnostics:
    """Collects what the compiler finds, so that all of it is reported at once."""

    found: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def error(self, code: str, message: str, span: Span, hint: str = "") -> None:
        self.found.append(Diagnostic(code, message, span, hint))

    def warn(self, code: str, message: str, span: Span, hint: str = "") -> None:
        self.found.append(Diagnostic(code, message, span, hint, "warning"))

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.found if d.severity == "error"]

    @property
    def warnings(self) -> list[Diagnostic]:
        return [d for d in self.found if d.severity == "warning"]

    def raise_if_any(self, source: Source) -> None:
        if self.errors:
            raise QueryError(self.errors, source, self.warnings)
