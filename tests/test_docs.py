"""Documents keep their word: links lead somewhere, shown commands run, named files and targets exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("changes/*.md"),
        *ROOT.glob("examples/**/*.md"),
    ]
)
#: What the folder holds in which the commands of a document run, if it is not empty.
FOLDERS = {"docs/recorded-files.md": "examples/recorded"}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path, language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(path.read_text(encoding="utf-8")) if kind == language]


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as they are made from the text."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_every_link_inside_the_repository_leads_somewhere(path):
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file) if file else path
        assert linked.exists(), f"{named(path)} links to {target}"
        assert not anchor or anchor in anchors(linked), f"{named(path)} links to {target}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_every_python_block_runs(path):
    for body in blocks(path, "python"):
        if 'engine="spark"' in body or "SparkSession" in body:
            continue  # shown in the docs, tested with Spark elsewhere
        exec(compile(body, named(path), "exec"), {"__name__": "documentation"})


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_every_json_block_is_json(path):
    for body in blocks(path, "json"):
        json.loads(body)


@pytest.mark.long
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if blocks(path, "console")], ids=named)
def test_every_console_command_ends_well(path, tmp_path):
    """Commands after `$ ` of one document run one after another in a folder of their own."""
    if named(path) in FOLDERS:
        shutil.copytree(ROOT / FOLDERS[named(path)], tmp_path, dirs_exist_ok=True)
    lines = "".join(blocks(path, "console")).splitlines()
    for line in (line.removeprefix("$ ") for line in lines if line.startswith("$ ")):
        words = shlex.split(line, comments=True)
        assert words[0] == "tideglass", f"{named(path)}: only tideglass is run from the docs, not {line}"
        done = subprocess.run(
            [sys.executable, "-m", "tideglass.cli.main", *words[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{named(path)}: {line}\n{done.stdout}{done.stderr}"


def test_every_make_target_that_is_named_exists():
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in DOCUMENTS:
        for target in re.findall(
            r"(?:^ {4}|`)make ([a-z][\w-]*)", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            assert target in targets, f"{named(path)} names make {target}"


def test_every_command_that_is_named_exists():
    from tideglass.cli.main import COMMANDS

    for path in DOCUMENTS:
        for name in re.findall(r"`tideglass ([a-z]+)", path.read_text(encoding="utf-8")):
            assert name in COMMANDS, f"{named(path)} names tideglass {name}"


def test_every_command_has_a_section_with_an_example():
    from tideglass.cli.main import COMMANDS

    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    sections = {part.split("\n", 1)[0]: part for part in text.split("\n## ")[1:]}
    assert sorted(sections) == sorted(COMMANDS)
    for name, section in sections.items():
        assert f"tideglass {name} " in section, f"docs/cli.md shows no {name}"


def test_every_option_the_commands_page_names_exists():
    import typer

    from tideglass.cli.main import app

    group = typer.main.get_command(app)
    commands = getattr(group, "commands")  # noqa: B009 - typer declares a plain command
    known = {name for each in (group, *commands.values()) for made in each.params for name in made.opts}
    known |= {name for each in commands.values() for made in each.params for name in made.secondary_opts}
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) - known <= {"--help"}


def test_every_file_the_readme_and_the_makefile_name_exists():
    text = (ROOT / "README.md").read_text(encoding="utf-8") + (ROOT / "Makefile").read_text(encoding="utf-8")
    named_there = re.findall(r"\b((?:examples|docs|bench|tests|tideglass)/[\w./-]+\.\w+)", text)
    assert "docs/design.md" in named_there
    for name in named_there:
        assert (ROOT / name).exists(), f"{name} is named and not there"


def test_the_decisions_are_all_listed():
    listed = (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8")
    notes = [*(ROOT / "docs/decisions").glob("[0-9]*.md")]
    assert len(notes) > 15
    for note in notes:
        assert f"({note.name})" in listed


def test_every_change_has_its_own_number():
    numbers = [path.name[:4] for path in (ROOT / "changes").glob("[0-9]*.md")]
    assert len(numbers) == len(set(numbers))


def test_no_machine_is_named():
    """The repository holds no path of the machine somebody worked on."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split("\0")
    assert "README.md" in listed, "without git's list of the files this test would look at none"
    for name in filter(None, listed):
        path = ROOT / name
        if path.suffix in (".md", ".py", ".toml", ".json", ".asaql", ".lark") or path.name in (
            "Makefile",
            "run",
        ):
            data = path.read_bytes() if path.exists() else b""
            text = data.decode("utf-16" if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8")
            found = re.search(r"(?<![\w.])/(?:work|root|tmp|home)/\w+", text)
            assert found is None, f"{name} names {found and found.group()}"
