"""What was measured, for people as tables and for programs as JSON."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from rich.table import Table

from figures import Figures, Round, Verdict
from restarts import RestartOutcome
from scenarios import Scenario

MEMORY_NOTE = "peak MiB: PSS of the process tree"


@dataclass(slots=True)
class Outcome:
    """One scenario: agreement by entrant in words, rounds by entrant, and what follows from them."""

    scenario: Scenario
    events: int = 0
    small_events: int = 0
    agreement: dict[str, str] = field(default_factory=dict[str, str])
    rounds: dict[str, list[Round]] = field(default_factory=dict[str, list[Round]])
    figures: dict[str, Figures] = field(default_factory=dict[str, Figures])
    verdicts: list[Verdict] = field(default_factory=list[Verdict])
    failure: str = ""


def table(outcome: Outcome) -> Table:
    """The figures of a scenario, a line an entrant, the bars beside what they are about."""
    scenario, batches = outcome.scenario, outcome.scenario.batches
    first = outcome.figures[scenario.entrants[0].name]
    rounds = len(outcome.rounds[scenario.entrants[0].name])
    size = f"{outcome.events:,} events" + ("" if batches else f" less {outcome.small_events:,}")
    made = Table(
        title=f"{scenario.name}: {scenario.title}\n{size}, medians of {rounds}; {MEMORY_NOTE}",
        caption=scenario.left_out or None,
    )
    measured = ("median batch s",) if batches else ("events/s", "ours ×", "CPU s / M events")
    for column in ("engine", *measured, "peak MiB", "bars"):
        made.add_column(column, justify="left" if column in ("engine", "bars") else "right", no_wrap=True)
    for entrant in scenario.entrants:
        figures = outcome.figures.get(entrant.name)
        if figures is None:
            continue
        if batches:
            cells = [f"{median(figures.batch_seconds):.3f}" if figures.batch_seconds else "–"]
        else:
            ratios = [mine / theirs for mine, theirs in zip(first.rates, figures.rates, strict=False)]
            cells = [_bound(median(figures.rates), "<", figures), _bound(median(ratios), ">", figures)]
            cells.append(f"{median(figures.cpu_seconds_per_million):.2f}")
        made.add_row(
            entrant.name,
            *cells,
            f"{median(figures.peaks_mib):,.0f}",
            "\n".join(
                _verdict(each) for each in outcome.verdicts if _stands_by(scenario, each) == entrant.name
            ),
        )
    return made


def _stands_by(scenario: Scenario, verdict: Verdict) -> str:
    return verdict.bar.against or scenario.entrants[0].name


def _bound(value: float, sign: str, figures: Figures) -> str:
    """A figure; with its sign if it is only a bound."""
    if not 0 < value < math.inf:
        return "too few events"
    text = f"{value:,.0f}" if value > 1_000 else f"{value:.2f}"
    return text if figures.finished else f"{sign} {text}"


def _verdict(verdict: Verdict) -> str:
    word = "[green]met[/]" if verdict.reached else "[red]missed[/]"
    sign = {"rate": "≥ ", "batch": "< ", "evenness": "1 ± "}.get(verdict.bar.kind, "≤ ")
    return f"{verdict.bar.kind} {verdict.value:.2f} (bar {sign}{verdict.bar.limit:g}) {word}"


def write(path: Path, options: Mapping[str, Any], outcomes: Sequence[Outcome | RestartOutcome]) -> None:
    """Everything measured so far, with every single run."""
    said = {
        "machine": {
            "cores": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
        },
        "versions": {name: version(name) for name in ("pyspark", "duckdb", "pyarrow", "numpy")},
        "options": dict(options),
        "scenarios": [_json(each) if isinstance(each, Outcome) else each.json() for each in outcomes],
    }
    path.write_text(json.dumps(said, indent=1) + "\n")


def _json(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.scenario.name,
        "title": outcome.scenario.title,
        "events": outcome.events,
        "small_events": outcome.small_events,
        "agreement": outcome.agreement,
        "failure": outcome.failure,
        "left_out": outcome.scenario.left_out,
        "figures": {name: _figures(figures) for name, figures in outcome.figures.items()},
        "bars": [
            {"bar": each.bar.text, "measured": each.value, "reached": each.reached}
            for each in outcome.verdicts
        ],
        "runs": {name: [asdict(each) for each in rounds] for name, rounds in outcome.rounds.items()},
    }


def _figures(figures: Figures) -> dict[str, Any]:
    """JSON knows no infinity: a rate that too few events could not tell is null."""
    return {**asdict(figures), "rates": [each if math.isfinite(each) else None for each in figures.rates]}
