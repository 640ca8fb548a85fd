"""The page "your cloud job on recorded files": its command gives the rows it shows."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from support.local_run import rows_of_job
from tideglass.cli.main import main
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.project.input_option import input_options
from tideglass.project.project import load_project

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "recorded-files.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples" / "recorded", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command() -> list[str]:
    """The run of the page, as words behind `tideglass`."""
    (line,) = re.findall(r"^    tideglass (run .*)$", PAGE, re.MULTILINE)
    return shlex.split(line)


def rows() -> list[dict[str, object]]:
    """The rows the page shows."""
    shown = [json.loads(body) for body in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
    (found,) = [each for each in shown if isinstance(each, list)]
    return found


def test_the_command_of_the_page_gives_the_rows_it_shows(folder):
    words = command()
    given = input_options([words[words.index("--input") + 1]])
    job = plan_job(load_project(folder / "tolls"), RunOptions(inputs=given, once=True, key_groups=2))
    assert job.warnings == ()
    assert rows_of_job(job) == {"perMinute": rows()}


def test_without_a_named_arrival_the_same_events_are_late_and_that_is_said(folder):
    job = plan_job(load_project(folder / "tolls"), RunOptions(inputs={"entry": Path("recorded")}, once=True))
    assert "more than 5s before count as late" in job.warnings[0]
    assert rows_of_job(job)["perMinute"] != rows()


@pytest.mark.spark
def test_the_command_of_the_page_runs_on_spark(folder):
    with pytest.raises(SystemExit) as ended:
        main(command())
    assert ended.value.code == 0
    written = (folder / "tolls" / "LocalRunOutputs" / "perMinute").rglob("*.json")
    found = [json.loads(line) for file in written for line in file.read_text().splitlines()]
    assert sorted(found, key=lambda row: row["until"]) == rows()
