"""States of senders by batch: on a disk and in an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideglass.core.errors import StateError
from tideglass.engine.snapshots import KEPT_BATCHES, Snapshots
from tideglass.storage import storage_path


@pytest.fixture(params=["on a disk", "in a store"])
def snapshots(request: pytest.FixtureRequest, tmp_path: Path) -> Snapshots:
    return Snapshots(str(tmp_path) if request.param == "on a disk" else f"memory://tests{tmp_path}")


def test_a_sender_has_its_state_after_each_batch(snapshots):
    assert snapshots.load("in/0", 1) is None
    for batch in (1, 2):
        for sender in ("in/0", "in/1"):
            snapshots.save(sender, batch, f"{sender} {batch}".encode(), synced=False)
    snapshots.sync(["in/0", "in/1", "in/2"])
    assert [snapshots.load("in/1", batch) for batch in (0, 1, 2)] == [None, b"in/1 1", b"in/1 2"]


def test_a_late_attempt_writes_what_is_there(snapshots):
    for _ in range(2):
        snapshots.save("in/0", 1, b"state")
    assert snapshots.load("in/0", 1) == b"state"
    assert len(storage_path(snapshots.directory).list(recursive=True)) == 1


def test_what_no_restart_needs_is_removed(snapshots):
    for batch in range(1, 9):
        snapshots.save("in/0", batch, b"state")
    snapshots.forget_before(8)
    left = [batch for batch in range(1, 9) if snapshots.load("in/0", batch) is not None]
    assert left == list(range(9 - KEPT_BATCHES, 9))


def test_a_state_that_is_damaged_is_refused(snapshots):
    snapshots.save("in/0", 1, b"state")
    path = snapshots.path("in/0", 1)
    path.write(path.read_bytes()[:-1] + b"x")
    with pytest.raises(StateError, match="is not what was written"):
        snapshots.load("in/0", 1)
