"""What the page loads: from this server only, nothing inline, small, and as its authors published it."""

import gzip
import hashlib
import re
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "tideglass" / "page" / "static"
VENDOR = STATIC / "vendor"
OWN = sorted(path for path in STATIC.rglob("*.*") if VENDOR not in path.parents and path.suffix != ".md")
SCRIPTS = [path for path in OWN if path.suffix == ".js"]

#: SHA-256 of each library's file; one that changes is another version, which the table of versions names.
LIBRARIES = {
    "dagre/dagre.esm.js": "cf85ac740ad206f01209bf030b903df8bebac87b965042de02b54d7e6a1e4055",
    "lit-html/lit-html.js": "22115ca1002e4afc0dd2cb208f28d9c71a577a8989d4185028e26b29676e7842",
    "uplot/uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot/uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


def test_libraries_are_the_named_versions_each_with_its_licence():
    found = {
        path.relative_to(VENDOR).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.rglob("*")
        if path.suffix in (".js", ".css")
    }
    assert found == LIBRARIES
    table = (VENDOR / "README.md").read_text()
    for folder in {name.partition("/")[0] for name in LIBRARIES}:
        assert f"| `{folder}` |" in table
        assert (VENDOR / folder / "LICENSE.txt").read_text().strip()


def test_libraries_stay_below_45_kilobytes_as_they_are_sent_packed():
    assert sum(len(gzip.compress((VENDOR / name).read_bytes(), 9)) for name in LIBRARIES) < 45_000


def test_everything_that_is_imported_or_linked_is_there():
    for path in SCRIPTS:
        for name in re.findall(r'from "(\.[^"]+)"', path.read_text()):
            assert (path.parent / name).resolve().is_file(), f"{path.name} imports {name}"
    linked = re.findall(r'(?:src|href)="/static/([^"]+)"', (STATIC / "index.html").read_text())
    assert len(linked) >= 4
    for name in linked:
        assert (STATIC / name).is_file(), name


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_nothing_is_inline_or_loaded_from_elsewhere(path: Path):
    text = path.read_text()
    assert not re.search(r"""(?:src|href|url\(|import|from)\s*[=(]?\s*["']?(?:https?:)?//""", text)
    if path.suffix in (".js", ".html"):
        assert not re.search(r"\sstyle=", text), "the content security policy ignores a style attribute"
        assert not re.search(r"<style|<script(?![^>]*\bsrc=)|\son\w+=\"", text)
        assert not re.search(r"\beval\(|new Function|innerHTML|unsafeHTML", text)


def test_the_package_brings_all_files_of_the_page():
    table = (STATIC.parents[2] / "pyproject.toml").read_text()
    assert '"tideglass.page" = ["static/**/*"]' in table
