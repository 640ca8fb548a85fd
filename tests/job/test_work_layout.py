"""Key groups and tasks follow the executors that are there, waited for as long as Spark waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from support.job_in_process import Folder, RunInProcess
from tideglass.cli.job import start_lines
from tideglass.cli.runs import run_lines
from tideglass.cli.status import status_lines
from tideglass.core.errors import TideglassError
from tideglass.job.options import JobPlan, RunOptions
from tideglass.job.plan import plan_job
from tideglass.job.report.run_journal import read_runs
from tideglass.job.report.status import read_status
from tideglass.project.project import load_project
from tideglass.spark.executors import WAITING, Executors, awaited_executors, this_machine

STANDALONE = {"spark.master": "spark://host:7077"}
KUBERNETES = {"spark.master": "k8s://https://host", "spark.executor.cores": "2"}
DYNAMIC = {**KUBERNETES, "spark.dynamicAllocation.enabled": "true"}


class Arrivals:
    """Executors that come while somebody waits. comes: their cores, by the second at which they are there."""

    def __init__(self, comes: Mapping[float, list[int]]) -> None:
        self.comes = comes
        self.seconds = 0.0

    def wait(self, conf: Mapping[str, str]) -> Executors:
        return awaited_executors(self.there, conf, lambda: self.seconds, self.sleep)

    def there(self) -> list[int]:
        return [cores for at, each in self.comes.items() if at <= self.seconds for cores in each]

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def test_executors_that_settings_name_are_waited_for_and_nobody_waits_longer():
    arrivals = Arrivals({1.0: [2], 7.0: [2], 9.0: [2]})
    assert arrivals.wait(KUBERNETES | {"spark.executor.instances": "2"}) == Executors(2, 4)
    assert arrivals.seconds == pytest.approx(7, abs=0.2)


def test_a_standalone_cluster_is_waited_for_until_its_cores_are_there():
    arrivals = Arrivals({0.0: [1], 5.0: [1]})
    assert arrivals.wait(STANDALONE | {"spark.cores.max": "2"}) == Executors(2, 2)
    assert arrivals.seconds == pytest.approx(5, abs=0.2)
    # Three cores are one executor of two cores: the master starts no part of one.
    whole = STANDALONE | {"spark.cores.max": "3", "spark.executor.cores": "2"}
    assert Arrivals({0.0: [2]}).wait(whole) == Executors(1, 2)


def test_where_nobody_says_how_many_come_they_are_all_there_once_no_other_comes():
    arrivals = Arrivals({2.0: [1], 4.0: [1]})
    assert arrivals.wait(STANDALONE) == Executors(2, 2)
    assert 7 <= arrivals.seconds < 8


def test_executors_that_do_not_come_in_time_are_named_and_the_others_work():
    arrivals = Arrivals({1.0: [2]})
    found = arrivals.wait(KUBERNETES | {"spark.executor.instances": "3", WAITING: "4s"})
    assert (found.count, found.cores) == (1, 2)
    assert found.notes == (
        "6 cores were expected, and 2 cores of 1 executor came within 4 s; the work is laid out for those",
    )
    assert arrivals.seconds == pytest.approx(4, abs=0.2)


@pytest.mark.parametrize("conf", [STANDALONE, KUBERNETES, DYNAMIC])
def test_where_no_executor_comes_one_sentence_says_so_with_a_remedy(conf: dict[str, str]):
    arrivals = Arrivals({})
    with pytest.raises(TideglassError, match=r"no executor has come within 30 s.*\n  hint: look whether"):
        arrivals.wait(conf)
    assert arrivals.seconds == pytest.approx(30, abs=0.2)


def test_dynamic_allocation_is_laid_out_for_what_it_may_grow_to():
    arrivals = Arrivals({})
    found = arrivals.wait(DYNAMIC | {"spark.dynamicAllocation.maxExecutors": "4"})
    assert (found.cores, arrivals.seconds) == (8, 0.0)
    assert found.notes[0].startswith("dynamic allocation is on: the work is laid out for the 8 cores")


def test_dynamic_allocation_without_a_limit_is_laid_out_for_the_executors_there_are():
    found = Arrivals({1.0: [2], 2.0: [2]}).wait(DYNAMIC | {"spark.dynamicAllocation.minExecutors": "2"})
    assert (found.count, found.cores) == (2, 4)
    assert "spark.dynamicAllocation.maxExecutors says how many" in found.notes[0]


# ---------------------------------------------------------------- of a job

QUERY = (
    "SELECT d, COUNT(*) AS n, System.Timestamp() AS at INTO o FROM events TIMESTAMP BY t "
    "GROUP BY d, TumblingWindow(second, 10)"
)


def planned(path: Path, executors: Callable[[], Executors] | None, **options: int | bool) -> JobPlan:
    return plan_job(load_project(path), RunOptions(once=True, **options), executors)  # type: ignore[arg-type]


def played(job: JobPlan) -> None:
    with RunInProcess(job) as run:
        run.batches()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "job", QUERY, arrival=None)
    made.put(0, [{"t": f"2026-01-01T00:00:{n:02d}Z", "d": f"d{n % 5}"} for n in range(40)])
    return made


def rows(folder: Folder) -> list[str]:
    files = (folder.path / "LocalRunOutputs" / "o").glob("part-*")
    return sorted(line for file in files for line in file.read_text().splitlines())


def test_a_first_run_has_a_key_group_for_each_core_of_the_executors(folder: Folder):
    job = planned(folder.path, lambda: Executors(3, 6))
    assert job.layout.words == "6 key groups on 6 cores of 3 executors"
    assert planned(folder.path, None).layout.key_groups == this_machine().cores
    assert planned(folder.path, None, cores=3).layout.words == "3 key groups on 3 cores of this machine"


def test_executors_are_not_waited_for_by_a_query_that_is_wrong(folder: Folder):
    (folder.path / "job.asaql").write_text("SELECT nothing INTO")
    with pytest.raises(TideglassError):
        planned(folder.path, lambda: pytest.fail("nobody is to be waited for"))


def test_the_layout_is_in_start_lines_status_and_runs_and_another_one_is_a_known_change(folder: Folder):
    note = "3 cores were expected"
    played(planned(folder.path, lambda: Executors(2, 2, (note,))))
    first = read_runs(folder.directory.journal)[-1]
    status = read_status(folder.directory)
    assert status is not None
    words = "  2 key groups on 2 cores of 2 executors"
    for lines in (start_lines(first.start), run_lines(first, goes_on=False), status_lines(status)):
        assert words in lines
        assert f"  note: {note}" in lines
    expected = rows(folder)
    assert expected

    played(planned(folder.path, lambda: Executors(4, 4)))
    second = read_runs(folder.directory.journal)[-1].start
    assert second.resumed
    assert second.layout is not None
    assert (second.layout.key_groups, second.layout.cores) == (2, 4)
    change = "the tasks had 2 cores and have 4; the job keeps its 2 key groups (--key-groups 4 builds its "
    assert f"  changed: {change}state anew)" in start_lines(second)
    assert rows(folder) == expected


@pytest.mark.long
def test_other_key_groups_that_are_asked_for_build_the_state_anew_with_equal_rows(tmp_path: Path):
    def live(folder: Folder, key_groups: int) -> None:
        with RunInProcess(plan_job(load_project(folder.path), RunOptions(key_groups=key_groups))) as run:
            for _ in range(3):
                run.batch()

    disturbed, undisturbed = (Folder(tmp_path / name, QUERY, late_seconds=5) for name in ("two", "one"))
    for second in range(40):
        if second == 20:
            live(disturbed, 2)
        for folder in (disturbed, undisturbed):
            at = f"2026-01-01T00:00:{second:02d}Z"
            folder.put(0, [{"t": at, "arrived": at, "d": f"d{n}"} for n in range(5)])
    live(disturbed, 4)
    live(undisturbed, 2)
    start = read_runs(disturbed.directory.journal)[-1].start
    assert start.cause == "the state is built anew: the key groups were 2 and are 4"
    assert len(rows(undisturbed)) == 20  # with the window that second 0 ends
    assert rows(disturbed) == rows(undisturbed)
