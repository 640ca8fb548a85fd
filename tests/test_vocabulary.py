"""One name for one thing: words of the field in identifiers, unique classes, modules one can tell apart."""

from __future__ import annotations

import ast
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "tideglass").rglob("*.py"))

#: Module names that several packages share -> the one thing they mean. (A command is named as what it shows.)
SHARED_NOUNS = {
    "calls": "calls of functions: how they are bound; their nodes in a plan",
    "errors": "the family of our errors; what Spark reports, as one of them",
    "events": "the events of an input: their chunks; those of a project for a simulation",
    "expressions": "the expressions of a query: their nodes; how they are bound",
    "files": "files of an input: where a generation begins in them; as snapshots of reference data",
    "grouping": "GROUP BY: how it is bound; how rows are grouped",
    "input": "an input of its kind: files, DataFrames, topics",
    "javascript": "functions in JavaScript: scalar ones; aggregates",
    "metrics": "the metrics of a job: counted by the driver; observed by Spark",
    "nodes": "the nodes of a tree: of the syntax; of the plan",
    "output": "an output of its kind: files, DataFrames, topics",
    "outputs": "the outputs of a project: read; made ready for a run",
    "profile": "where time is spent: measured in a task; added up",
    "query": "the streaming query of its kind: over files, topics, DataFrames",
    "reference": "reference data: joined; in a project; as a DataFrame",
    "reports": "what tasks report: the messages; of the ingresses",
    "types": "types of values: the types themselves; those of a plan's columns",
    "windows": "the windows of GROUP BY: how they are written, bound and planned",
}

#: A dataclass with more fields than these says in its docstring what each one is, on a line of its own.
MOST_FIELDS = 6


def unused_words() -> tuple[set[str], set[str]]:
    """The words of the table, and the identifiers it names as exceptions."""
    table = (ROOT / "docs" / "glossary.md").read_text().partition("## Words we do not use")[2]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| ")]
    words = {word.strip() for row in rows[1:] for word in row[1].split(",")}
    return words, {name for row in rows[1:] for name in re.findall(r"`(\w+)`", row[3])}


def test_no_identifier_holds_a_word_we_do_not_use():
    (words, exceptions), found = unused_words(), set[str]()
    assert {"silence", "given"} <= words
    assert exceptions == {"tell"}
    for path in MODULES:
        with path.open(encoding="utf-8") as file:
            for token in tokenize.generate_tokens(file.readline):
                if token.type != tokenize.NAME or token.string in exceptions:
                    continue
                parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", token.string)
                if words & {part.lower() for part in parts}:
                    found.add(f"{path.relative_to(ROOT)}:{token.start[0]} {token.string}")
    assert sorted(found) == []


def test_no_two_classes_have_one_name():
    found: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_modules_of_one_name_mean_the_same_thing():
    found: dict[str, list[str]] = {}
    for path in MODULES:
        if path.stem != "__init__":
            found.setdefault(path.stem, []).append(
                ".".join(path.relative_to(ROOT / "tideglass").with_suffix("").parts)
            )
    several = {stem: names for stem, names in found.items() if len(names) > 1}
    unexplained = {
        stem: names
        for stem, names in several.items()
        if stem not in SHARED_NOUNS and not any(name.startswith("cli.") for name in names)
    }
    assert not unexplained, "one name for two things: rename one, or say in SHARED_NOUNS what they share"
    assert not set(SHARED_NOUNS) - set(several), "no longer shared"


def undocumented_fields(class_: ast.ClassDef) -> list[str]:
    """The public fields of a dataclass for which its docstring has no line `name: …`."""
    if not any("dataclass" in ast.unparse(decorator) for decorator in class_.decorator_list):
        return []
    fields = [
        node.target.id
        for node in class_.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    public = [name for name in fields if not name.startswith("_")]
    lines = re.findall(r"(?m)^(\w+(?:, \w+)*): ", ast.get_docstring(class_) or "")
    named = {name for line in lines for name in line.split(", ")}
    return [name for name in public if name not in named] if len(public) > MOST_FIELDS else []


def test_every_field_of_a_large_dataclass_has_a_line_of_its_own():
    found = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": missing
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and (missing := undocumented_fields(node))
    }
    assert found == {}
