"""A disk of few bytes, which can be filled and emptied."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest


@dataclass(frozen=True)
class SmallDisk:
    """A disk of its own at a folder."""

    folder: Path

    def fill(self, free_bytes: int = 0) -> None:
        """Take all but so many bytes, rounded down to pages."""
        room = psutil.disk_usage(str(self.folder)).free - free_bytes
        if room > 0:
            with (self.folder / "ballast").open("ab") as ballast:
                ballast.write(bytes(room))

    def empty(self) -> None:
        """Give back what was taken."""
        (self.folder / "ballast").unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Generator[SmallDisk]:
    """A disk at a folder as long as this lasts. Without the right to mount one the test is skipped."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"A FULL DISK IS NOT TESTED: {getattr(error, 'stderr', '') or error}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
