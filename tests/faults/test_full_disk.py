"""The disk of the job directory and of the outputs is full, and later has room again: the rows are right."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.fault_jobs import fault_job, seeds
from support.small_disks import SmallDisk, small_disk
from tideglass.core.errors import TideglassError
from tideglass.job.runner import naming_disk

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    job = fault_job(tmp_path_factory.mktemp("undisturbed"))
    assert job.run() > 3
    rows = job.rows()
    assert {name: len(found) > 5 for name, found in rows.items()} == dict.fromkeys(
        ("counts", "large", "pairs"), True
    )
    return rows


def filled_at(disk: SmallDisk, at: int, free_bytes: int) -> Callable[[int], None]:
    def each(number: int) -> None:
        if number == at:
            disk.fill(free_bytes)

    return each


@pytest.mark.parametrize("seed", seeds(6))
def test_a_disk_that_is_full_stops_the_run_and_with_room_again_it_goes_on(
    seed: int, tmp_path: Path, undisturbed: dict[str, list[str]]
) -> None:
    print(f"seed {seed}")
    chosen, ended = random.Random(seed), []
    with small_disk(tmp_path / "disk", megabytes=2) as disk:
        job = fault_job(disk.folder / "job")
        for _ in range(4):
            at, free_bytes = chosen.randrange(5), chosen.choice([0, 4096, 8192, 16384, 32768, 65536])
            try:
                with naming_disk():
                    job.run(filled_at(disk, at, free_bytes))
            except TideglassError as error:
                ended.append(f"{type(error).__name__}: {error}")
            finally:
                disk.empty()
        job.run()
        assert job.rows() == undisturbed
        assert not list(disk.folder.rglob("*.tmp"))
    print("\n".join(ended))
    assert ended
    named = re.compile(rf"(?s).*{re.escape(str(tmp_path))}/disk/job/.*No space left on device")
    assert [each for each in ended if not named.match(each)] == []
