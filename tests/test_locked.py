"""The locked packages: all that a setup installs, with hashes, and looked up among vulnerabilities."""

from __future__ import annotations

import json
import re
import runpy
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
AUDIT = runpy.run_path(str(ROOT / "requirements" / "audit.py"))["audit"]


def pins(lock: Path) -> dict[str, list[Version]]:
    found: dict[str, list[Version]] = {}
    for line in lock.read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            name, _, version = line.split(";")[0].rstrip(" \\").partition("==")
            found.setdefault(canonicalize_name(name), []).append(Version(version))
    return found


def wanted() -> list[Requirement]:
    """What `.[dev,examples]` asks for, with the extras it names of the package itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras, left, found = project["optional-dependencies"], ["dev", "examples"], list(project["dependencies"])
    while left:
        for text in extras[left.pop()]:
            if Requirement(text).name == "tideglass":
                left += sorted(Requirement(text).extras)
            else:
                found.append(text)
    return [Requirement(text) for text in found]


@pytest.mark.parametrize("requirement", wanted(), ids=str)
def test_what_the_package_asks_for_is_locked_in_a_version_that_fits(requirement: Requirement) -> None:
    locked = pins(ROOT / "requirements" / "dev.lock").get(canonicalize_name(requirement.name))
    assert locked, "run `make lock`"
    assert all(requirement.specifier.contains(version) for version in locked), "run `make lock`"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_package_has_hashes_and_none_an_address(lock: Path) -> None:
    text = lock.read_text()
    assert not re.search(r"://|^-|^ *--(?!hash=sha256:[0-9a-f]{64}( \\)?$)", text, re.MULTILINE)
    for entry in re.split(r"\n(?=[^ #\n])", text.strip()):
        assert "--hash=sha256:" in entry, entry


def fake_pip_audit(folder: Path, answers: dict[str, Any]) -> str:
    """A program that answers for each source as it is told; None: as where nobody answers."""
    path = folder / "pip-audit"
    path.write_text(
        f"#!{sys.executable}\nimport sys, json\n"
        f"found = {answers!r}[sys.argv[sys.argv.index('--vulnerability-service') + 1]]\n"
        "if found is None: sys.exit('ConnectionError: nobody')\n"
        "print(json.dumps({'dependencies': found}))\n"
    )
    path.chmod(0o755)
    return str(path)


LOCK = ROOT / "requirements" / "build.lock"
KNOWN = {"name": "a", "version": "1", "vulns": []}
VULNERABLE = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
UNKNOWN = {"name": "c", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("answers", "code", "words"),
    [
        ({"pypi": [KNOWN], "osv": None}, 0, ["audited 1 packages (pypi), 0 with"]),
        ({"pypi": [KNOWN, VULNERABLE], "osv": None}, 1, ["b 2: CVE-1, mended in 3"]),
        ({"pypi": None, "osv": [VULNERABLE]}, 1, ["(osv), 1 with"]),
        (
            {"pypi": [UNKNOWN], "osv": None},
            0,
            ["DEPENDENCIES NOT AUDITED", "pypi: knows no", "osv: Connection"],
        ),
        ({"pypi": [KNOWN, UNKNOWN], "osv": None}, 0, ["NOT AUDITED, since pypi does not know them: c"]),
    ],
    ids=json.dumps,
)
def test_an_audit_says_what_is_known_and_loudly_what_is_not(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    answers: dict[str, Any],
    code: int,
    words: list[str],
) -> None:
    assert AUDIT(fake_pip_audit(tmp_path, answers), LOCK) == code
    said = capsys.readouterr().out
    assert all(each in said for each in words), said
