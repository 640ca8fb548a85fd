"""A long run of the fuzzer: trial after trial until the time is over; a file for each kind of finding."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fuzz.minimise import minimised
from fuzz.targets import TARGETS, trial_of
from fuzz.watch import Watch

_TOLD_EVERY_SECONDS = 60.0


def run(
    targets: Sequence[str] | None, seed: str, seconds: float, findings: Path, trial_seconds: float
) -> int:
    """Run for so long and say what came of it; 1 if anything was found."""
    shares = {name: target.share for name, target in TARGETS.items() if target.share}
    chosen = {name: share for name, share in shares.items() if not targets or name in targets}
    print(f"seed {seed}, {seconds / 60:g} minutes, targets {', '.join(chosen)}", flush=True)
    watch = Watch(trial_seconds)
    trials: Counter[str] = Counter()
    spent = dict.fromkeys(chosen, 0.0)
    found: Counter[str] = Counter()
    began = told = time.monotonic()
    while time.monotonic() - began < seconds:
        target = min(chosen, key=lambda name: spent[name] / chosen[name])  # shares are of time
        since = time.monotonic()
        trials[target] += 1
        finding = watch.check(trial_of(target, f"{seed}:{trials[target]}"))
        spent[target] += time.monotonic() - since
        if finding is not None:
            found[finding.signature] += 1
            if found[finding.signature] == 1:
                print(f"FOUND {finding.signature} (seed {finding.trial.seed})", flush=True)
                kept = finding.keep(findings)
                smaller = minimised(finding, watch)
                smaller.keep(findings)
                print(f"  kept in {kept}", flush=True)
        if time.monotonic() - told > _TOLD_EVERY_SECONDS:
            told = time.monotonic()
            print(
                f"{(told - began) / 60:6.1f} min  {_amounts(trials)}  {len(found)} kinds of findings",
                flush=True,
            )
    watch.close()
    print(
        f"{sum(trials.values())} trials in {(time.monotonic() - began) / 60:.1f} minutes: {_amounts(trials)}"
    )
    print("slowest:", ", ".join(f"{name} {took:.1f} s" for took, name in watch.slowest))
    for signature, count in found.most_common():
        print(f"{count:6}  {signature}")
    print("nothing is broken" if not found else f"{len(found)} kinds of findings, kept in {findings}")
    return int(bool(found))


def _amounts(trials: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in trials.items())
