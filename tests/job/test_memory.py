"""The memory of a process and of those it has started is told while it lasts."""

from __future__ import annotations

import subprocess
import sys
import time

from tideglass.job.estimate.memory import PeakMemory

MIB = 2**20
#: Touches so much memory, says so, and waits to be told to end.
TAKES = "held = bytearray(b'x') * (64 * 2**20); print('held', flush=True); input()"


def test_what_a_process_that_was_started_takes_counts_and_stays_known_when_it_has_ended() -> None:
    with PeakMemory() as alone:
        pass
    command = [sys.executable, "-c", TAKES]
    with (
        PeakMemory() as memory,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        deadline_seconds = time.monotonic() + 60
        while memory.peak_bytes - alone.peak_bytes <= 60 * MIB and time.monotonic() < deadline_seconds:
            time.sleep(0.01)  # until it has been looked at
        process.communicate("\n")
    assert memory.peak_bytes - alone.peak_bytes > 60 * MIB
