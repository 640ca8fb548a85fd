"""Whether the state of a generation is as it was written, asked before a run goes on from it.

What a damaged file would do is not left to chance. Spark's logs are read here before Spark reads them, with
the checksums beside them, and must agree with each other and with what the driver has counted. Of the state
store, which may be large, Spark checks what it reads; when it stops, `state_problem` finds the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from tideglass.core.durable import HADOOP_HEADER, hadoop_checksums
from tideglass.core.errors import REBUILD, RESTART, StateError, damaged
from tideglass.job.directory import JobDirectory
from tideglass.job.progress.counts import Counts
from tideglass.spark.checkpoint import operator_metadata
from tideglass.storage import AnyPath, StoragePath, storage_path

_SUMS_NAME = re.compile(r"\.(.+)\.crc")
_STATE_PATH = re.compile(r"/[^\s,'\"\[\]()]*/checkpoint/[^\s,'\"\[\]()]+")


def check_state(generation: AnyPath, kept: Sequence[str]) -> None:
    """Raises StateError that names the file that is damaged, if a run may not go on from this state.

    kept: files the generation has since its beginning. Nothing is changed.
    """
    generation = storage_path(generation)
    for name in kept:
        if not (generation / name).exists():
            raise damaged(generation / name, "is missing", RESTART)
    checkpoint = generation / "checkpoint"
    counted = Counts.load(generation).batch
    started, done = _numbers(checkpoint / "offsets"), _numbers(checkpoint / "commits")
    _check_logs_agree(checkpoint, started, done, counted)
    for number in started[-2:]:  # Spark asks for the last one and where it began
        _check_log(checkpoint / "offsets" / str(number))
    for number in done[-1:]:
        _check_log(checkpoint / "commits" / str(number))
    if started:
        _check_log(checkpoint / "metadata", version_lines=0)
    for file in operator_metadata(checkpoint):
        _check_log(file)


def has_state(directory: JobDirectory) -> bool:
    """Whether any generation has done a batch."""
    return any(_numbers(each / "checkpoint" / "commits") for each in directory.path.glob("generation-*"))


def state_problem(checkpoint: AnyPath, account: str) -> StateError | None:
    """The damage that has made Spark stop, if it was that. account: Spark's own words."""
    checkpoint = storage_path(checkpoint)
    state = checkpoint / "state"
    for file in sorted(state / each.name for each in state.list(recursive=True)):
        sums = _SUMS_NAME.fullmatch(file.name)
        checked = file.with_name(sums[1]) if sums else file
        problem = _problem(checked) if checked.exists() else "is missing"
        if problem is not None:
            return damaged(checked, problem, REBUILD)
    for match in _STATE_PATH.finditer(account):
        if match[0].startswith(f"{checkpoint}/"):
            path = storage_path(match[0].rstrip(".:;"))
            problem = "cannot be used by Spark" if path.exists() else "is missing"
            return damaged(path, problem, REBUILD)
    if "STATE_STORE" in account:  # in Spark's names of such errors
        return damaged(state, "cannot be loaded by Spark", REBUILD)
    return None


def _check_logs_agree(
    checkpoint: StoragePath, started: list[int], done: list[int], counted: int | None
) -> None:
    """Spark logs the offsets of a batch before it runs, and its commit after; one batch may be under way."""
    offsets, commits = checkpoint / "offsets", checkpoint / "commits"
    last_started, last_done = started[-1] if started else -1, done[-1] if done else -1
    last_counted = -1 if counted is None else counted
    if last_done >= 0 and last_done not in started:
        raise damaged(offsets / str(last_done), f"is missing, though batch {last_done} is done", RESTART)
    if last_started > 0 and last_started - 1 not in started:
        raise damaged(
            offsets / str(last_started - 1), f"is missing, though batch {last_started} is there", RESTART
        )
    if last_counted > last_started:
        raise damaged(offsets, f"ends before batch {last_counted}, whose rows are given", RESTART)
    if last_started > last_done + 1 or last_counted > last_done + 1:
        raise damaged(
            commits, f"ends before batch {max(last_started, last_counted) - 1}, which was done", REBUILD
        )


def _numbers(log: StoragePath) -> list[int]:
    """The batches a log of Spark's holds, ascending."""
    return sorted(int(file.name) for file in log.glob("*") if file.name.isdecimal())


def _check_log(file: StoragePath, version_lines: int = 1) -> None:
    """Raises StateError for a file of a version line and JSON lines that is not as it was written."""
    problem = _problem(file)
    if problem is None:
        try:
            lines = file.read_text(encoding="utf-8").split("\n")
            if len(lines) <= version_lines or not all(line.startswith("v") for line in lines[:version_lines]):
                problem = "is cut off"
            for line in lines[version_lines:]:
                if line != "-":  # a source that has no offset yet
                    json.loads(line)
        except FileNotFoundError:
            problem = "is missing"
        except ValueError as error:
            problem = f"cannot be read ({error})"
    if problem is not None:
        raise damaged(file, problem, RESTART)


def _problem(file: StoragePath) -> str | None:
    """What is wrong with a file by the checksums beside it; None without any."""
    try:
        sums = file.with_name(f".{file.name}.crc").read_bytes()
        body = file.read_bytes()
    except FileNotFoundError:
        return None
    size = int.from_bytes(sums[len(HADOOP_HEADER) : 8], "big")
    if not sums.startswith(HADOOP_HEADER) or size == 0:
        return f"cannot be checked, since .{file.name}.crc is damaged"
    return None if sums == hadoop_checksums(body, size) else "is not what its checksum says"
