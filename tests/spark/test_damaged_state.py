"""Files of a job directory are damaged: the rows are right all the same, or the error names the file.

The test takes one file of every kind. With TIDEGLASS_DAMAGE=all it takes every file with every damage, which
are some hundred runs; with a part of a name, the files of such names:

    TIDEGLASS_DAMAGE=all python -m pytest -s tests/spark/test_damaged_state.py
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.project_on_disk import OnDisk, disordered
from tideglass.core.errors import StateError
from tideglass.job.outputs import BatchRows
from tideglass.job.report.metrics import Metrics
from tideglass.job.start.decision import StartMode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(7200)

#: Nothing of a run depends on them.
FOR_PEOPLE = ("spark.log", "job.log", "profile.json")
BATCH = {"batch_bytes": 10_000}


def flip(path: Path) -> None:
    body = bytearray(path.read_bytes())
    if body:
        body[len(body) // 2] ^= 1
    path.write_bytes(body)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flip": flip,
    "cut": cut,
    "empty": lambda path: path.write_bytes(b""),
    "delete": Path.unlink,
    "garbage": lambda path: path.write_bytes(b"\x00\xff garbage \n" * 7),
}


@pytest.fixture(scope="module")
def interrupted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> OnDisk:
    """A job that was stopped in the middle of its input."""
    project = OnDisk(tmp_path_factory.mktemp("interrupted") / "job", spark).make()
    for partition in range(2):
        rows = disordered(partition, 200)
        for number in range(4):
            project.put(f"{partition}/{number}.json", rows[number * 50 : number * 50 + 50])

    def stop(batch_id: int, given: BatchRows, metrics: Metrics) -> None:
        if batch_id == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    metrics = project.run(stop, **BATCH)
    assert (metrics.batches, metrics.events < 400) == (3, True)
    return project


@pytest.fixture(scope="module")
def undisturbed(interrupted: OnDisk, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    rows = run_on(copy(interrupted, tmp_path_factory.mktemp("undisturbed"))).all_rows()
    assert all(len(each) > 20 for each in rows.values())
    return rows


def copy(project: OnDisk, folder: Path) -> OnDisk:
    shutil.rmtree(folder / "job", ignore_errors=True)
    shutil.copytree(project.folder, folder / "job")
    return OnDisk(folder / "job", project.spark)


def run_on(project: OnDisk) -> OnDisk:
    project.run()
    return project


def state_of(project: OnDisk) -> Path:
    return project.folder / ".tideglass" / "run"


def chosen(project: OnDisk) -> list[tuple[str, str]]:
    """Which file is damaged, and how: of every kind of file the newest, each in another way."""
    root = state_of(project)
    files = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*")) if path.is_file()]
    files = [each for each in files if Path(each).name not in FOR_PEOPLE]
    wanted = os.environ.get("TIDEGLASS_DAMAGE")
    if wanted:
        return [(each, damage) for each in files for damage in DAMAGES if wanted == "all" or wanted in each]
    newest = {re.sub(r"[0-9a-f]{8}-[-0-9a-f]+|\d+", "#", each): each for each in files}
    rotated = [(each, list(DAMAGES)[n % len(DAMAGES)]) for n, each in enumerate(newest.values())]
    gone = [(each, "delete") for each in newest.values() if each.endswith((".zip", ".sst", "offsets/2"))]
    return list(dict.fromkeys(rotated + gone))


def test_a_damaged_file_changes_no_row_or_is_named(
    interrupted: OnDisk, undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    wrong: list[str] = []
    outcomes: dict[str, int] = {}
    for name, damage in chosen(interrupted):
        project = copy(interrupted, tmp_path)
        DAMAGES[damage](state_of(project) / name)
        try:
            rows = run_on(project).all_rows()
            outcome = "the same rows" if rows == undisturbed else "OTHER ROWS"
        except StateError as error:
            told = str(error)
            is_clear = re.match(r"\[STATE_DAMAGED\] \S+ .*\n  hint: ", told) and "Traceback" not in told
            outcome = "named" if is_clear and str(state_of(project)) in told else f"UNCLEAR {told[:600]}"
        except Exception as error:
            outcome = f"UNCLEAR {type(error).__name__}: {str(error)[:600]}"
        outcomes[outcome[:12]] = outcomes.get(outcome[:12], 0) + 1
        print(f"{damage} {name}: {outcome}", flush=True)
        if outcome not in ("the same rows", "named"):
            wrong.append(f"{damage} {name}: {outcome}")
    print(outcomes)
    assert not wrong, "\n".join(wrong)
    if not os.environ.get("TIDEGLASS_DAMAGE"):
        assert set(outcomes) == {"the same row", "named"}


@pytest.mark.parametrize("name", ["ingress/events%2F1/*.state", "checkpoint/state/0/0/*.changelog"])
def test_damaged_state_is_built_anew_from_the_inputs_behind_the_rows_that_are_there(
    name: str, interrupted: OnDisk, undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    project = copy(interrupted, tmp_path)
    before = project.files()
    for file in (state_of(project) / "generation-0001").glob(name):
        flip(file)
    with pytest.raises(StateError, match=r"(?s)\[STATE_DAMAGED\] .*--start last"):
        project.run()
    project.run(start_mode=StartMode.LAST_STOPPED)
    assert project.all_rows() == undisturbed
    assert before.items() <= project.files().items(), "what was written stays as it is"
