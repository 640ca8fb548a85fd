"""Every cause of missing output, staged in a run of this process and found from its directory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.job_in_process import Clock, Folder, RunInProcess
from support.staged import COUNTS, causes, event, minute, text_of, the
from support.times import ticks_of
from tideglass.core.time import TICKS_PER_SECOND
from tideglass.ingress.decisions import Counters
from tideglass.ingress.reports import HeldBy
from tideglass.job.diagnosis.diagnose import diagnose_directory
from tideglass.job.diagnosis.finding import Diagnosis, Severity
from tideglass.job.diagnosis.input_causes import CAUSE_OF, KEPT
from tideglass.job.diagnosis.watermark_causes import RULES
from tideglass.job.start.decision import StartMode

# ---------------------------------------------------------------- the input


def test_1_no_input_at_all(tmp_path: Path, clock: Clock) -> None:
    project = Folder(tmp_path, COUNTS, late_seconds=5)
    with RunInProcess(project.job()) as run:
        run.batches()
        run.report()
        assert diagnose_directory(run.directory).healthy, "a run that has just begun may wait"
        clock.go_on(120)
        run.report()
        found = diagnose_directory(run.directory)
    finding = found.findings[0]
    assert (finding.cause, finding.severity, found.healthy) == ("NO_INPUT", Severity.PROBLEM, False)
    assert "input events has sent no event since the run began 2 min ago" in finding.text
    assert str(tmp_path / "events") in text_of(finding)


@pytest.mark.parametrize(
    ("cause", "settings", "made"),
    [
        ("ALL_EARLY", {}, {"t": 600, "arrived": 0}),
        ("ALL_LATE", {"policy": "Drop"}, {"t": -600, "arrived": 0}),
        ("NO_TIMESTAMP", {}, {"t": None}),
        ("NULL_KEY", {}, {"device": None}),
    ],
)
def test_6_all_events_are_dropped(
    cause: str, settings: dict[str, Any], made: dict[str, Any], tmp_path: Path, clock: Clock
) -> None:
    query = COUNTS.replace("BY t", "BY t OVER device") if cause == "NULL_KEY" else COUNTS
    project = Folder(tmp_path, query, late_seconds=60, **settings)
    fields = {name: clock.iso(value) if isinstance(value, int) else value for name, value in made.items()}
    project.put(0, [event(clock, 0) | fields for _ in range(7)])
    with RunInProcess(project.job()) as run:
        run.batches()
        run.report()
        found = diagnose_directory(run.directory)
    finding = the(cause, found)
    assert found.findings[0] is finding
    assert finding.severity is Severity.PROBLEM
    assert "all of the 7 events of input events were dropped" in finding.text
    assert finding.remedy


def test_6_most_events_before_a_watermark_at_a_percentile_are_dropped_as_late(
    tmp_path: Path, clock: Clock
) -> None:
    settings = {"Watermarks": "tracking subscription at percentile 20"}
    project = Folder(tmp_path, COUNTS, late_seconds=600, policy="Drop", settings=settings)
    project.put(
        0, [event(clock, n / 2) for n in range(20)] + [event(clock, 1, arrived=11) for _ in range(30)]
    )
    with RunInProcess(project.job()) as run:
        run.batches()
        run.report()
        found = diagnose_directory(run.directory)
    finding = the("ALL_LATE", found)
    assert (
        "60 % of the 50 events of input events were dropped, since they are earlier than the watermark, "
        in (finding.text)
    )
    assert "raise the percentage in Watermarks" in finding.remedy


def test_6_most_events_out_of_order_are_dropped(tmp_path: Path, clock: Clock) -> None:
    project = Folder(tmp_path, COUNTS, late_seconds=600, policy="Drop")
    project.put(0, [event(clock, 0), *(event(clock, -100 - n, arrived=0.1) for n in range(9))])
    with RunInProcess(project.job()) as run:
        run.batches()
        run.report()
        finding = the("ALL_OUT_OF_ORDER", diagnose_directory(run.directory))
    assert finding.severity is Severity.WARNING
    assert "90 % of the 10 events" in finding.text


def test_7_deserialization_errors(tmp_path: Path, clock: Clock) -> None:
    project = Folder(tmp_path, COUNTS, late_seconds=5)
    project.text(0, '{"device": "a", \n' * 12)
    with RunInProcess(project.job()) as run:
        run.batches()
        run.report()
        found = diagnose_directory(run.directory)
    finding = the("DESERIALIZATION_ERRORS", found)
    assert found.findings[0] is finding
    assert finding.severity is Severity.PROBLEM
    assert "all of the" in finding.text
    assert "of input events cannot be read" in finding.text


# ---------------------------------------------------------------- catching up


def test_15_a_job_that_catches_up(tmp_path: Path, clock: Clock) -> None:
    query = COUNTS.replace("second, 10", "hour, 10")
    project = Folder(tmp_path, query, 5)
    for _ in range(4):
        clock.go_on(60)
        project.put(0, minute(clock))
    with RunInProcess(project.job(batch_bytes=6000)) as run:
        run.batch()
        run.report()
        found = diagnose_directory(run.directory)
    finding = the("CATCHING_UP", found)
    assert (finding.severity, found.healthy) == (Severity.WAITING, True)
    assert re.search(
        r"output counts waits: the job is catching up from .*, \d+% is read, about", finding.text
    )


def test_15_a_job_that_starts_at_a_time_emits_nothing_before_it(tmp_path: Path, clock: Clock) -> None:
    project = Folder(tmp_path, COUNTS, 5)
    project.put(0, minute(clock))
    at_ticks = ticks_of(clock.iso(600)) // TICKS_PER_SECOND * TICKS_PER_SECOND
    job = project.job(start_mode=StartMode.TIME, start_at_ticks=at_ticks, accept_partial=True)
    with RunInProcess(job) as run:
        run.batches()
        run.report()
        found = diagnose_directory(run.directory)
    finding = the("OUTPUT_STARTS_LATER", found)
    assert finding.output == "counts"
    assert finding.severity is Severity.WAITING


def test_15_a_job_that_reads_again_emits_nothing_until_it_is_done(tmp_path: Path, clock: Clock) -> None:
    project = Folder(tmp_path, COUNTS, 5)
    for _ in range(4):
        clock.go_on(60)
        project.put(0, minute(clock))
    with RunInProcess(project.job(batch_bytes=6000)) as run:
        run.batches()
        run.reporter.request_stop()
    again = Folder(tmp_path, COUNTS.replace("second, 10", "minute, 30"), 5)
    with RunInProcess(again.job(batch_bytes=3000)) as run:
        run.batch()
        run.report()
        found = diagnose_directory(run.directory)
    finding = the("CATCHING_UP", found)
    assert (finding.severity, found.healthy) == (Severity.WAITING, True)
    assert "rows an earlier run has emitted are not emitted again" in finding.text


# ---------------------------------------------------------------- the run


def test_17_nothing_has_run(tmp_path: Path) -> None:
    found = diagnose_directory(Folder(tmp_path, COUNTS).directory)
    assert causes(found) == ["NEVER_RAN"]
    assert not found.healthy


def test_17_stopped(tmp_path: Path, clock: Clock) -> None:
    project = Folder(tmp_path, COUNTS, late_seconds=5)
    project.put(0, minute(clock))
    with RunInProcess(project.job()) as run:
        run.batches()
        run.reporter.request_stop()
    found = diagnose_directory(run.directory)
    assert (causes(found), found.healthy, found.state) == (["RUN_STOPPED"], False, "Stopped")
    assert "run 1 was stopped at" in found.findings[0].text


def test_17_failed_names_the_error(tmp_path: Path, clock: Clock) -> None:
    project = Folder(tmp_path, COUNTS.replace("COUNT(*)", "SUM(CAST(v AS bigint))"), late_seconds=5)
    project.put(0, minute(clock, v="no number"))
    with pytest.raises(Exception, match="CAST"), RunInProcess(project.job()) as run:
        run.batches()
    found = diagnose_directory(project.directory)
    finding = found.findings[0]
    assert (finding.cause, finding.severity) == ("RUN_FAILED", Severity.PROBLEM)
    assert "run 1 failed at" in finding.text
    assert "CAST" in finding.text


KILLED = """
import os, signal, sys
from pathlib import Path
import pytest
from support.job_in_process import Clock, Folder, RunInProcess
clock = Clock(pytest.MonkeyPatch())
project = Folder(Path(sys.argv[1]), sys.argv[2], late_seconds=5)
project.put(0, [{"device": "a", "t": clock.iso(n - 60), "arrived": clock.iso(n - 60)} for n in range(60)])
with RunInProcess(project.job()) as run:
    run.batches()
    run.report()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_17_killed(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), COUNTS], env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.returncode == -signal.SIGKILL
    found = diagnose_directory(Folder(tmp_path, COUNTS, late_seconds=5).directory)
    finding = found.findings[0]
    assert (finding.cause, finding.severity, found.state) == ("RUN_KILLED", Severity.PROBLEM, "Failed")
    assert "ended without a word" in finding.text
    assert "with its memory full" not in finding.text


def test_a_run_that_does_not_report_hangs(tmp_path: Path, clock: Clock) -> None:
    project = Folder(tmp_path, COUNTS, 5)
    project.put(0, minute(clock))
    with RunInProcess(project.job()) as run:
        run.batches()
        run.report()
        found = diagnose_directory(run.directory, now_seconds=time.time() + 90)
    assert (found.findings[0].cause, found.healthy) == ("RUN_HANGS", False)
    assert "has not reported for" in found.findings[0].text


def test_a_run_that_starts_is_waited_for_a_while(tmp_path: Path, clock: Clock) -> None:
    with RunInProcess(Folder(tmp_path, COUNTS, 5).job()) as run:
        run.report()
        first = diagnose_directory(run.directory)
        clock.go_on(180)
        run.report()
        later = diagnose_directory(run.directory)
    assert (causes(first), first.healthy) == (["STARTING"], True)
    assert (causes(later), later.healthy) == (["STARTING"], False)


def test_a_batch_that_is_stuck(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Folder(tmp_path, COUNTS, 5)
    project.put(0, minute(clock))
    found: list[Diagnosis] = []
    with RunInProcess(project.job()) as run:
        run.batches()

        def hang(*_: Any) -> Any:
            clock.go_on(600)
            run.report()
            found.append(diagnose_directory(run.directory))
            return []

        project.put(0, minute(clock))
        monkeypatch.setattr(run.tasks[1], "run", hang)
        run.batches()
    assert "BATCH_STUCK" in causes(found[0])
    assert "a batch has been under way for 10 min" in the("BATCH_STUCK", found[0]).text


# ---------------------------------------------------------------- healthy, and the tables


def test_a_healthy_run_has_nothing_to_find(tmp_path: Path, clock: Clock) -> None:
    project = Folder(tmp_path, COUNTS, late_seconds=5)
    project.put(0, minute(clock))
    with RunInProcess(project.job()) as run:
        run.batches()
        run.report()
        found = diagnose_directory(run.directory)
    assert (causes(found), found.healthy) == ([], True)
    assert [each.output for each in found.next_rows] == ["counts"]


def test_every_decision_and_every_rule_has_its_words() -> None:
    names = set(Counters.__dataclass_fields__) - {"arrivals_raised", "beyond_percentile"}
    assert set(KEPT) | set(CAUSE_OF) == names
    assert set(RULES) == {each.value for each in HeldBy}


def test_the_page_of_causes_lists_every_cause_and_no_other() -> None:
    root = Path(__file__).parents[2]
    source = "".join(each.read_text() for each in (root / "tideglass/job/diagnosis").glob("*.py"))
    made = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)*)",?\s', source)) & set(re.findall(r"[A-Z_]{6,}", source))
    table = (root / "docs/why.md").read_text().partition("## The causes")[2].partition("\n## ")[0]
    first_cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    listed = {name for cell in first_cells for name in re.findall(r"`([A-Z_]+)`", cell)}
    words = {"PROBLEM", "WARNING", "WAITING", "WHERE", "HAVING", "NO_SNAPSHOT", "REFERENCE_NOT_FOUND"}
    assert made - words == listed


def test_every_situation_names_a_test_that_stages_it() -> None:
    root = Path(__file__).parents[2]
    table = (root / "docs/why.md").read_text().partition("## What is staged")[2]
    rows = re.findall(r"^\| (\d+) \| .* \| `(test_\w+)` in `(tests/[\w/]+\.py)` \|$", table, re.M)
    assert {int(number) for number, _, _ in rows} == set(range(1, 18))
    for number, name, file in rows:
        assert f"\ndef {name}(" in (root / file).read_text(), name
        assert re.search(rf"_{number}_", name), name
