"""What `tideglass status` shows of the steps and outputs of a job."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from support.observed_jobs import Scene, dead_job, running_job
from tideglass.cli.main import main
from tideglass.cli.status import status_lines
from tideglass.core.time import AFTER_ALL_TICKS, BEFORE_ALL_TICKS, TICKS_PER_MILLISECOND, format_ticks
from tideglass.job.report.status import HolderStatus, OutputStatus

NOW_MS = 1_790_000_000_000
NOW = format_ticks(NOW_MS * TICKS_PER_MILLISECOND)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    with pytest.raises(SystemExit) as ended:
        main(["status", *arguments])
    assert ended.value.code == 0
    return capsys.readouterr().out.splitlines()


def test_each_step_has_a_line_with_its_watermark_and_what_holds_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    scene = Scene(idle_partition=3)
    with running_job(tmp_path / "toll", scene, NOW_MS):
        lines = shown(capsys, str(tmp_path / "toll"))
    assert NOW == "2026-09-21T14:13:20.0000000Z"
    held = "watermark 2026-09-21T14:12:57Z, held by toll/3: watermark of the partition, by arrival time"
    assert [line for line in lines if line.startswith("  step ")] == [
        f"  step perMinute (tumbling window): {held}",
        f"  step counts: {held}",
        f"  step heavy (filter): {held}",
    ]


def test_each_output_shows_whether_it_is_alive_and_its_last_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    dead_job(tmp_path / "toll", now_ms=NOW_MS + 300_000)
    lines = shown(capsys, str(tmp_path / "toll"))
    assert [line for line in lines if line.startswith("  output ")] == [
        "  output counts: 120 rows in this run, 360 since the state began; "
        "alive, last row 2026-09-21T14:13:07Z",
        "  output heavy: 24,000 rows in this run, 33,000 since the state began; "
        "alive, last row 2026-09-21T14:13:18Z",
    ]


def test_all_operators_are_shown_with_their_rows_where_one_asks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    dead_job(tmp_path / "toll", now_ms=NOW_MS + 300_000)
    lines = shown(capsys, str(tmp_path / "toll"), "--steps")
    operators = [line for line in lines if line.startswith("  #")]
    assert len(operators) == 10
    assert operators[0].startswith(
        "  #0 toll input, scan: 240,000 rows in, 240,000 out, watermark 2026-09-21T14:13:11Z, held by toll/3:"
    )
    found = json.loads("\n".join(shown(capsys, str(tmp_path / "toll"), "--json")))
    assert len(found["steps"]) == len(operators)


def test_what_is_unknown_ended_or_dead_is_named_so():
    status = Scene().status(NOW_MS, 60)
    last = replace(status.steps[9], holders=())
    status = replace(
        status,
        steps=(
            replace(
                last,
                step="later",
                output_watermark_ticks=None,
                holders=(
                    HolderStatus("source", "waits for toll/3", "stage 1, key group 0", BEFORE_ALL_TICKS),
                ),
            ),
            replace(last, output_watermark_ticks=AFTER_ALL_TICKS),
        ),
        outputs=(
            OutputStatus("counts", "file"),
            OutputStatus("heavy", "topic", False, 5, 2, "the server is gone", 9, "2026-09-21T14:13:07.123Z"),
        ),
    )
    lines = status_lines(status)
    assert "  step later: watermark unknown, held by stage 1, key group 0: waits for toll/3" in lines
    assert "  step heavy: end of input" in lines
    assert any(line.endswith("rows in this run, 252 since the state began; not called yet") for line in lines)
    dead = "dead, 2 of 5 calls failed: the server is gone, last row 2026-09-21T14:13:07Z"
    assert any(line.endswith(dead) for line in lines)
