"""Documents may be read in many threads at once, as a page that is asked for many things does."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

#: New types each time, since what went wrong went wrong at the first use of a type: the process crashed.
MANY_READERS = """
import sys, threading
from dataclasses import make_dataclass
from tideglass.core.documents import of_plain, to_plain

sys.setswitchinterval(1e-6)
names = [f"field{n}" for n in range(20)]
for number in range(300):
    part = make_dataclass(f"Part{number}", [(name, int) for name in names], frozen=True, slots=True)
    whole = make_dataclass(f"Whole{number}", [("parts", tuple[part, ...])], frozen=True, slots=True)
    content = {"parts": [dict.fromkeys(names, number)]}
    barrier, found = threading.Barrier(8), []

    def read():
        barrier.wait()
        found.append(to_plain(of_plain(whole, content)))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [list(each["parts"]) for each in found] == [content["parts"]] * 8, found
"""


def test_threads_may_read_a_type_for_the_first_time_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", MANY_READERS], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
