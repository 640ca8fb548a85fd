"""A run whose state grows until its memory is full: Linux ends it, or memory is refused; `why` finds both.

No limit is replaced: the run is a process in a group of its own, whose limit Linux keeps.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.job_in_process import Folder
from support.memory_limits import memory_group
from support.staged import text_of
from tideglass.job.diagnosis.diagnose import diagnose_directory
from tideglass.job.diagnosis.finding import Severity

pytestmark = pytest.mark.long

QUERY = """SELECT device, COUNT(*) AS n INTO counts
FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(hour, 24)"""

#: Arguments: folder, query, and how memory is limited. Each batch has 2 MB of keys nobody has seen before.
GROWS = """
import json, os, resource, sys
from pathlib import Path
import pytest
from support.job_in_process import Clock, Folder, RunInProcess
from support.memory_limits import limit_file
from tideglass.job.diagnosis.diagnose import diagnose_directory
clock = Clock(pytest.MonkeyPatch())
project = Folder(Path(sys.argv[1]), sys.argv[2], late_seconds=5)
group = Path(sys.argv[3]) if sys.argv[3] != "refused" else None
if group is not None:
    (group / "cgroup.procs").write_text(str(os.getpid()))

def send(number):
    at = clock.iso(number)
    project.put(0, [{"device": f"{number} {n} " + "x" * 2000, "t": at, "arrived": at} for n in range(1000)])

send(0)
with RunInProcess(project.job()) as run:
    run.batch()
    run.report()
    taken = run.reporter.view.gauges.memory_bytes
    if group is not None:
        limit_file(group).write_text(str(taken + 120_000_000))
    else:
        address_space = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (address_space + 80_000_000,) * 2)
    for number in range(1, 200):
        send(number)
        run.batch()
        run.report()
        for each in diagnose_directory(run.directory).findings:
            print(json.dumps([each.cause, each.severity.value, each.text, *each.evidence]), flush=True)
"""


def grown(folder: Path, limited: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    command = [sys.executable, "-c", GROWS, str(folder), QUERY, limited]
    return subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, text=True, capture_output=True, timeout=300
    )


def test_16_state_that_takes_most_of_the_memory_until_linux_ends_the_run(tmp_path: Path) -> None:
    with memory_group() as group:
        done = grown(tmp_path, str(group))
    assert done.returncode == -signal.SIGKILL, done.stderr
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    full = [rest for cause, *rest in seen if cause == "MEMORY_FULL"]
    assert full[0][0] == Severity.WARNING
    assert re.search(
        r"the run takes [\d.]+ [MG]B of memory, 8\d % of the [\d.]+ [MG]B it may have", full[0][1]
    )
    assert re.search(r"counts \(tumbling window\) holds [\d,]+ rows: open windows", "\n".join(full[0][2:]))
    found = diagnose_directory(Folder(tmp_path, QUERY, late_seconds=5).directory)
    finding = found.findings[0]
    assert (finding.cause, finding.severity, found.state) == ("OUT_OF_MEMORY", Severity.PROBLEM, "Failed")
    assert "ended without a word" in finding.text
    assert "with its memory full" in finding.text
    assert "shorter windows" in finding.remedy


def test_16_memory_that_is_refused_ends_the_run_with_an_error(tmp_path: Path) -> None:
    done = grown(tmp_path, "refused")
    assert done.returncode not in (0, -signal.SIGKILL), done.stdout
    found = diagnose_directory(Folder(tmp_path, QUERY, late_seconds=5).directory)
    finding = found.findings[0]
    assert (finding.cause, finding.severity) == ("OUT_OF_MEMORY", Severity.PROBLEM), (
        text_of(finding),
        done.stderr,
    )
    assert "run 1 failed at" in finding.text
