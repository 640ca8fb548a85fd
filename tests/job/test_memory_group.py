"""The limit of memory is that of the group of processes, as either version of control groups says it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tideglass.job.report import memory_group
from tideglass.job.report.memory_group import killed_for_memory, memory_limit_bytes


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the groups are; the process is in `jobs/toll`."""
    monkeypatch.setattr(memory_group, "_ROOT", tmp_path)
    monkeypatch.setattr(memory_group, "_OF_THIS_PROCESS", tmp_path / "cgroup")
    (tmp_path / "cgroup").write_text("0::/jobs/toll\n")
    return tmp_path


def test_without_a_group_the_limit_is_the_machine(root: Path):
    assert memory_limit_bytes() == psutil.virtual_memory().total
    assert killed_for_memory() == 0


@pytest.mark.parametrize("text", ["max", str(1 << 62)])
def test_no_limit_is_the_machine(root: Path, text: str):
    (root / "memory.max").write_text(text)
    assert memory_limit_bytes() == psutil.virtual_memory().total


def test_the_path_of_the_host_is_not_there_in_a_container_and_its_root_is_the_container(root: Path):
    (root / "memory.max").write_text("1073741824\n")
    (root / "memory.events").write_text("low 0\noom 3\noom_kill 2\noom_group_kill 0\n")
    assert (memory_limit_bytes(), killed_for_memory()) == (1 << 30, 2)


def test_the_least_limit_of_the_group_and_those_around_it_holds(root: Path):
    own = root / "jobs" / "toll"
    own.mkdir(parents=True)
    (own / "memory.max").write_text("max")
    (own / "memory.events").write_text("oom_kill 1\n")
    (own.parent / "memory.max").write_text("4096000\n")
    (own.parent / "memory.events").write_text("oom_kill 5\n")
    assert (memory_limit_bytes(), killed_for_memory()) == (4_096_000, 1)


def test_groups_of_version_1_have_other_names(root: Path):
    (root / "cgroup").write_text("7:pids:/\n4:memory:/jobs/toll\n0::/\n")
    own = root / "memory" / "jobs" / "toll"
    own.mkdir(parents=True)
    (own / "memory.limit_in_bytes").write_text("8192000\n")
    (own / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n")
    assert (memory_limit_bytes(), killed_for_memory()) == (8_192_000, 4)
