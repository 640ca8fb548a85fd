"""The archive of Spark's classes is made by a rehearsal, and starts with it are starts like any other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tideglass.core.errors import TideglassError
from tideglass.spark.session import class_archive
from tideglass.spark.session.class_archive import archive_options, write_archive

#: A process of its own whose archive lies elsewhere than that of this environment.
ELSEWHERE = """
import sys
from pathlib import Path
from tideglass.spark.session import class_archive
class_archive.own_folder = lambda: Path(sys.argv[1])
"""
PREPARE = ELSEWHERE + "from tideglass.cli.main import main; main(['prepare'])"
RUN = (
    ELSEWHERE
    + """
from tideglass.testing import run
assert "SharedArchiveFile" in class_archive.archive_options()
print(run("SELECT v + 1 AS w INTO o FROM i", {"i": [{"v": 1}]}, engine="spark"))
"""
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(class_archive, "own_folder", lambda: tmp_path)
    return tmp_path


def test_a_jvm_is_told_of_an_archive_that_is_there(folder: Path) -> None:
    assert archive_options() == ""
    (folder / "classes.jsa").touch()
    assert archive_options() == f'"-XX:SharedArchiveFile={folder}/classes.jsa" -Xlog:cds=off'


def test_a_rehearsal_that_fails_leaves_everything_as_it_was(folder: Path) -> None:
    def rehearse() -> None:
        assert f'"-XX:ArchiveClassesAtExit={folder}/classes-' in archive_options()
        raise TideglassError("no Java")

    with pytest.raises(TideglassError, match="no Java"):
        write_archive(rehearse)
    assert archive_options() == ""


def test_what_is_prepared_is_used(java: None, tmp_path: Path) -> None:
    prepared = subprocess.run(
        [sys.executable, "-c", PREPARE, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert prepared.stdout.startswith(str(tmp_path / "classes.jsa"))
    assert [each.name for each in tmp_path.iterdir()] == ["classes.jsa"]
    ran = subprocess.run([sys.executable, "-c", RUN, str(tmp_path)], capture_output=True, text=True)
    assert "{'o': [{'w': 2}]}" in ran.stdout, ran.stderr
