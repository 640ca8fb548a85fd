"""A run that is killed at any step of its commit: readers of the outputs find what they find undisturbed."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.faulty_output import FaultyOutput
from support.killed import STEPS, AppendedOutput, FolderWithOutputs, Killed, killed
from support.restarted import RestartedJob
from tideglass.connect.files import output as files
from tideglass.storage import StoragePath

pytestmark = pytest.mark.long

QUERY = """
SELECT device, COUNT(*) AS n, System.Timestamp() AS at INTO counts FROM events TIMESTAMP BY t
GROUP BY device, TumblingWindow(second, 6)
SELECT device, n INTO rows FROM events TIMESTAMP BY t
SELECT device, MAX(n) AS most INTO queue FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 5)
"""
OUTPUTS = ("counts", "rows", "queue")
#: The batches of the job, one a file of events, and one that tells the end.
BATCHES = 4
PLACES = [
    *STEPS,
    *[f"{when}-publish-{output}" for output in OUTPUTS for when in ("before", "after")],
    "inside-publish-rows",
    "inside-publish-queue",
]


class World:
    """A job with an output of files, one that holds rows by batch, and one that only takes more."""

    def __init__(self, path: Path) -> None:
        self.counts, self.queue = FaultyOutput("counts"), AppendedOutput("queue")
        self.folder = FolderWithOutputs(
            path, QUERY, 5, arrival="t", outputs={"counts": self.counts, "queue": self.queue}
        )
        for batch in range(BATCHES):
            for partition in (0, 1):
                numbers = range(batch * 7, batch * 7 + 7)
                events = [
                    {"t": f"2026-01-01T00:00:{n:02}Z", "device": f"d{(n + partition) % 3}", "n": n}
                    for n in numbers
                ]
                self.folder.put(partition, events)
        size = max(path.stat().st_size for path in (path / "events").rglob("*.json"))
        self.job = RestartedJob(self.folder, {"batch_bytes": size})

    def read(self) -> dict[str, list[str]]:
        """What readers find: of the queue those who know ids again."""
        counts = sorted(str(row) for row in self.counts.rows())
        return {"counts": counts, "queue": self.queue.rows(), **self.job.rows()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    world = World(tmp_path_factory.mktemp("undisturbed"))
    assert world.job.run() >= BATCHES
    found = world.read()
    assert all(found[name] for name in OUTPUTS)
    assert len(world.queue.taken) == len(found["queue"])
    return found


@pytest.mark.parametrize("place", PLACES)
def test_killed_at_a_step_of_a_batch_and_started_again(
    place: str, undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    world = World(tmp_path)
    assert killed(world.job, place, 2)
    world.job.run()
    assert world.read() == undisturbed
    ids = [key for key, _ in world.queue.taken]
    if place in ("before-publish_rows", "before-publish-queue", "inside-publish-queue"):
        assert len(set(ids)) == len(ids), "nothing was taken twice"


@pytest.mark.parametrize("place", ["before-finish", "after-finish"])
def test_killed_as_the_outputs_are_finished(
    place: str, undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    world = World(tmp_path)
    last = RestartedJob(World(tmp_path / "other").folder, world.job.options).run() - 1
    assert killed(world.job, place, last)
    world.job.run()
    assert world.read() == undisturbed


def test_killed_at_every_step_one_after_the_other(undisturbed: dict[str, list[str]], tmp_path: Path) -> None:
    world = World(tmp_path)
    assert [place for place in PLACES if not killed(world.job, place, 2)] == []
    world.job.run()
    assert world.read() == undisturbed


def test_killed_between_two_files_of_a_batch(
    undisturbed: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, publish, moved = World(tmp_path), files.publish_file, list[str]()

    def one(staged: tuple[StoragePath, StoragePath]) -> None:
        if len(moved) == 3:  # two files a batch
            raise Killed
        publish(staged)
        moved.append(staged[1].name)

    with monkeypatch.context() as patched:
        patched.setattr(files, "publish_file", one)
        with pytest.raises(Killed):
            world.job.run()
    world.job.run()
    assert world.read() == undisturbed
