"""No false alarm: nothing is found in healthy runs of many kinds, finished and under way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.cases import load
from support.cookbook import FOLDER
from support.job_in_process import Clock, Folder, RunInProcess, folder_of_case
from support.staged import COUNTS, JOIN, causes, event, minute
from tideglass.core.time import TICKS_PER_SECOND, parse_ticks
from tideglass.job.diagnosis.diagnose import diagnose_directory

pytestmark = pytest.mark.long

#: One recipe in three, of every domain; not that which refuses half of its events on purpose, and not those
#: with functions or snapshots of reference data, which `folder_of_case` does not write.
RECIPES = [
    path
    for path in [path for path in sorted(FOLDER.rglob("*.case")) if path.stem != "declared-schema"][::3]
    if not re.search(r"(?m)^--- (function|reference .* from) ", path.read_text())
]
ROWS = "SELECT device, v INTO high FROM events TIMESTAMP BY t WHERE v > 0"
LAG = "SELECT v - LAG(v) OVER (LIMIT DURATION(minute, 1)) AS d INTO d FROM events TIMESTAMP BY t"
TIMES = [
    "TumblingWindow(second, 10)",
    "HoppingWindow(second, 20, 10)",
    "SlidingWindow(second, 10)",
    "SessionWindow(second, 5, 30)",
    "TumblingWindow(minute, 1)",
]
OVER = "BY t OVER device, PartitionId PARTITION BY PartitionId"
#: Queries of jobs that go on, each with whether a time is known at which its next row is due.
LIVE = {
    # Of a session that goes on, the next event decides.
    **{time: (COUNTS.replace("TumblingWindow(second, 10)", time), "Session" not in time) for time in TIMES},
    "left join": (JOIN.replace("JOIN", "LEFT JOIN"), True),
    "join": (JOIN.replace("r.other", "r.device"), False),
    "filter": (ROWS, True),
    "lag": (LAG, True),
    "two outputs": (f"{COUNTS}\n{ROWS}", True),
    "substreams": (COUNTS.replace("BY t", OVER).replace("BY device", "BY device, PartitionId"), True),
    "arrival time": (COUNTS.replace("TIMESTAMP BY t ", ""), True),
}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_finished_run_of_a_recipe_is_healthy(path: Path, tmp_path: Path) -> None:
    folder = folder_of_case(tmp_path, load(path))
    assert folder is not None
    with RunInProcess(folder.job(once=True)) as run:
        run.batches()
    found = diagnose_directory(folder.directory)
    assert causes(found) == []
    assert found.healthy
    assert found.next_rows
    assert all("none will follow" in each.text for each in found.next_rows)


@pytest.mark.parametrize("kind", LIVE)
def test_a_job_under_way_is_healthy_and_names_its_next_row(kind: str, tmp_path: Path, clock: Clock) -> None:
    query, has_time = LIVE[kind]
    project = Folder(tmp_path, query, late_seconds=5, out_of_order_seconds=1)
    with RunInProcess(project.job()) as run:
        for _ in range(3):
            clock.go_on(60)
            project.put(0, minute(clock))
            project.put(1, [event(clock, at / 2 - 60, device="b") for at in range(120)])
            run.batches()
        run.report()
        found = diagnose_directory(run.directory)
        now_ticks = parse_ticks(clock.iso()) or 0
    assert causes(found) == []
    assert found.healthy
    timed = [each for each in found.next_rows if each.due_ticks is not None]
    assert bool(timed) is has_time
    for each in timed:
        at_ticks = parse_ticks(each.expected or "")
        assert at_ticks is not None
        assert -5 <= (at_ticks - now_ticks) / TICKS_PER_SECOND <= 90, each.text
