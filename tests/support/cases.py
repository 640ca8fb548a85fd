"""Case files: expected behaviour as text, one behaviour a file, played on every driver.

    The behaviour in one sentence.

    --- query
    SELECT COUNT(*) AS n FROM events TIMESTAMP BY t GROUP BY TumblingWindow(second, 5)
    --- settings                  (optional; JSON, as `settings` of tideglass.testing.run)
    {"late_arrival": "5s"}
    --- function double           (optional; JavaScript source of UDF.double)
    function main(x) { return 2 * x; }
    --- input events              (a JSON object a line; `_arrival` and `_partition` are not payload)
    {"t": "2026-01-01T00:00:01Z"}
    --- reference registration    (optional; a JSON object a line)
    --- reference registration from 2026-01-01T00:00:00Z    (one of several snapshots of it)
    --- expect output             (a JSON object a line: all rows, in any order)
    {"n": 1}

Instead of `expect`, `--- transcript` says what happens in time, step by step (`support/transcript.py`); an
input of whose events it tells needs no section `input`.
Instead of `expect`, `--- error CODE [line:column]` says that the query does not compile and
`--- runtime error [CODE [line:column]]` that the job stops. Each line below it is a part of what the
error says: its reason, its remedy, the row that failed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from support.transcript import Transcript, parse

FOLDER = Path(__file__).parents[1] / "cases"
HEADER = re.compile(
    r"^--- (query|settings|function|input|reference|expect|error|runtime error|transcript)\b *(.*?) *$"
)

#: Relative tolerance of floats (A-24).
TOLERANCE = 1e-9

Rows = list[dict[str, Any]]


@dataclass
class Case:
    """A behaviour: what goes in, and what comes out or how it fails."""

    path: Path
    sentence: str
    query: str = ""
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    functions: dict[str, str] = field(default_factory=dict[str, str])
    inputs: dict[str, Rows] = field(default_factory=dict[str, Rows])
    reference: dict[str, Rows | dict[str, Rows]] = field(default_factory=dict[str, Any])
    expected: dict[str, Rows] = field(default_factory=dict[str, Rows])
    error_code: str | None = None
    error_place: tuple[int, int] | None = None
    told: tuple[str, ...] = ()
    fails_to_compile: bool = False
    runtime_error: bool = False
    transcript: Transcript | None = None

    @property
    def name(self) -> str:
        """Area and file, as in `windows/hopping_overlap`."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def compiles(self) -> bool:
        return not self.fails_to_compile

    @property
    def place_and_code(self) -> str:
        """How the error must show its place and code; empty if the case does not say."""
        place = "" if self.error_place is None else f"query:{self.error_place[0]}:{self.error_place[1]}: "
        return f"{place}[{self.error_code}]" if self.error_code else ""


def parameters(cases: Iterable[Case]) -> list[ParameterSet]:
    """Cases as parameters of a test; a script without an end takes as long as its limit, so it is long."""
    return [
        pytest.param(case, id=case.name, marks=[pytest.mark.long] if "without_an_end" in case.name else [])
        for case in cases
    ]


def case_paths(area: str = "") -> list[Path]:
    """All case files, or those of one area, in a stable order."""
    return sorted((FOLDER / area).rglob("*.case"))


def load(path: Path) -> Case:
    """Reads a case file; raises ValueError, naming file and line, for what is no case."""
    lines = path.read_text(encoding="utf-8").split("\n")
    case = Case(path, sentence=lines[0].strip() if lines else "")
    if not case.sentence.endswith(".") or HEADER.match(case.sentence):
        raise ValueError(f"{path}:1: the first line is a sentence and ends with a full stop")
    sections: list[tuple[str, str, list[str]]] = []
    for number, line in enumerate(lines[1:], 2):
        header = HEADER.match(line)
        if header:
            sections.append((header[1], header[2], []))
        elif sections:
            sections[-1][2].append(line)
        elif line.strip():
            raise ValueError(f"{path}:{number}: text before the first section")
    for kind, name, body in sections:
        match kind:
            case "query":
                case.query = "\n".join(body).strip()
            case "settings":
                case.settings = json.loads("\n".join(body))
            case "function":
                case.functions[name] = "\n".join(body)
            case "input":
                case.inputs[name] = json_lines(body)
            case "reference":
                name, _, effective = name.partition(" from ")
                if effective:
                    snapshots = case.reference.setdefault(name, {})
                    assert isinstance(snapshots, dict)
                    snapshots[effective] = json_lines(body)
                else:
                    case.reference[name] = json_lines(body)
            case "expect":
                case.expected[name or "output"] = json_lines(body)
            case "transcript":
                case.transcript = transcript_of(path, name, body)
                case.inputs |= case.transcript.inputs
            case _:
                case.fails_to_compile, case.runtime_error = kind == "error", kind != "error"
                code, _, place = name.partition(" ")
                case.error_code = code or None
                case.told = tuple(line.strip() for line in body if line.strip())
                if place:
                    line, _, column = place.partition(":")
                    case.error_place = (int(line), int(column))
    outcomes = [bool(case.expected), case.fails_to_compile, case.runtime_error, case.transcript is not None]
    if not case.query or sum(outcomes) != 1:
        raise ValueError(f"{path}: a case has a query and one of expect, error, runtime error, transcript")
    return case


def transcript_of(path: Path, driver: str, body: Sequence[str]) -> Transcript:
    try:
        return parse(driver, body)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def json_lines(body: Sequence[str]) -> Rows:
    return [json.loads(line) for line in body if line.strip()]


def compare(actual: Sequence[dict[str, Any]], expected: Sequence[dict[str, Any]]) -> list[str]:
    """What differs between two multisets of rows; empty when nothing does (A-24).

    A field that is absent is not a field that is NULL; 1, 1.0 and true are three values; floats
    agree within a relative 1e-9.
    """
    unexpected: Rows = []
    missing = list(expected)
    for row in actual:
        found = next((i for i, candidate in enumerate(missing) if alike(row, candidate)), None)
        if found is None:
            unexpected.append(row)
        else:
            del missing[found]
    return [f"unexpected {shown(row)}" for row in unexpected] + [
        f"missing    {shown(row)}" for row in missing
    ]


def compare_outputs(actual: dict[str, Rows], expected: dict[str, Rows]) -> list[str]:
    """Differences of all outputs; an output nobody expected differs only if it has rows."""
    return [
        f"{name}: {difference}"
        for name in sorted({*actual, *expected})
        for difference in compare(actual.get(name, []), expected.get(name, []))
    ]


def alike(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return left == right or abs(left - right) <= TOLERANCE * max(abs(left), abs(right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(alike(left[name], right[name]) for name in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(alike, left, right))
    return left == right


def shown(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, ensure_ascii=False)
