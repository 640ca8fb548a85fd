"""docs/metrics.md lists every metric as the catalogue has it."""

from __future__ import annotations

from pathlib import Path

from tideglass.telemetry.catalogue import METRICS, NOT_MEASURED

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text().splitlines()


def test_every_metric_has_its_row():
    rows = {
        f"| `{each.name}` | {each.kind.value} | {', '.join(f'`{label}`' for label in each.labels) or '–'} "
        f"| {each.text} |"
        for each in METRICS.values()
    }
    assert {line for line in PAGE if line.startswith("| `tideglass_")} == rows


def test_every_metric_that_is_absent_has_its_reason():
    for name, reason in NOT_MEASURED.items():
        assert f"| `{name}` | {reason} |" in PAGE
