"""A group of processes that may take so much memory; Linux itself ends what takes more."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_ROOTS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))


@contextmanager
def memory_group() -> Generator[Path]:
    """An empty group. Without the right to make one the test is skipped, with the reason.

    A process joins it by its id in `cgroup.procs`; `limit_file` names the file of its limit.
    """
    folder, refused = None, "no control groups at /sys/fs/cgroup"
    for root in _ROOTS:
        if (root / "cgroup.procs").exists():
            folder = root / f"tideglass-test-{os.getpid()}-{time.monotonic_ns()}"
            try:
                folder.mkdir()
            except OSError as error:
                folder, refused = None, str(error)
            else:
                if limit_file(folder).exists():
                    break
                folder.rmdir()
                folder, refused = None, f"{root} does not control memory"
    if folder is None:
        pytest.skip(f"A RUN OUT OF MEMORY IS NOT TESTED: no group of processes can be made: {refused}")
    try:
        yield folder
    finally:
        for _ in range(50):  # until the last of its processes is gone
            with suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.1)


def limit_file(folder: Path) -> Path:
    """Where the limit of a group is written, in bytes."""
    of_version_2 = folder / "memory.max"
    return of_version_2 if of_version_2.exists() else folder / "memory.limit_in_bytes"
