"""A clock that tests of this folder can move."""

from __future__ import annotations

import pytest

from support.job_in_process import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)
