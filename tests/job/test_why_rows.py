"""Causes that lose rows or make them late, staged in a run of this process and found from its directory."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.job_in_process import Clock, Folder, RunInProcess
from support.staged import COUNTS, JOIN, causes, event, minute, of_a_minute, text_of, the
from tideglass.connect.files.output import FileOutput
from tideglass.core.errors import OutputError
from tideglass.engine.key_group import KeyGroupTask
from tideglass.job.diagnosis.diagnose import diagnose_directory
from tideglass.job.diagnosis.finding import Severity

LOOKUP = "SELECT e.device, r.name INTO named FROM events e TIMESTAMP BY t JOIN devices r ON e.device = r.id"
DEVICES = {"Type": "Reference data", "Format": "Json", "FilePath": "devices.ref"}


def test_8_where_that_matches_nothing(tmp_path: Path, clock: Clock) -> None:
    found = of_a_minute(Folder(tmp_path, COUNTS.replace("GROUP", "WHERE v > 90\nGROUP"), 5), clock)
    finding = the("WHERE_MATCHES_NOTHING", found)
    assert finding.output == "counts"
    assert "none of the 60 rows that reach WHERE of counts (line 3: WHERE v > 90) passes it" in finding.text
    trail = [each.rpartition(": ")[2] for each in finding.evidence]
    assert trail[:2] == ["60 in, 60 out", "60 in, 0 out"], "where the rows are lost"
    assert set(trail[2:]) == {"0 in, 0 out"}


def test_8_where_that_passes_rows_is_not_found(tmp_path: Path, clock: Clock) -> None:
    found = of_a_minute(Folder(tmp_path, COUNTS.replace("GROUP", "WHERE v > 0\nGROUP"), 5), clock)
    assert (causes(found), found.healthy) == ([], True)


def test_10_having_that_matches_nothing(tmp_path: Path, clock: Clock) -> None:
    found = of_a_minute(Folder(tmp_path, COUNTS + "HAVING COUNT(*) > 100", 5), clock)
    finding = the("HAVING_MATCHES_NOTHING", found)
    assert "reach HAVING of counts" in finding.text
    assert any("tumbling window" in line and not line.endswith(" 0 out") for line in finding.evidence)


def test_8_join_that_matches_nothing(tmp_path: Path, clock: Clock) -> None:
    found = of_a_minute(Folder(tmp_path, JOIN, 5), clock, other="nobody")
    finding = the("JOIN_MATCHES_NOTHING", found)
    assert finding.output == "pairs"
    assert "no two rows of both sides fit each other" in finding.text
    assert any("join" in line and "120 in, 0 out" in line for line in finding.evidence)


def test_8_join_with_a_side_that_has_no_rows(tmp_path: Path, clock: Clock) -> None:
    query = JOIN.replace("JOIN events r", "JOIN others r")
    project = Folder(tmp_path, query, late_seconds=5, inputs=("events", "others"))
    found = of_a_minute(project, clock)
    assert "NO_INPUT" in causes(found)


def with_devices(folder: Path, text: str | None, path: str = "devices.ref") -> Folder:
    folder.mkdir(exist_ok=True)
    if text is not None:
        (folder / "devices.ref").write_text(text)
    return Folder(folder, LOOKUP, 5, extra={"devices": {**DEVICES, "FilePath": path}})


def test_14_reference_data_that_matches_nothing(tmp_path: Path, clock: Clock) -> None:
    found = of_a_minute(with_devices(tmp_path, '[{"id": "z", "name": "Z"}]'), clock)
    finding = the("REFERENCE_MATCHES_NOTHING", found)
    assert "all 60 rows that reach the reference join" in finding.text
    assert any("reference data devices: 1 snapshot, the newest of 1 row" in line for line in finding.evidence)


def test_14_reference_data_without_rows(tmp_path: Path, clock: Clock) -> None:
    found = of_a_minute(with_devices(tmp_path, "[]"), clock)
    finding = found.findings[0]
    assert (finding.cause, finding.severity, finding.output) == ("REFERENCE_EMPTY", Severity.PROBLEM, "named")
    assert "the reference data devices is empty" in finding.text
    assert "devices.ref" in text_of(finding)
    assert "REFERENCE_MATCHES_NOTHING" not in causes(found)
    assert not found.healthy


def test_14_reference_data_that_is_not_there_stops_the_job(tmp_path: Path, clock: Clock) -> None:
    project = with_devices(tmp_path, None, path="ref/{date}/devices.json")
    with pytest.raises(Exception, match="REFERENCE_NOT_FOUND"):
        of_a_minute(project, clock)
    found = diagnose_directory(project.directory)
    finding = found.findings[0]
    assert (finding.cause, finding.severity) == ("REFERENCE_MISSING", Severity.PROBLEM)


def test_14_reference_data_that_holds_only_later_stops_the_job(tmp_path: Path, clock: Clock) -> None:
    project = with_devices(tmp_path, None, path="ref/{date}/devices.json")
    today = tmp_path / "ref" / clock.iso()[:10].replace("-", "/") / "devices.json"
    today.parent.mkdir(parents=True)
    today.write_text('[{"id": "a", "name": "A"}]')
    project.put(0, [event(clock, -2 * 24 * 3600)])
    with pytest.raises(Exception, match="NO_SNAPSHOT"), RunInProcess(project.job()) as run:
        run.batches()
    finding = diagnose_directory(project.directory).findings[0]
    assert (finding.cause, finding.severity) == ("REFERENCE_MISSING", Severity.PROBLEM)
    assert "provide a snapshot" in finding.remedy


def test_11_a_sink_that_fails(tmp_path: Path, clock: Clock) -> None:
    project = Folder(tmp_path, COUNTS, 5)
    (tmp_path / "LocalRunOutputs").write_text("a file where the folder was")
    with pytest.raises(OutputError):
        of_a_minute(project, clock)
    finding = diagnose_directory(project.directory).findings[0]
    assert (finding.cause, finding.output, finding.severity) == ("SINK_FAILS", "counts", Severity.PROBLEM)
    assert "cannot be written to" in finding.text


def test_13_one_key_group_is_skewed(tmp_path: Path, clock: Clock) -> None:
    query = (
        "SELECT device, v - LAG(v) OVER (PARTITION BY device LIMIT DURATION(minute, 1)) AS d INTO steps "
        "FROM events TIMESTAMP BY t"
    )
    project = Folder(tmp_path, query, 5)
    seconds = [n / 400 - 60 for n in range(24_000)]
    project.put(0, [event(clock, at, device="d" if n % 20 else f"e{n % 37}") for n, at in enumerate(seconds)])
    with RunInProcess(project.job(key_groups=8)) as run:
        run.batches()
        run.report()
        found = diagnose_directory(run.directory)
    finding = the("KEY_GROUP_SKEWED", found)
    assert re.search(r"key group \d of stage 1 has 9\d % of the rows", finding.text)


def slowed(clock: Clock, seconds: float, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, which takes so many seconds longer."""

    def call(*arguments: Any, **options: Any) -> Any:
        clock.go_on(seconds)
        return method(*arguments, **options)

    return call


def test_11_a_slow_sink(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileOutput, "publish", slowed(clock, 3, FileOutput.publish))
    project = Folder(tmp_path, COUNTS, 5)
    with RunInProcess(project.job()) as run:
        for _ in range(3):
            clock.go_on(57)
            project.put(0, minute(clock))
            run.batches()
        run.report()
        finding = the("SINK_SLOW", diagnose_directory(run.directory))
    assert (finding.output, finding.severity) == ("counts", Severity.WARNING)
    assert re.search(r"writing output counts \(file\) takes ([6-9]\d|100) % of a batch of 3", finding.text)


def test_12_a_job_that_falls_back(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyGroupTask, "run", slowed(clock, 30, KeyGroupTask.run))
    project = Folder(tmp_path, COUNTS, 5)
    project.put(0, minute(clock))
    batch_bytes = len((tmp_path / "events" / "0" / "0001.json").read_bytes()) // 2
    with RunInProcess(project.job(key_groups=2, batch_bytes=batch_bytes)) as run:
        run.batch()
        run.batch()  # what was there at the start is read
        for batch in range(5):  # all the while an event a second is sent
            project.put(0, [event(clock, second) for second in range(-60 if batch else -121, 0)])
            run.batch()
            run.report()
        found = diagnose_directory(run.directory)
    finding = the("FALLING_BACK", found)
    assert found.findings[0] is finding
    assert re.search(
        r"it is \d min late and loses \d\d s a minute, so in an hour it will be \d", finding.text
    )
    assert re.search(r"reads [\d.]+ events/s, \d\d% of what arrives", text_of(finding))
    assert re.search(r"there and not read \(messages or bytes\): [\d,]+ → [\d,]+ in", text_of(finding))


def test_rows_that_make_the_query_fail_are_counted(tmp_path: Path, clock: Clock) -> None:
    query = COUNTS.replace("COUNT(*)", "SUM(CAST(v AS bigint))")
    found = of_a_minute(Folder(tmp_path, query, 5, settings={"RowErrorPolicy": "Drop"}), clock, v="none")
    finding = the("ROWS_FAIL", found)
    assert finding.severity is Severity.WARNING
    assert finding.text.startswith("60 rows made the query fail and were left out")
