"""The command line as a user meets it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tideglass.cli.main import main
from tideglass.cli.new import make_project
from tideglass.cli.test import difference_lines, differences_table
from tideglass.connect.console import ConsoleOutput
from tideglass.connect.files.output import FileOutput
from tideglass.connect.kafka.output import TopicOutput
from tideglass.project.compare import Difference
from tideglass.project.project import load_project
from tideglass.project.test_cases import OutputVerdict, load_test_config


def command(*arguments: object) -> int:
    """Run the command in this process; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "tolls"
    make_project(folder)
    return folder


def test_the_version_is_printed(capsys):
    assert command("--version") == 0
    assert capsys.readouterr().out.startswith("tideglass 0.")


def test_a_new_project_is_read_without_a_problem_and_named_after_its_folder(project):
    loaded = load_project(project)
    assert (loaded.name, loaded.query.name, loaded.unsupported) == ("tolls", "tolls.asaql", ())
    assert loaded.inputs["sensor"].arrival == "enqueuedAt"
    config = load_test_config(loaded.test_config, loaded.bounds)
    assert config.script == project / "test" / ".." / "tolls.asaql"


def test_new_does_not_write_over_what_is_there(project, capsys):
    before = sorted(project.rglob("*"))
    assert command("new", project) == 1
    assert "is there already and not empty" in capsys.readouterr().err
    assert sorted(project.rglob("*")) == before


def test_check_shows_inputs_steps_and_outputs(project, capsys):
    assert command("check", project) == 0
    shown = capsys.readouterr().out
    for word in ("sensor", "Data/sensor.json", "'enqueuedAt'", "minutes", "perMinute", "alerts", "late 20s"):
        assert word in shown
    assert "tolls: no errors" in shown


def test_check_prints_every_error_with_its_place_and_no_traceback(project, capsys):
    (project / "tolls.asaql").write_text(
        "SELECT nofunction(a) INTO x FROM sensor\nSELECT b INTO y FROM senzor\n"
    )
    assert command("check", project) == 1
    told = capsys.readouterr().err
    assert "tolls.asaql:1:8: [" in told
    assert "tolls.asaql:2:22: [UNKNOWN_INPUT]" in told
    assert "^^^^^^" in told
    assert "Traceback" not in told


def test_check_names_what_the_settings_choose_for_steps_and_refuses_what_does_not_fit(project, capsys):
    config = json.loads((project / "JobConfig.json").read_text())

    def chosen(stamps: dict[str, str], panes: dict[str, list[int]]) -> int:
        more = {"OutputTimestamps": stamps, "EarlyPanes": panes}
        (project / "JobConfig.json").write_text(json.dumps(config | more))
        return command("check", project)

    (project / "tolls.asaql").write_text(
        "SELECT COUNT(*) AS n, System.Pane() AS pane INTO perMinute FROM sensor TIMESTAMP BY readAt\n"
        "GROUP BY TumblingWindow(minute, 1)\n"
    )
    assert chosen({"perMinute": "first element"}, {"perMinute": [33, 66]}) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "time of perMinute: first element, early panes of perMinute: 33 %, 66 %" in shown
    assert chosen({"perHour": "first element"}, {}) == 1
    assert "output timestamp of 'perHour': no step or output of the query has this" in capsys.readouterr().err
    assert chosen({}, {"perHour": [33]}) == 1
    assert "early panes of 'perHour': no step or output of the query has this name" in capsys.readouterr().err


def test_check_warns_of_an_extreme_of_what_looks_like_a_time(project, capsys):
    (project / "tolls.asaql").write_text(
        "SELECT MAX(readAt) AS last INTO perMinute FROM sensor TIMESTAMP BY readAt\n"
        "GROUP BY TumblingWindow(minute, 1)\n"
    )
    assert command("check", project) == 0
    shown = capsys.readouterr().out
    assert "tolls.asaql:1:8: warning [TIME_AS_TEXT] 'readAt' looks like a time" in shown
    assert "hint: write MAX(CAST(readAt AS datetime))" in shown


def test_check_counts_warnings_of_project_files_and_of_outputs(project, capsys):
    config = project / "JobConfig.json"
    config.write_text(config.read_text().replace("EventsLateArrivalMaxDelay", "EventsLateArivalMaxDelay"))
    (project / "Outputs").mkdir()
    (project / "Outputs" / "alert.json").write_text('{"Name": "alert", "ScriptType": "Output"}')
    manifest = project / "asaproj.json"
    listed = json.loads(manifest.read_text())
    listed["configurations"].append({"filePath": "Outputs\\alert.json", "subType": "Output"})
    manifest.write_text(json.dumps(listed))
    assert command("check", project) == 0
    shown = capsys.readouterr().out
    assert 'warning: JobConfig.json: the key "EventsLateArivalMaxDelayInSeconds" is not known' in shown
    assert "[UNKNOWN_OUTPUT] the job has no output 'alerts'" in shown
    assert "hint: did you mean 'alert'?" in shown
    assert "tolls: no errors, 3 warnings" in shown


FOREIGN = {"score": "CSharpFunction", "guess": "MLFunction"}


@pytest.mark.parametrize(
    "name", ["check", "explain", "simulate", "test", pytest.param("run", marks=pytest.mark.spark)]
)
def test_functions_that_are_not_supported_are_noted_beside_errors_of_the_query(project, capfd, name):
    manifest = project / "asaproj.json"
    listed = json.loads(manifest.read_text())
    (project / "Functions").mkdir()
    for function, kind in FOREIGN.items():
        (project / "Functions" / f"{function}.json").write_text(
            json.dumps({"Name": function, "ScriptType": kind})
        )
        listed["configurations"].append({"filePath": f"Functions\\{function}.json", "subType": kind})
    manifest.write_text(json.dumps(listed))
    (project / "tolls.asaql").write_text("SELECT UDF.score(a), UDF.guess(a) INTO o FROM sensor")
    assert command(name, project) == 1
    shown = " ".join("".join(capfd.readouterr()).split())
    assert shown.count("UDF.score: C# functions are understood, not yet supported") == 1
    assert (
        shown.count("UDF.guess: functions of Azure Machine Learning are understood, not yet supported") == 1
    )
    assert "there is no function UDF.score" in shown


def test_check_reports_broken_project_files_and_debug_shows_where(project, capsys):
    (project / "JobConfig.json").write_text("{")
    assert command("check", project) == 1
    assert "JobConfig.json: line 1, column 2: not JSON" in capsys.readouterr().err
    with pytest.raises(Exception, match="not JSON"):
        main(["check", str(project), "--debug"])


def test_simulate_shows_the_worked_example(capsys):
    assert command("simulate", "--example") == 0
    shown = capsys.readouterr().out
    assert "8 as is, 3 adjusted, 1 dropped" in shown


def test_simulate_takes_other_policies(capsys):
    assert command("simulate", "--example", "--early", "none") == 0
    assert "8 as is, 4 adjusted, 0 dropped" in capsys.readouterr().out
    assert command("simulate", "--example", "--over") == 0
    assert "10 as is, 1 adjusted, 1 dropped" in capsys.readouterr().out
    assert command("simulate", "--example", "--late", "soon") == 1
    assert "'soon' is no duration" in capsys.readouterr().err


def test_simulate_takes_a_watermark_policy_of_the_source(capsys):
    policy = ("--watermark", "tracking subscription at percentile 50")
    assert command("simulate", "--example", *policy, "--late", "none") == 0
    assert "tracking subscription, watermark at percentile 50" in capsys.readouterr().out
    assert command("simulate", "--example", "--watermark", "ingress time") == 0
    assert "12 as is, 0 adjusted" in capsys.readouterr().out
    for wrong, message in (
        (("--watermark", "at percentile 0"), "--watermark: the percentage is 0"),
        (("--watermark", "static set of time-ordered logs"), "[UNORDERED_LOG]"),
        (("--over", *policy), "not yet supported"),
    ):
        assert command("simulate", "--example", *wrong) == 1
        assert message in capsys.readouterr().err


def test_simulate_shows_the_events_of_a_project_as_a_run_would_place_them(project, capsys):
    assert command("simulate", project) == 0
    shown = capsys.readouterr().out
    assert "input sensor, partition 0: the first 7 events" in shown
    assert "5 as is, 1 adjusted, 1 dropped" in shown
    assert command("simulate", project, "--policy", "drop", "--limit", "6") == 0
    assert "5 as is, 0 adjusted, 1 dropped" in capsys.readouterr().out


def test_simulate_keeps_a_watermark_for_each_key_when_the_query_says_over(project, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    query = "SELECT deviceId, COUNT(*) AS n INTO o FROM sensor TIMESTAMP BY readAt OVER deviceId "
    (project / "tolls.asaql").write_text(query + "GROUP BY deviceId, TumblingWindow(minute, 1)")
    assert command("simulate", project) == 0
    shown = capsys.readouterr().out
    assert "W(key)" in shown
    assert "kitchen" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--of", "nobody"], "the query reads no input 'nobody'; it reads sensor"),
        (["--partition", "7"], "has no partition '7'; it has 0"),
        (["--input", "sensor"], "--input 'sensor' must be NAME=PATH"),
        (["--example"], "name one thing to simulate"),
    ],
)
def test_simulate_says_what_it_cannot_find(project, capsys, arguments, message):
    assert command("simulate", project, *arguments) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_simulate_draws(tmp_path, suffix):
    picture = tmp_path / f"picture{suffix}"
    assert command("simulate", "--example", "--out", picture) == 0
    assert picture.stat().st_size > 5000


def test_simulate_refuses_a_picture_it_cannot_draw(tmp_path, capsys):
    assert command("simulate", "--example", "--out", tmp_path / "picture.txt") == 1
    assert ".svg or .png" in capsys.readouterr().err


def test_a_new_project_passes_its_own_test(project, capsys):
    assert command("test", project) == 0
    assert "1 of 1 passed" in capsys.readouterr().out
    written = json.loads((project / "test" / "testResultSummary.json").read_text())
    assert (written["Total"], written["Passed"], written["Failed"]) == (1, 1, 0)
    assert {each["OutputAlias"] for each in written["Results"][0]["OutputMatched"]} == {"perMinute", "alerts"}


def test_a_wrong_row_is_shown_beside_the_expected_one_and_the_exit_code_is_2(project, capsys):
    expected = project / "test" / "expected" / "alerts.json"
    expected.write_text(expected.read_text().replace("40.0", "41.0"))
    assert command("test", project, "--output", project / "results") == 2
    shown = capsys.readouterr().out
    assert "alerts: differs" in shown
    assert "41.0" in shown
    assert "≠" in shown
    assert "0 of 1 passed" in shown
    assert json.loads((project / "results" / "testResultSummary.json").read_text())["Failed"] == 1


def test_a_query_that_cannot_run_ends_the_test_with_1(project, capsys):
    (project / "tolls.asaql").write_text("SELECT FROM sensor")
    assert command("test", project) == 1
    assert "tolls.asaql:1:" in capsys.readouterr().err


def test_a_case_that_does_not_exist_is_an_error(project, capsys):
    assert command("test", project, "--case", "nobody") == 1
    assert "the file has 'late, early and out of order'" in capsys.readouterr().err


def test_differences_stand_side_by_side_and_fit_the_terminal():
    from rich.console import Console

    long = {"k": "a" * 200, "n": 1}
    table = differences_table(
        OutputVerdict(
            "out", "OutputNotEqual", (), (), (Difference(long, long | {"n": 2}), Difference(long, None))
        )
    )
    console = Console(width=60, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table)
    assert all(len(line) <= 60 for line in console.export_text().splitlines())


def test_a_field_that_differs_is_marked_and_the_others_are_not():
    lines = difference_lines(Difference({"k": "a", "n": 1}, {"k": "a", "n": 2, "m": 3}))
    assert lines == [
        ("k", '"a"', "", '"a"'),
        ("n", "1", "≠", "2"),
        ("m", "(no such field)", "≠", "3"),
    ]


def test_the_command_answers_at_once():
    """Far from loading Arrow, DuckDB or Spark; in CPU seconds, which other work does not stretch."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    subprocess.run([sys.executable, "-m", "tideglass.cli.main", "--version"], check=True, capture_output=True)
    assert used() - before < 0.3


def test_the_end_of_a_live_run_names_the_topic_and_not_the_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("OUT_TOPIC", "alerts-eu")
    assert TopicOutput("o", "b:1", "${OUT_TOPIC}").describe() == "the topic alerts-eu"
    assert FileOutput("o", tmp_path).describe() == str(tmp_path)
    assert ConsoleOutput("o").describe() == "the console"
