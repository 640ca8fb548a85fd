"""The dashboard, the alerts and the configurations of the example name what a job really exposes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tideglass.telemetry.catalogue import JOB_LABEL, METRICS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "observability"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
ALERTS = (FOLDER / "alerts.yml").read_text()
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
#: The kinds of panel that come with Grafana and are used here.
KINDS = {"row", "stat", "timeseries"}


def queries() -> Iterator[str]:
    for panel in PANELS:
        yield from (target["expr"] for target in panel.get("targets", ()))


def selectors(text: str) -> Iterator[tuple[str, str]]:
    """Name and labels of every metric of ours a text names."""
    yield from re.findall(r"\b(tideglass_\w+)(?:\{([^}]*)\})?", text)


@pytest.mark.parametrize("query", [*dict.fromkeys(queries()), ALERTS])
def test_every_metric_and_label_that_is_named_exists(query: str):
    found = list(selectors(query))
    assert found
    for name, labels in found:
        assert name in METRICS
        own = {JOB_LABEL, *METRICS[name].labels}
        assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels)) <= own, name


def test_a_legend_names_labels_its_query_keeps():
    for panel in PANELS:
        for target in panel.get("targets", ()):
            wanted = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            grouped = re.findall(r"by \(([^)]*)\)", target["expr"])
            (name, _), *_ = selectors(target["expr"])
            kept = (
                {each.strip() for each in grouped[0].split(",")}
                if grouped
                else {JOB_LABEL, *METRICS[name].labels}
            )
            assert wanted <= kept, panel["title"]


def test_the_dashboard_has_the_shape_grafana_loads():
    ids = [panel["id"] for panel in PANELS]
    assert len(ids) == len(set(ids))
    assert {panel["type"] for panel in PANELS} == KINDS
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, f"{panel['title']} covers another panel"
        taken |= cells
        letters = [target["refId"] for target in panel.get("targets", ())]
        assert len(letters) == len(set(letters))
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel.get("targets", ()))
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?([a-z_]+)\}?", json.dumps(PANELS))) <= variables | {"__rate_interval"}
    assert DASHBOARD["id"] is None
    assert DASHBOARD["schemaVersion"] >= 39


def test_the_dashboard_shows_every_metric_of_the_service():
    shown = {name for query in queries() for name, _ in selectors(query)}
    assert {name for name, each in METRICS.items() if each.api_name} <= shown


def test_there_are_the_six_alerts_the_page_describes():
    named = re.findall(r"- alert: (\w+)", ALERTS)
    assert len(named) == 6
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert re.findall(r"^\| `(Tideglass\w+)`", page, re.MULTILINE) == named


def promtool(*arguments: str) -> None:
    """Run Prometheus's own checker; without it the test is skipped, with the words how to get it."""
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not on PATH: it comes with Prometheus (Debian: apt install prometheus)")
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, cwd=FOLDER, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_loads_the_alerts_and_the_configuration():
    promtool("check", "config", "prometheus.yml")


def test_every_alert_fires_in_its_situation_and_none_on_a_healthy_job():
    promtool("test", "rules", str(Path(__file__).with_name("alerts.test.yml")))


def test_every_query_of_the_dashboard_parses(tmp_path: Path):
    intervals = {"$__rate_interval": "1m", "$job_name": ".*"}
    rules = {"groups": [{"name": "dashboard", "rules": []}]}
    for number, query in enumerate(dict.fromkeys(queries())):
        for variable, text in intervals.items():
            query = query.replace(variable, text)
        rules["groups"][0]["rules"].append({"record": f"query:{number}", "expr": query})  # type: ignore[attr-defined]
    file = tmp_path / "dashboard.yml"
    file.write_text(json.dumps(rules))  # JSON is YAML
    promtool("check", "rules", str(file))
