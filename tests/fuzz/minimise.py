"""Makes the input of a finding smaller while it still breaks the same thing."""

from __future__ import annotations

import re
import time
from dataclasses import replace

from fuzz.trial import Finding, Trial
from fuzz.watch import Watch


def minimised(finding: Finding, watch: Watch, seconds: float = 20.0) -> Finding:
    """The smallest input found in the time: large pieces of files are left out, then smaller ones."""
    until = time.monotonic() + seconds
    best = finding

    def breaks(trial: Trial) -> bool:
        nonlocal best
        found = watch.check(trial)
        if found is None or found.signature != finding.signature:
            return False
        best = found
        return True

    for name in sorted(finding.trial.files, key=lambda name: -len(finding.trial.files[name])):
        for pattern in (rb"[^\n]*\n?", rb"\s+|\w+|\W", rb"(?s)."):
            pieces = [piece for piece in re.findall(pattern, best.trial.files[name]) if piece]
            if len(pieces) > 3000:
                continue
            size = len(pieces) // 2
            while size and time.monotonic() < until:
                at = 0
                while at < len(pieces) and time.monotonic() < until:
                    without = pieces[:at] + pieces[at + size :]
                    files = {**best.trial.files, name: b"".join(without)}
                    if breaks(replace(best.trial, files=files)):
                        pieces = without
                    else:
                        at += size
                size //= 2
    return best
