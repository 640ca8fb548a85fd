"""An old copy of the job directory is restored: the run is refused by name, and no row is doubled or lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.job_in_process import Folder
from support.restarted import RestartedJob
from support.times import at
from tideglass.core.errors import StateError
from tideglass.job.diagnosis.diagnose import diagnose_directory
from tideglass.job.start.decision import StartMode

pytestmark = pytest.mark.long

QUERY = """SELECT device, COUNT(*) AS n, SUM(v) AS v, System.Timestamp() AS at INTO counts
FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)

SELECT device, v INTO large FROM events TIMESTAMP BY t WHERE v % 3 = 0"""


def job(folder: Path) -> RestartedJob:
    """A job over two partitions with twenty events each."""
    made = Folder(folder, QUERY, late_seconds=60)
    for number in range(5):
        for partition in range(2):
            put(made, partition, range(number * 4, number * 4 + 4))
    return RestartedJob(made, {"batch_bytes": 500})


def put(folder: Folder, partition: int, numbers: range) -> None:
    folder.put(
        partition,
        [
            {"device": f"d{n % 3}", "v": n + 100 * partition, "t": at(n * 3), "arrived": at(n * 3 + 1)}
            for n in numbers
        ],
    )


class Killed(Exception):
    """Stands for the end of a process."""


def kill_at(batch: int) -> Callable[[int], None]:
    def each(number: int) -> None:
        if number == batch:
            raise Killed

    return each


def copied(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def test_a_job_that_is_killed_between_batches_gives_the_rows_it_owes(tmp_path: Path) -> None:
    undisturbed = job(tmp_path / "one")
    assert undisturbed.run() > 3
    killed = job(tmp_path / "two")
    for batch in (1, 2, 3):
        with pytest.raises(Killed):
            killed.run(kill_at(batch))
    killed.run()
    assert killed.rows() == undisturbed.rows()


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_an_old_copy_of_the_whole_directory_is_refused_and_changes_no_row(tmp_path: Path, batch: int) -> None:
    restored = job(tmp_path)
    directory, kept = restored.folder.directory.path.local, tmp_path / "kept"
    with pytest.raises(Killed):
        restored.run(kill_at(batch))
    copied(directory, kept)
    assert restored.run() > 1
    rows = restored.rows()
    copied(kept, directory)
    restored.options = {"batch_bytes": 900}  # which makes other batches than before
    with pytest.raises(StateError, match=r"\[OLDER_COPY\] .*run is an older copy") as refused:
        restored.run()
    assert "put the newest job directory back" in str(refused.value)
    assert restored.rows() == rows
    found = diagnose_directory(restored.folder.directory)
    assert not found.healthy


def test_start_last_withdraws_the_rows_an_old_copy_does_not_know_and_writes_them_again(
    tmp_path: Path,
) -> None:
    undisturbed, restored = job(tmp_path / "one"), job(tmp_path / "two")
    undisturbed.run()
    directory, kept = restored.folder.directory.path.local, tmp_path / "kept"
    with pytest.raises(Killed):
        restored.run(kill_at(2))
    copied(directory, kept)
    restored.run()
    copied(kept, directory)
    restored.options = {"batch_bytes": 900, "start_mode": StartMode.LAST_STOPPED}
    restored.run()
    assert restored.rows() == undisturbed.rows()


def test_an_old_copy_of_an_earlier_generation_is_refused(tmp_path: Path) -> None:
    restored = job(tmp_path)
    directory, kept = restored.folder.directory.path.local, tmp_path / "kept"
    with pytest.raises(Killed):
        restored.run(kill_at(2))
    copied(directory, kept)
    changed = Folder(tmp_path, QUERY.replace("second, 10", "second, 20"), late_seconds=60)
    restored.folder = changed
    restored.run()
    assert any("part-g0002-" in part.name for part in tmp_path.glob("LocalRunOutputs/*/part-*"))
    copied(kept, directory)
    restored.folder = Folder(tmp_path, QUERY, late_seconds=60)
    with pytest.raises(
        StateError, match=r"rows of batch \d+ of generation 2, and the newest it knows is batch 1"
    ):
        restored.run()
