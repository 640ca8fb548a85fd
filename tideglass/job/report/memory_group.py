"""What Linux says of the group of processes a run belongs to (cgroup): how much memory it may take.

A container has a group, and so has a service of systemd. The limit of a group holds for those within it too.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import psutil

_ROOT = Path("/sys/fs/cgroup")
_OF_THIS_PROCESS = Path("/proc/self/cgroup")
#: Of version 2 and of version 1: where a group says its limit, and how many were killed at it.
_LIMITS = ("memory.max", "memory.limit_in_bytes")
_KILLS = ("memory.events", "memory.oom_control")
_KILLED = re.compile(r"^oom_kill (\d+)$", re.M)


def memory_limit_bytes() -> int:
    """What the processes of this run may take: the least limit of its groups, or all the machine has.

    A number as large as the address space is no limit, and neither is `max`.
    """
    least_bytes = int(psutil.virtual_memory().total)
    for folder in _folders():
        for name in _LIMITS:
            with suppress(OSError, ValueError):
                least_bytes = min(least_bytes, int((folder / name).read_text()))
    return least_bytes


def killed_for_memory() -> int:
    """How many processes of the innermost group Linux has killed because it was full."""
    for folder in _folders():
        for name in _KILLS:
            with suppress(OSError):
                if found := _KILLED.search((folder / name).read_text()):
                    return int(found[1])
    return 0


def _folders() -> list[Path]:
    """The group of this process and those around it, innermost first.

    In a container the path that Linux names may be that on the host; then the root is the container's own.
    """
    with suppress(OSError):
        for line in _OF_THIS_PROCESS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            top = _ROOT / "memory" if controllers == "memory" else _ROOT
            if controllers in ("memory", "") and any(
                (top / path.strip("/") / name).exists() for name in _KILLS
            ):
                own = top / path.strip("/")
                return [own, *(each for each in own.parents if each.is_relative_to(top))]
    return [_ROOT, _ROOT / "memory"]
