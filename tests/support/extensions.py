"""docs/extending.md as files: what it shows is written to disk, its differences are applied to a copy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs/extending.md"

#: A file of its own: its path on a line, then the text.
_FILE = re.compile(r"^`([\w./-]+)`\n\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)
_DIFF = re.compile(r"^```diff\n(.*?)^```", re.DOTALL | re.MULTILINE)


def extended(folder: Path) -> dict[str, str]:
    """Write all the page shows below `folder`; the environment of a process that has it installed."""
    page = PAGE.read_text(encoding="utf-8")
    shutil.copytree(ROOT / "tideglass", folder / "tideglass", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in _FILE.findall(page):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for diff in _DIFF.findall(page):
        apply(diff, folder)
    package = folder / "tideglass-sqlite"
    installed(package)
    return os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{package}"}


def apply(diff: str, folder: Path) -> None:
    """Apply a unified difference without line numbers: what stands in it must be in the file once."""
    _, named, *lines = diff.splitlines(keepends=True)
    path = folder / named.removeprefix("+++ ").strip()
    text = path.read_text(encoding="utf-8")
    hunks: list[list[str]] = []
    for line in lines:
        if line.startswith("@@"):
            hunks.append([])
        else:
            hunks[-1].append(line)
    for hunk in hunks:
        before = "".join(line[1:] for line in hunk if line[0] in " -")
        after = "".join(line[1:] for line in hunk if line[0] in " +")
        assert text.count(before) == 1, f"{path.name} has {text.count(before)} times:\n{before}"
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")


def installed(package: Path) -> None:
    """What `pip install` writes down of a package that only has modules: its name and its entry points."""
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = package / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    sections = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(sections))


def run_python(code: str, folder: Path, environment: dict[str, str]) -> str:
    """What a process prints that runs `code` in a folder. Fails with what it complains of."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
