"""Test cases of a project (`test/testConfig.json`) and the verdict on each (`asa.md` 10.2).

Nothing runs here: the caller runs the query on `case_inputs(case)` and hands the rows to `judge`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any, cast

from tideglass.connect.files.input import FileInput
from tideglass.connect.reference.pattern import PathPattern, is_pattern
from tideglass.connect.reference.references import InlineRows
from tideglass.connect.spec import InputSpec
from tideglass.core.bounds import Bounds
from tideglass.core.partition_numbers import partition_numbers
from tideglass.core.time import format_ticks
from tideglass.project.compare import Difference, differences
from tideglass.project.file_reader import (
    REMEDY,
    NotNamed,
    Problems,
    json_kind,
    named_path,
    read_object,
    text_of,
)
from tideglass.project.inputs import ProjectInput, read_input_mock
from tideglass.project.keys import (
    EXPECTED_OUTPUT,
    LOCAL_INPUT,
    TEST_CASE,
    TEST_CONFIG,
    canonical,
    warn_of_misspelt,
)
from tideglass.project.rest_spelling import tool_input
from tideglass.project.settings import JobSettings
from tideglass.project.test_rows import Row, read_rows
from tideglass.storage import StoragePath, storage_path


@dataclass(frozen=True, slots=True)
class ExpectedOutput:
    """Rows a case expects of an output.

    name: of the output.
    path: the file that holds the rows.
    ignore_fields: columns that are not compared.
    required: whether the output is part of the verdict; else it is compared and shown.
    """

    name: str
    path: Path
    ignore_fields: tuple[str, ...] = ()
    required: bool = True


@dataclass(frozen=True, slots=True)
class TestCase:
    """A name, the files that stand in for the inputs, and what is expected."""

    __test__ = False  # not a class of tests, whatever pytest makes of its name

    name: str
    inputs: tuple[ProjectInput, ...]
    expected: tuple[ExpectedOutput, ...]


@dataclass(frozen=True, slots=True)
class TestConfig:
    """The test cases of a project.

    path: the file that lists them.
    script: the query file; None: that of the project.
    cases: in the order of the file.
    warnings: what may not be meant as it is written.
    """

    __test__ = False

    path: Path
    script: Path | None
    cases: tuple[TestCase, ...]
    warnings: tuple[str, ...] = ()


def load_test_config(path: Path, bounds: Bounds | None = None, project: Path | None = None) -> TestConfig:
    """Read a testConfig.json; its paths are relative to its folder, `Script` also to that of the project.

    bounds: which files it may name; by default what lies below its folder.
    Raises ProjectError that lists every problem.
    """
    problems = Problems(path.parent, bounds or Bounds((path.parent,)))
    content = read_object(path, problems)
    problems.raise_if_any()
    content = canonical(content or {}, TEST_CONFIG)
    warn_of_misspelt(content, TEST_CONFIG, path, problems)
    script_text = text_of(content, "Script", path, problems, required=False)
    script = None if script_text is None else _script(script_text, path, project, problems)
    cases: list[TestCase] = []
    for number, entry in enumerate(_objects(content, "TestCases", path, problems), 1):
        cases.append(_read_case(entry, number, path, problems))
    names = [case.name for case in cases]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.error(path, f"two test cases are named {name!r}; give each its own name")
    problems.raise_if_any()
    return TestConfig(path, script, tuple(cases), tuple(problems.warnings))


def _script(text: str, path: Path, project: Path | None, problems: Problems) -> Path | None:
    """The query that `Script` names, as seen from the file or the project; None where there is none.

    The service's tools write an absolute path of the machine the file was made on and never read it again.
    The query of that name is meant, and that of the project where there is none.
    """
    folders = [path.parent] if project is None else [path.parent, project]
    absolute = PureWindowsPath(text)
    found: list[Path | NotNamed] = []
    for candidate in (text, absolute.name) if absolute.root else (text,):
        found += [named_path(folder, candidate, problems.bounds) for folder in folders]
    for each in found:
        if isinstance(each, Path) and each.is_file():
            return each
    if absolute.root:
        problems.warn(
            path, f'"Script" names {text}, which is not in the project; the query of the project is tested'
        )
        return None
    why = next((each for each in found if isinstance(each, NotNamed)), NotNamed("is a folder"))
    problems.error(path, f'"Script" names {text}, which {why.why}' + (f"; {REMEDY}" if why.outside else ""))
    return None


def _objects(content: Mapping[str, Any], key: str, path: Path, problems: Problems) -> list[dict[str, Any]]:
    value = content.get(key)
    if not isinstance(value, list):
        problems.error(
            path, f'"{key}" must be an array' + ("" if value is None else f", is {json_kind(value)}")
        )
        return []
    entries = cast("list[object]", value)
    for entry in entries:
        if not isinstance(entry, dict):
            problems.error(path, f'"{key}" holds {json_kind(entry)} where an object is expected')
    return [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]


def _read_case(entry: Mapping[str, Any], number: int, path: Path, problems: Problems) -> TestCase:
    entry = canonical(entry, TEST_CASE)
    warn_of_misspelt(entry, TEST_CASE, path, problems)
    name = text_of(entry, "Name", path, problems, required=False) or f"Case {number}"
    inputs: list[ProjectInput] = []
    for item in _objects(entry, "Inputs", path, problems):
        mock = tool_input(item, LOCAL_INPUT)
        warn_of_misspelt(mock, LOCAL_INPUT, path, problems)
        alias = text_of(mock, "Name" if "Name" in mock else "InputAlias", path, problems)
        if alias:
            found = read_input_mock(mock, alias, path, path.parent, problems)
            named = f"case {name!r}: the input {alias!r}"
            if found.outside is not None:
                problems.error(
                    path, f"{named} reads {found.outside}, which lies outside of the project; {REMEDY}"
                )
            elif found.unreadable is not None:
                problems.error(path, f"{named} cannot be read: {found.unreadable}")
            inputs.append(found)
    expected: list[ExpectedOutput] = []
    for item in _objects(entry, "ExpectedOutputs", path, problems):
        output = canonical(item, EXPECTED_OUTPUT)
        warn_of_misspelt(output, EXPECTED_OUTPUT, path, problems)
        alias = text_of(output, "OutputAlias", path, problems)
        file_text = text_of(output, "FilePath", path, problems)
        if not alias or not file_text:
            continue
        what = f"case {name!r}: the expected output {alias!r}"
        file = problems.path(path.parent, file_text, path, what) or path
        ignored = output.get("IgnoreFields") or []
        if not isinstance(ignored, list):
            problems.error(path, f'case {name!r}: "IgnoreFields" is {json_kind(ignored)}, not an array')
            ignored = []
        required = str(output.get("Required", True)).strip().lower() != "false"
        fields = tuple(str(name) for name in cast("list[object]", ignored))
        expected.append(ExpectedOutput(alias, file, fields, required))
    return TestCase(name, tuple(inputs), tuple(expected))


def case_reference(case: TestCase) -> dict[str, InlineRows]:
    """The rows of the case's reference inputs; of one whose path has {date}, its snapshots."""
    found: dict[str, InlineRows] = {}
    for source in case.inputs:
        if source.kind != "reference" or source.path is None:
            continue
        if is_pattern(source.path):
            pattern = PathPattern(storage_path(source.path), source.date_format, source.time_format)
            found[source.name] = {
                format_ticks(ticks): _rows_of_file(source, path) for ticks, path in pattern.snapshots()
            }
        else:
            found[source.name] = _rows_of_file(source, storage_path(source.path))
    return found


def case_inputs(case: TestCase) -> dict[str, list[Row]]:
    """The rows of the case's streams.

    A field named by `ArrivalTimeField` becomes the row's `_arrival`, and stays in the payload; with a
    folder for each partition a row's `_partition` is the number a run would give its folder.
    """
    rows_of_input: dict[str, list[Row]] = {}
    for source in case.inputs:
        if source.kind != "stream" or source.path is None:
            continue
        place = storage_path(source.path)
        rows = _rows_of_folder(source, place) if place.is_dir() else _rows_of_file(source, place)
        if source.arrival is not None:
            path = source.arrival.split(".")
            rows = [row if (at := _walk(row, path)) is None else {**row, "_arrival": at} for row in rows]
        rows_of_input[source.name] = rows
    return rows_of_input


def _rows_of_file(source: ProjectInput, path: StoragePath) -> list[Row]:
    """Raises StorageError for a file in an object store: a test case is told by files of its project."""
    return read_rows(path.local, source.file_format, source.delimiter)


def _rows_of_folder(source: ProjectInput, folder: StoragePath) -> list[Row]:
    """The rows of all files of a folder, partition after partition, in the order a run reads them."""
    by_folder = source.partitions == "folders"
    spec = InputSpec(
        name=source.name,
        path=folder,
        partitions="folders" if by_folder else "none",
        finished=True,
        bounds=source.bounds,
    )
    files = FileInput(spec)
    rows: list[Row] = []
    for name, number in partition_numbers(files.partitions()).items():
        for path in files.paths(name):
            found = _rows_of_file(source, path)
            rows += [{**row, "_partition": number} for row in found] if by_folder else found
    return rows


def _walk(value: object, path: Sequence[str]) -> object:
    """The value at the end of a path into records; None where there is none."""
    for name in path:
        value = cast("Row", value).get(name) if isinstance(value, dict) else None
    return value


def case_settings(case: TestCase, settings: JobSettings) -> JobSettings:
    """The settings the case runs under: without ordering policies when no input has arrival times.

    That is what the service's tools do with local files (`asa.md` 10.1); with `ArrivalTimeField` the
    policies act as they would in the cloud.
    """
    arrivals_known = any(source.arrival for source in case.inputs)
    return settings if arrivals_known else settings.without_policies()


# ---------------------------------------------------------------- verdicts


@dataclass(frozen=True, slots=True)
class OutputVerdict:
    """How one output of a case compares.

    name: of the output.
    verdict: the key it has in the summary file. OutputMatched; OutputNotEqual; OutputMissing: expected, and
        the query has no such output; OutputUnexpected: made, and the case expects nothing of it;
        OutputUnrequired: not part of the verdict.
    expected: the rows of the file.
    found: the rows the query has made.
    differences: between the two, for people.
    """

    name: str
    verdict: str
    expected: tuple[Row, ...]
    found: tuple[Row, ...]
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The verdict on a case. An unexpected output is shown and does not fail it."""

    name: str
    outputs: tuple[OutputVerdict, ...]
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not any(each.verdict in ("OutputNotEqual", "OutputMissing") for each in self.outputs)


def judge(case: TestCase, found: Mapping[str, Sequence[Row]], seconds: float = 0.0) -> CaseResult:
    """Compare what the query made with what the case expects."""
    verdicts: list[OutputVerdict] = []
    for output in case.expected:
        expected = read_rows(output.path)
        rows = found.get(output.name)
        if output.path.suffix.lower() == ".csv":
            expected = [_from_csv(row) for row in expected]
            rows = None if rows is None else [_from_csv(_as_csv(row)) for row in rows]
        differing = differences(expected, rows or (), output.ignore_fields)
        if not output.required:
            verdict = "OutputUnrequired"
        elif rows is None:
            verdict = "OutputMissing"
        else:
            verdict = "OutputNotEqual" if differing else "OutputMatched"
        verdicts.append(
            OutputVerdict(output.name, verdict, tuple(expected), tuple(rows or ()), tuple(differing))
        )
    expected_names = {output.name for output in case.expected}
    for name, rows in found.items():
        if name not in expected_names:
            verdicts.append(OutputVerdict(name, "OutputUnexpected", (), tuple(rows)))
    return CaseResult(case.name, tuple(verdicts), seconds)


def _as_csv(row: Row) -> Row:
    """The row as CSV would hold it: texts (`asa.md` 5.3)."""
    texts: Row = {}
    for name, value in row.items():
        match value:
            case None:
                texts[name] = ""
            case bool():
                texts[name] = "true" if value else "false"
            case dict():
                texts[name] = "Record"
            case list():
                texts[name] = "Array"
            case _:
                texts[name] = str(value)
    return texts


def _from_csv(row: Row) -> Row:
    """The row with texts that are numbers as numbers, so that they compare within the tolerance."""
    return {name: _number(value) for name, value in row.items()}


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


_SUMMARY_KEYS = (
    "OutputMatched",
    "OutputNotEqual",
    "OutputMissing",
    "OutputUnexpected",
    "OutputUnrequired",
)


def summary(results: Sequence[CaseResult], script: str, started: str) -> dict[str, Any]:
    """The content of testResultSummary.json; `started` is ISO text. A status is 0 passed, 1 failed."""
    passed = sum(result.passed for result in results)
    return {
        "Total": len(results),
        "Passed": passed,
        "Failed": len(results) - passed,
        "Script": script,
        "Results": [
            {
                "Name": result.name,
                "Status": 0 if result.passed else 1,
                "Time": round(result.seconds, 3),
                **{
                    key: [
                        {
                            "OutputAlias": each.name,
                            "ExpectedOutput": list(each.expected),
                            "Output": list(each.found),
                        }
                        for each in result.outputs
                        if each.verdict == key
                    ]
                    for key in _SUMMARY_KEYS
                },
            }
            for result in results
        ],
        "Time": started,
    }
