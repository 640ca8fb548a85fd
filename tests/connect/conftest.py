"""What tests of connectors share: a folder on a disk, and one in an object store."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tideglass.storage import StoragePath, storage_path


@pytest.fixture(params=["on a disk", "in a store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> StoragePath:
    """An empty folder; what is read and written there is the same wherever it is."""
    return storage_path(tmp_path if request.param == "on a disk" else f"memory://tests/{uuid.uuid4().hex}")
