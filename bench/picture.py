"""Rates of all entrants as one picture, from the results of one or several benchmarks.

python bench/picture.py bench/results.json … --to rates.svg
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from scenarios import FLOOR
from tideglass.simulate.picture.canvas import INK, SERIES, SOFT, checked, figure, save, style

#: The engine measured, then its rivals, each with its colour; a name not here has the last.
_COLOURS = {
    "tideglass": SERIES[0],
    "flink heap": SERIES[1],
    "flink rocksdb": SERIES[4],
    "structured streaming": SERIES[2],
}


@dataclass(frozen=True, slots=True)
class Rates:
    """Median rates of one scenario, by entrant, in events per second; of those stopped, a bound.

    ratios: how many times a rate the first entrant's is, the median of the rounds' ratios.
    """

    title: str
    rates: Mapping[str, float]
    ratios: Mapping[str, float]
    bounds: frozenset[str]


def rates_of(results: Mapping[str, Any]) -> list[Rates]:
    """The scenarios of a results file that have rates of rivals."""
    found: list[Rates] = []
    for scenario in results["scenarios"]:
        figures: Mapping[str, Any] = scenario.get("figures", {})
        rounds = {name: each["rates"] for name, each in figures.items() if name != FLOOR.name}
        ours: Sequence[float | None] = next(iter(rounds.values()), ())
        rates: dict[str, float] = {}
        ratios: dict[str, float] = {}
        for name, theirs in rounds.items():
            pairs = [(mine, rate) for mine, rate in zip(ours, theirs, strict=False) if mine and rate]
            if pairs:
                rates[name] = median(rate for _, rate in pairs)
                ratios[name] = median(mine / rate for mine, rate in pairs)
        if len(rates.keys() & _COLOURS.keys()) > 1:
            stopped = frozenset(name for name in rates if not figures[name]["finished"])
            found.append(Rates(f"{scenario['name']}\n{scenario['title']}", rates, ratios, stopped))
    return found


def draw(scenarios: Sequence[Rates], path: Path) -> None:
    """A row of bars for each scenario, the longest rate as wide as the picture."""
    bars = [len(each.rates) for each in scenarios]
    shown = figure(9, 0.9 + sum(0.62 + 0.27 * count for count in bars))
    axes: Any = shown.subplots(
        len(scenarios), 1, height_ratios=[count + 1.2 for count in bars], squeeze=False
    )
    for each, (axis,) in zip(scenarios, axes, strict=True):
        most = max(each.rates.values())
        for place, (name, rate) in enumerate(each.rates.items()):
            axis.barh(place, rate, height=0.72, color=_COLOURS.get(name, SOFT))
            told = f"{rate:,.0f} events/s" if place == 0 else f"{rate:,.0f}"
            if place:
                told += f"  (ours {'more than ' if name in each.bounds else ''}{each.ratios[name]:.1f} ×)"
            axis.text(rate + most * 0.008, place, told, va="center", fontsize=9, color=INK)
        axis.set_yticks(range(len(each.rates)), list(each.rates))
        axis.invert_yaxis()
        axis.set_xlim(0, most * 1.22)
        style(axis)
        axis.grid(visible=False)
        axis.set_xticks([])
        axis.spines["bottom"].set_visible(False)
        name, _, what = each.title.partition("\n")
        axis.set_title(f"{name}: {what}", loc="left", fontsize=9.5, color=INK)
    save(shown, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the rates of results files.")
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--to", type=checked, required=True, help="an SVG or PNG file")
    options = parser.parse_args()
    draw([rates for path in options.results for rates in rates_of(json.loads(path.read_text()))], options.to)


if __name__ == "__main__":
    main()
