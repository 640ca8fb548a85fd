"""`tideglass test PROJECT`: the project's own test cases (`asa.md` 10.2)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tideglass.cli.job import AllowOutsideOption

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from tideglass.project.compare import Difference
    from tideglass.project.project import Project
    from tideglass.project.test_cases import CaseResult, OutputVerdict, TestCase, TestConfig
    from tideglass.project.test_rows import Row

#: Exit codes. The service's tool has 0, -1 and -2, which a shell shows as 0, 255 and 254.
PASSED, BROKEN, SOME_FAILED = 0, 1, 2
#: Differences of one output that are shown; the summary file has all rows.
SHOWN_DIFFERENCES = 10

_WORDS = {
    "OutputMatched": ("as expected", "green"),
    "OutputNotEqual": ("differs", "red"),
    "OutputMissing": ("expected, and the query has no such output", "red"),
    "OutputUnexpected": ("made, and nothing is expected of it", "dim"),
    "OutputUnrequired": ("not required", "dim"),
}


def run_test_cases(
    project: Annotated[
        Path, typer.Argument(help="A project's folder, its asaproj.json, or a query file.")
    ] = Path("."),
    config: Annotated[
        Path | None, typer.Option("--config", help="Test cases; otherwise test/testConfig.json.")
    ] = None,
    case: Annotated[list[str] | None, typer.Option("--case", help="Run only the case of this name.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Folder for testResultSummary.json; otherwise that of the test cases."),
    ] = None,
    allow_outside: AllowOutsideOption = False,
) -> None:
    """Run a project's test cases and compare their outputs.

    Ends with exit code 0 when all passed, 1 when one could not be run, 2 when some failed.
    """
    from rich.console import Console

    from tideglass.cli.notes import report_warnings, reporting_notes
    from tideglass.core.errors import ProjectError, TideglassError
    from tideglass.project.project import load_project
    from tideglass.project.test_cases import CaseResult, OutputVerdict

    loaded = load_project(project, allow_outside=allow_outside)
    tests = _test_config(loaded, config)
    report_warnings(*loaded.warnings, *tests.warnings)
    if tests.script is not None:
        loaded = _with_script(loaded, tests.script)
    chosen = [each for each in tests.cases if not case or each.name in case]
    if not chosen:
        known = ", ".join(repr(each.name) for each in tests.cases) or "none"
        raise ProjectError(f"{tests.path}: no such test case; the file has {known}")
    console = Console(highlight=False)
    started = _now_text()
    results: list[CaseResult] = []
    broken = 0
    for each in chosen:
        try:
            with reporting_notes(() if broken else loaded.unsupported):
                result = run_case(loaded, each)
        except TideglassError as error:
            broken += 1
            print(error, file=sys.stderr)
            missing = tuple(OutputVerdict(wanted.name, "OutputMissing", (), ()) for wanted in each.expected)
            result = CaseResult(each.name, missing or (OutputVerdict("", "OutputMissing", (), ()),))
        results.append(result)
        for shown in report(result):
            console.print(shown)
    target = (output or tests.path.parent) / "testResultSummary.json"
    if output is None and not loaded.bounds.with_root(tests.path.parent).hold(target):
        raise ProjectError(f"{target} is a link that leads out of the project; name a folder with --output")
    _write_summary(target, results, loaded, started)
    passed = sum(result.passed for result in results)
    console.print(f"{passed} of {len(results)} passed; summary in {target}", markup=False)
    if passed < len(results):
        raise typer.Exit(BROKEN if broken else SOME_FAILED)


def _test_config(project: Project, chosen: Path | None) -> TestConfig:
    """The test cases of the project; those that are named may use files beside theirs, too."""
    from tideglass.project.test_cases import load_test_config

    if chosen is None:
        return load_test_config(project.test_config, project.bounds, project.folder)
    return load_test_config(chosen, project.bounds.with_root(chosen.parent), project.folder)


def run_case(project: Project, case: TestCase) -> CaseResult:
    """Run the project's query on the case's inputs, in this process, and judge the outputs."""
    import time

    from tideglass.cli.check import known_inputs
    from tideglass.project.test_cases import case_inputs, case_reference, case_settings, judge
    from tideglass.testing import run

    began = time.perf_counter()
    found = run(
        project.query,
        case_inputs(case),
        case_reference(case),
        case_settings(case, project.settings),
        project.scripts,
        known_inputs=known_inputs(project),
    )
    return judge(case, found, time.perf_counter() - began)


def _with_script(project: Project, script: Path) -> Project:
    """The project with the query the test cases name, which need not be the one the project starts with."""
    from dataclasses import replace

    from tideglass.core.errors import Source
    from tideglass.project.file_reader import Problems, read_text

    problems = Problems(project.folder)
    text = read_text(script, problems)
    problems.raise_if_any()
    return replace(project, query=Source(text or "", problems.place(script.resolve())))


def _now_text() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _write_summary(target: Path, results: list[CaseResult], project: Project, started: str) -> None:
    from tideglass.core.errors import ProjectError
    from tideglass.project.test_cases import summary

    content = summary(results, project.query.name, started)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise ProjectError(
            f"{target}: cannot be written: {error.strerror}; name a folder with --output"
        ) from error


# ---------------------------------------------------------------- what is shown


def report(result: CaseResult) -> list[RenderableType]:
    """The verdict on a case, an output a line, each followed by its differences side by side."""
    from rich.text import Text

    shown: list[RenderableType] = [
        Text(
            f"{'passed' if result.passed else 'FAILED'}  {result.name}",
            "green" if result.passed else "bold red",
        )
    ]
    for output in result.outputs:
        words, style = _WORDS[output.verdict]
        shown.append(Text(f"  {output.name}: {words} ({len(output.found)} rows)", style))
        if output.verdict in ("OutputNotEqual", "OutputMissing", "OutputUnrequired") and output.differences:
            shown.append(differences_table(output))
    return shown


def differences_table(output: OutputVerdict) -> Table:
    """Expected and found rows side by side, a field a line, `≠` where they differ."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.ROUNDED, title_justify="left")
    table.add_column("field", overflow="fold")
    table.add_column("expected", overflow="fold", ratio=1)
    table.add_column("", width=1)
    table.add_column("found", overflow="fold", ratio=1)
    for difference in output.differences[:SHOWN_DIFFERENCES]:
        for field, expected, mark, found in difference_lines(difference):
            style = "red" if mark else None
            table.add_row(*map(_plain, (field, expected, mark, found)), style=style)
        table.add_section()
    hidden = len(output.differences) - SHOWN_DIFFERENCES
    if hidden > 0:
        table.caption = f"and {hidden} more"
    return table


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def difference_lines(difference: Difference) -> list[tuple[str, str, str, str]]:
    """Field, expected value, `≠` or nothing, found value, for every field of either row.

    A row without counterpart is marked as such.
    """
    from tideglass.project.compare import same_value

    expected, found = difference.expected, difference.found
    if found is None or expected is None:
        lines = [
            (name, _value(expected, name), "", _value(found, name)) for name in (expected or found or {})
        ]
        words = ("row", "no such row", "≠", "") if expected is None else ("row", "", "≠", "no such row")
        return [words, *lines]
    names = [*expected, *(name for name in found if name not in expected)]
    return [
        (
            name,
            _value(expected, name),
            "" if name in expected and name in found and same_value(expected[name], found[name]) else "≠",
            _value(found, name),
        )
        for name in names
    ]


def _value(row: Row | None, name: str) -> str:
    if row is None:
        return ""
    return json.dumps(row[name], ensure_ascii=False) if name in row else "(no such field)"
