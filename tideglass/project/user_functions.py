"""The functions of a project: JavaScript ones are read, those in C# and of machine learning are named."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tideglass.functions.javascript import called, is_aggregate
from tideglass.project.file_reader import Problems, project_path, read_object, read_text, text_of
from tideglass.project.keys import FUNCTION, warn_of_misspelt
from tideglass.project.rest_spelling import tool_function

#: A method of C# that a query may call.
_METHOD = re.compile(r"\bpublic\s+static\s+[\w<>\[\], ?]+?\s+(\w+)\s*\(")


@dataclass(frozen=True, slots=True)
class ProjectFunction:
    """A JavaScript function: a scalar one, or an aggregate."""

    name: str
    script: str

    @property
    def aggregate(self) -> bool:
        return is_aggregate(self.script)

    @property
    def called(self) -> str:
        """How a query calls it."""
        return called(self.name, self.aggregate)


def read_function(file: Path, kind: str, problems: Problems) -> ProjectFunction | None:
    """The function of a `.js` file, or of a JSON file that names one, holds its text, or has one beside it.

    kind: that of the manifest. None after a reported problem or a note.
    """
    if file.suffix.lower() == ".js":
        script = read_text(file, problems)
        return None if script is None else ProjectFunction(file.stem, script)
    if not file.exists() and _language(kind) != "JavaScript":
        _note(_language(kind), file.stem, file, problems)
        return None
    raw = read_object(file, problems)
    if raw is None:
        return None
    content = tool_function(raw)
    warn_of_misspelt(content, FUNCTION, file, problems)
    name = text_of(content, "Name", file, problems, required=False)
    name = name or re.sub(r"\.js$", "", file.stem, flags=re.IGNORECASE)
    language = _language(kind, str(content.get("ScriptType", "")))
    if language != "JavaScript":
        _note(language, name, file, problems)
        return None
    script = _script_of(content, file, problems)
    if script is None:
        return None
    if "aggregate" in str(content.get("Type", "")).lower() and not is_aggregate(script):
        problems.error(
            file, "its Type is Aggregate, but its script has no main with init, accumulate and computeResult"
        )
    return ProjectFunction(name, script)


def note_code_files(file: Path, problems: Problems) -> None:
    """Name the C# functions beside a query; the file Visual Studio makes holds none at first."""
    unheard = Problems(problems.folder)
    for name in _METHOD.findall(read_text(file, unheard) or ""):
        _note("C#", name, file, problems)


def _language(*kinds: str) -> str:
    """The language of a function, by the manifest or the file itself."""
    for kind in map(str.lower, kinds):
        if "csharp" in kind or "clr" in kind:
            return "C#"
        if kind.startswith(("ml", "azureml", "aml", "machinelearning")):
            return "machine learning"
    return "JavaScript"


def _note(language: str, name: str, file: Path, problems: Problems) -> None:
    what = "C# functions" if language == "C#" else "functions of Azure Machine Learning"
    problems.notice(
        file, f"UDF.{name}: {what} are understood, not yet supported; write {name} in JavaScript instead"
    )


def _script_of(content: Mapping[str, Any], file: Path, problems: Problems) -> str | None:
    inline = content.get("Script")
    if isinstance(inline, str) and inline.strip():
        return _with_main(inline)
    for key in ("FilePath", "ScriptFilePath", "ScriptPath", "Path"):
        named = content.get(key)
        if isinstance(named, str) and named.lower().endswith(".js"):
            path = problems.path(file.parent, named, file, f'"{key}"')
            return None if path is None else read_text(path, problems)
    stem = re.sub(r"(\.js)?\.json$", "", file.name, flags=re.IGNORECASE)
    beside = project_path(file.parent, f"{stem}.js")
    if beside.exists():
        return read_text(beside, problems)
    problems.error(file, f'no script: expected {beside.name} beside this file, or its text under "Script"')
    return None


def _with_main(script: str) -> str:
    """A script of the interface may be one function without a name."""
    return re.sub(r"^(\s*)function\s*\(", r"\1function main(", script)
