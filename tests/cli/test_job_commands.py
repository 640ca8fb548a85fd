"""The commands about a running job: what they tell, and that they load nothing to tell it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tideglass.cli.main import main
from tideglass.cli.new import make_project
from tideglass.cli.run import progress, progress_table
from tideglass.cli.start import directory_of
from tideglass.core.positions import Piece
from tideglass.job.directory import JobDirectory
from tideglass.job.report.catch_up import CatchUp
from tideglass.job.report.metrics import Metrics
from tideglass.job.report.run_journal import Ended, RunEnd, RunStart, add
from tideglass.job.report.status import (
    CatchUpStatus,
    InputStatus,
    JobState,
    Status,
    read_status,
    write_status,
)

STARTED = RunStart(
    run=3,
    started="2026-01-01T00:00:00Z",
    generation=1,
    resumed=True,
    mode="beginning",
    cause="resumed from the checkpoint; run 2 was killed",
    began_from="batch 17",
    pid=7,
    host="here",
    changes=("the setting late_arrival was 5s and is 6s",),
)
STATUS = Status(
    job="tolls",
    run=3,
    state=JobState.RUNNING,
    since=STARTED.started,
    updated="2026-01-01T00:01:00Z",
    pid=7,
    host="here",
    generation=1,
    mode="beginning",
    cause=STARTED.cause,
    batches=4,
    events=123_000,
    inputs=(InputStatus("sensor", "0", 400_000, "2026-01-01T00:00:50.0000000Z", 10.0),),
    watermark_delay_seconds=10.0,
    counters={"InputEvents": 400_000, "LateInputEvents": 12, "EarlyInputEvents": 0},
    rows={"alerts": 17},
    catching_up=CatchUpStatus(STARTED.cause, "batch 17", 123_000, 492_000, 61_500.0, 0.25, 2.0, 6.0),
    error="the field v is no number",
)

#: Holds the lock of a job until it is asked to stop, as a run does.
RUNS = """
import sys, time
from pathlib import Path
from tideglass.job.directory import JobDirectory
from tideglass.job.report.run_journal import Ended, RunEnd, add
from tideglass.job.lock import RunLock
directory = JobDirectory(Path(sys.argv[1]))
with RunLock(directory):
    print("held", flush=True)
    while not directory.stop.exists() or sys.argv[2] == "deaf":
        time.sleep(0.02)
    add(directory.journal, RunEnd(3, "2026-01-01T00:02:00Z", Ended.STOPPED, 5, 200, {"alerts": 18}))
"""


def command(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_project(tmp_path / "tolls")
    return tmp_path / "tolls"


@pytest.fixture
def directory(project: Path) -> JobDirectory:
    found = JobDirectory.of_project(project)
    found.path.mkdir()
    add(found.journal, STARTED)
    write_status(found, STATUS)
    return found


@contextmanager
def under_way(directory: JobDirectory, hears: bool = True) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", RUNS, str(directory.path), "hears" if hears else "deaf"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_job_that_never_ran_says_so(project, capsys):
    for name in ("status", "runs", "stop"):
        assert command(name, project) == 0
        assert "no job has run in" in capsys.readouterr().out
    assert command("restart", project) == 1
    assert "begin with `tideglass start`" in capsys.readouterr().err


def test_the_status_shows_state_inputs_counters_outputs_and_how_long_catching_up_takes(
    project, directory, capsys
):
    with under_way(directory):
        assert command("status", project) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown == [
        "tolls: Running, run 3 since 2026-01-01T00:00:00Z (process 7 on here)",
        "  resumed from the checkpoint; run 2 was killed",
        "  state of generation 1, started at the beginning",
        "  4 batches, 123,000 events in this run",
        "  catching up from batch 17: 123,000 of about 492,000 events (25%), 61,500/s, about 6 s left",
        "  input sensor/0: 400,000 events, watermark 2026-01-01T00:00:50Z, delay 10 s",
        "  watermark delay 10 s",
        "  since the state began: InputEvents 400,000, LateInputEvents 12",
        "  output alerts: 17 rows in this run",
        "  last error: the field v is no number",
    ]


def test_a_run_that_is_gone_without_a_word_has_failed(project, directory, capsys):
    assert command("status", project, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["run"], told["catching_up"]) == ("Failed", 3, None)
    assert "process 7 on here ended without a word after 2026-01-01T00:01:00Z" in told["error"]
    assert command("runs", project) == 0
    assert "run 3: killed, 2026-01-01T00:00:00Z" in capsys.readouterr().out


def test_a_run_that_said_how_it_ended_is_believed(directory):
    for state in (JobState.STOPPED, JobState.FAILED):
        write_status(directory, replace(STATUS, state=state))
        assert read_status(directory) == replace(STATUS, state=state)


def test_stop_waits_until_the_run_has_ended_and_tells_what_it_did(project, directory, capsys):
    with under_way(directory) as process:
        assert command("stop", project) == 0
        shown = capsys.readouterr().out
        assert f"asked to stop after its batch: process {process.pid} on" in shown
        assert "run 3 stopped: 5 batches, 200 events, 18 rows" in shown
        assert process.wait(timeout=10) == 0


def test_a_stop_that_takes_too_long_says_what_to_do_and_the_status_that_it_stops(project, directory, capsys):
    with under_way(directory, hears=False):
        assert command("stop", project, "--wait", "0.2") == 1
        assert "has not ended within 0.2 s" in capsys.readouterr().err
        assert command("status", project) == 0
        assert "tolls: Stopping" in capsys.readouterr().out


def test_start_refuses_while_a_run_is_under_way(project, directory, capsys):
    with under_way(directory) as process:
        assert command("start", project) == 1
        assert f"the job runs already: process {process.pid} on" in capsys.readouterr().err
    assert not directory.log.exists()


def test_what_keeps_a_job_from_starting_is_shown_as_run_shows_it(project, capsys):
    (project / "tolls.asaql").write_text("SELECT nofunction(a) INTO x FROM sensor")
    assert command("start", project, "--once") == 1
    told = capsys.readouterr().err
    assert "tolls.asaql:1:8: [" in told
    assert "Traceback" not in told


def test_a_run_that_is_asked_to_take_a_server_of_spark_connect_is_refused_before_spark_starts(
    project, capsys, monkeypatch
):
    before = set(project.rglob("*"))
    for option in ("--remote", "--master"):
        assert command("run", project, "--once", option, "sc://127.0.0.1:15002") == 1
        assert "a project cannot run through Spark Connect" in capsys.readouterr().err
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:15002")
    assert command("run", project, "--once") == 1
    assert "hint: unset SPARK_REMOTE" in capsys.readouterr().err
    assert set(project.rglob("*")) == before


def test_start_reads_the_arguments_as_run_does(project, tmp_path, capsys):
    found = directory_of(["--once", str(project), "--run-dir", str(tmp_path / "other")])
    assert found.path.local == tmp_path / "other"
    assert command("start", project, "--cores", "none") == 2
    assert "--cores" in capsys.readouterr().err


def test_runs_tells_why_and_from_where_each_began_what_had_changed_and_how_it_ended(
    project, directory, capsys
):
    end = RunEnd(3, "2026-01-01T00:02:00Z", Ended.FAILED, 5, 200, {"alerts": 18}, "no\nmore", 65.2)
    add(directory.journal, end)
    assert command("runs", project) == 0
    assert capsys.readouterr().out.splitlines() == [
        "run 3: failed, 2026-01-01T00:00:00Z to 2026-01-01T00:02:00Z",
        "  resumed from the checkpoint; run 2 was killed, from batch 17; state of generation 1",
        "  changed: the setting late_arrival was 5s and is 6s",
        "  5 batches, 200 events, 18 rows to alerts",
        "  caught up after 65 s",
        "  error: no",
    ]
    assert command("runs", project, "--json") == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["start"]["run"], told["end"]["how"]) == (3, "failed")


@pytest.mark.parametrize("name", ["status", "runs", "stop"])
def test_looking_at_a_job_loads_no_engine(project, directory, name):
    code = """if True:
        import sys
        from tideglass.cli.main import main
        try:
            main(sys.argv[1:])
        finally:
            print(*sys.modules, file=sys.stderr)
    """
    done = subprocess.run(
        [sys.executable, "-c", code, name, str(project)], capture_output=True, text=True, check=True
    )
    loaded = {module.split(".")[0] for module in done.stderr.split()}
    assert not loaded & {"pyspark", "duckdb", "pyarrow", "numpy", "pandas", "pydantic", "lark", "matplotlib"}


def test_a_bar_shows_how_far_a_run_has_caught_up_until_it_has():
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    metrics = Metrics()
    metrics.catch_up = CatchUp(
        "first start", "the beginning of the inputs", {}, {"sensor": 1000}, began_seconds=0.0
    )
    metrics.catch_up.advance({"sensor": {"0": [Piece("a.json", 0, 250, 0)]}}, {"sensor": 50}, now_seconds=2.0)
    console.print(progress(metrics))
    shown = console.export_text()
    assert "\ncatching up from the beginning of the inputs: 50 of about 200 events (25%), 25/s" in shown
    assert "━" in shown
    metrics.catch_up.advance(
        {"sensor": {"0": [Piece("a.json", 0, 1000, 0)]}}, {"sensor": 200}, now_seconds=8.0
    )
    console.print(progress(metrics))
    assert "catching up" not in console.export_text()
    assert type(progress(metrics)) is type(progress_table(metrics))
