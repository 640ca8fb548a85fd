"""What people write wrong, and what they are told: mistakes.txt is the reviewed list.

A message that changes changes there, where it is read beside the others. New mistakes are added at the end of
their section.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tideglass.bind.catalog import InputInfo
from tideglass.compile import compile_query
from tideglass.core.errors import Diagnostic, QueryError, Source
from tideglass.project.settings import from_options

FILE = Path(__file__).with_name("mistakes.txt")
INPUTS = {
    "readings": InputInfo("readings"),
    "alarms": InputInfo("alarms"),
    "devices": InputInfo("devices", "reference"),
}
FUNCTIONS = {"double": "function main(x) { return 2 * x; }"}


@dataclass(frozen=True, slots=True)
class Mistake:
    """A query, and the lines that are told of it: a message with its place and code, or its hint."""

    line: int
    query: str
    told: tuple[str, ...]


def mistakes() -> list[Mistake]:
    """The mistakes of the file."""
    found: list[Mistake] = []
    query: list[str] | None = None
    told: list[str] = []
    begins, answered = 0, False
    for number, line in enumerate([*FILE.read_text(encoding="utf-8").splitlines(), "==="], 1):
        if line == "===" or (line.startswith("# ") and answered):
            if query is not None:
                found.append(Mistake(begins, "\n".join(query), tuple(filter(None, told))))
            query, told, begins, answered = ([], [], number, False) if line == "===" else (None, [], 0, False)
        elif line == "---":
            answered = True
        elif query is not None:
            (told if answered else query).append(line)
    return found


def complaints(query: str) -> list[Diagnostic]:
    """All that is said of a query; inputs that it does not read are left out."""
    try:
        compiled = compile_query(
            Source(query), from_options({}), key_groups=2, inputs=INPUTS, functions=FUNCTIONS
        )
    except QueryError as error:
        said = (*error.diagnostics, *error.warnings)
    else:
        said = compiled.warnings
    return [each for each in said if each.code != "UNUSED_INPUT"]


@pytest.mark.parametrize("mistake", mistakes(), ids=lambda mistake: f"line {mistake.line}")
def test_a_mistake_is_told_with_its_place_cause_and_remedy(mistake: Mistake) -> None:
    source = Source(mistake.query)
    told: list[str] = []
    for each in complaints(mistake.query):
        line, column = source.line_column(each.span.start)
        warning = "warning " if each.severity == "warning" else ""
        told.append(f"{line}:{column}: {warning}[{each.code}] {each.message}")
        if each.hint:
            told.append(f"  hint: {each.hint}")
    assert tuple(told) == mistake.told


def test_there_are_hundreds_and_nearly_all_have_a_remedy() -> None:
    known = mistakes()
    assert len(known) >= 250
    without = [mistake.query for mistake in known if "  hint: " not in "\n".join(mistake.told)]
    assert len(without) <= 5, without
