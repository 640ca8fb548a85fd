"""Calls of the system fail at random, some after half of a write: a run stops, and the rows are right.

Every file of a job is written by Python (`core.durable`, the staging of files), so the calls are met there.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.fault_jobs import fault_job, seeds
from tideglass.core.errors import TideglassError
from tideglass.job.runner import naming_disk

pytestmark = pytest.mark.long

ATTEMPTS = 5


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    job = fault_job(tmp_path_factory.mktemp("undisturbed"))
    job.run()
    return job.rows()


class TornFile:
    """A file that is written to, whose writes fail now and then after half of the bytes."""

    def __init__(self, file: Any, fails: Callable[[], bool], error: int) -> None:
        self._file, self._fails, self._error = file, fails, error

    def __enter__(self) -> TornFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, body: bytes) -> int:
        if self._fails():
            self._file.write(memoryview(body)[: len(body) // 2])
            self._file.flush()
            raise OSError(self._error, os.strerror(self._error))
        return self._file.write(body)


@contextmanager
def failing(call: str, error: int, fails: Callable[[], bool]) -> Generator[None]:
    """While this lasts, a call fails whenever `fails` says so."""
    with pytest.MonkeyPatch.context() as patch:
        if call == "write":
            opened = Path.open

            def torn(path: Path, mode: str = "r", *rest: Any, **words: Any) -> Any:
                file: Any = opened(path, mode, *rest, **words)
                return TornFile(file, fails, error) if mode in ("wb", "r+b", "ab") else file

            patch.setattr(Path, "open", torn)
        else:
            real: Callable[..., Any] = getattr(os, call)

            def broken(*arguments: Any, **words: Any) -> Any:
                if fails():
                    raise OSError(error, os.strerror(error))
                return real(*arguments, **words)

            patch.setattr(os, call, broken)
        yield


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("write", errno.ENOSPC),
        ("write", errno.EIO),
        ("fsync", errno.EIO),
        ("replace", errno.EIO),
        ("unlink", errno.EIO),
    ],
)
@pytest.mark.parametrize("seed", seeds(1))
def test_calls_that_fail_make_no_wrong_row(
    seed: int, call: str, error: int, tmp_path: Path, undisturbed: dict[str, list[str]]
) -> None:
    print(f"seed {seed}")
    chosen, job, ended = random.Random(f"{seed} {call} {error}"), fault_job(tmp_path), list[str]()
    for _ in range(ATTEMPTS):
        with failing(call, error, lambda: chosen.random() < 0.03):
            try:
                with naming_disk():
                    job.run()
            except TideglassError as found:
                ended.append(str(found))
    job.run()
    print("\n".join(ended))
    assert job.rows() == undisturbed
    assert [each for each in ended if os.strerror(error) not in each] == []
    assert ended or call == "unlink", "nothing has failed"
