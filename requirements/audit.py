"""Looks up the locked packages among known vulnerabilities: `make audit`, and a part of `make check`.

    python requirements/audit.py PIP_AUDIT LOCK

Ends with 1 if a locked version has a known vulnerability. A machine that reaches no source of vulnerabilities
cannot say anything; this is told in capital letters, and ends with 0. pip-audit itself calls a package it has
found nowhere "no known vulnerabilities": here it counts as not looked up.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: pip-audit's names of sources, in the order in which they are tried.
SOURCES = ("pypi", "osv")
_SECONDS = 600


def looked_up(pip_audit: str, source: str, lock: Path) -> tuple[list[dict[str, Any]], list[str], str]:
    """What a source knows of the packages of a lock, those it does not know, and why it answers nothing."""
    command = [pip_audit, "--requirement", str(lock), "--require-hashes", "--disable-pip", "--format", "json"]
    command += ["--vulnerability-service", source, "--progress-spinner", "off"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        found = json.loads(done.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        return [], [], f"no answer within {_SECONDS} s"
    except (ValueError, KeyError, TypeError):
        lines = done.stderr.strip().splitlines()
        return [], [], lines[-1][:300] if lines else f"ended with {done.returncode}"
    return (
        [each for each in found if "skip_reason" not in each],
        [each["name"] for each in found if "skip_reason" in each],
        "",
    )


def first_pin(lock: Path) -> str:
    """The first package of a lock with its hashes."""
    text = lock.read_text(encoding="utf-8")
    lines = text.splitlines()
    start = next(
        place for place, line in enumerate(lines) if "==" in line and not line.startswith((" ", "#"))
    )
    end = next((p for p in range(start, len(lines)) if not lines[p].endswith("\\")), len(lines) - 1)
    return "\n".join(lines[start : end + 1]) + "\n"


def audit(pip_audit: str, lock: Path) -> int:
    """Says what is known of the locked packages; the exit code."""
    problems: list[str] = []
    for source in SOURCES:
        with tempfile.TemporaryDirectory() as folder:
            probe = Path(folder) / "probe.txt"
            probe.write_text(first_pin(lock), encoding="utf-8")
            known, _, problem = looked_up(pip_audit, source, probe)
        if not known:  # not a lookup for each package where the first is answered by nobody
            problems.append(f"{source}: {problem or 'knows no package'}")
            continue
        known, unknown, problem = looked_up(pip_audit, source, lock)
        if problem:
            problems.append(f"{source}: {problem}")
            continue
        return _report(known, unknown, source)
    print("=" * 78)
    print("DEPENDENCIES NOT AUDITED: no source of vulnerabilities can be reached from here.")
    for problem in problems:
        print(f"  {problem}")
    print("=" * 78)
    return 0


def _report(known: Sequence[dict[str, Any]], unknown: Sequence[str], source: str) -> int:
    vulnerable = [each for each in known if each["vulns"]]
    for each in vulnerable:
        for vulnerability in each["vulns"]:
            mended = ", ".join(vulnerability["fix_versions"]) or "nowhere yet"
            print(f"{each['name']} {each['version']}: {vulnerability['id']}, mended in {mended}")
    print(f"audited {len(known)} packages ({source}), {len(vulnerable)} with known vulnerabilities")
    if unknown:
        print(f"NOT AUDITED, since {source} does not know them: {', '.join(unknown)}")
    return 1 if vulnerable else 0


if __name__ == "__main__":
    sys.exit(audit(sys.argv[1], Path(sys.argv[2])))
