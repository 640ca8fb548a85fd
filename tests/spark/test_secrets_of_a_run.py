"""A run that sends rows to services and fails: what they got, and that no secret is left or shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.http_outputs import endpoints, for_rows
from support.http_service import HttpService, Received, Says, an_http_service
from support.stores import free_port

pytestmark = pytest.mark.spark

CANARIES = {
    "FUNCTION_KEY": "canary-of-function/5b1f+0e==",
    "Outputs_refused_DataSource_SharedAccessPolicyKey": "canary-of-queue/77d0+1f==",
    "STORE_KEY": "canary-of-store/91aa+2c==",
}
LITERAL = "canary-of-project/c0de+3d=="
QUERY = """
SELECT a, a * 2 AS twice INTO hot FROM clicks
SELECT a INTO refused FROM clicks
"""
UI_PAGES = ("environment/", "SQL/", "jobs/", "stages/", "executors/")


@pytest.fixture
def service() -> Iterator[HttpService]:
    with an_http_service() as running:
        yield running


def project(folder: Path) -> Path:
    files = {
        "job.asaql": QUERY,
        "Inputs/Local_clicks.json": {"InputAlias": "clicks", "Format": "Json", "FilePath": "clicks.txt"}
        | {"Type": "Data Stream", "ScriptType": "InputMock"},
        "Inputs/clicks.txt": "\n".join(json.dumps({"a": n}) for n in range(250)),
        "Outputs/hot.json": {
            "Name": "hot",
            "DataSourceType": "Azure Function",
            "ScriptType": "Output",
            "AzureFunctionProperties": {
                "FunctionAppName": "toll",
                "FunctionName": "hot",
                "ApiKey": "${FUNCTION_KEY}",
                "RowIdColumn": "row_id",
            },
        },
        "Outputs/refused.json": {
            "Name": "refused",
            "DataSourceType": "Service Bus Queue",
            "ScriptType": "Output",
            "ServiceBusQueueProperties": {
                "ServiceBusNamespace": "toll",
                "QueueName": "refused",
                "SharedAccessPolicyName": "send",
                "SharedAccessPolicyKey": None,
            },
        },
        "Outputs/unused.json": {
            "Name": "unused",
            "DataSourceType": "Service Bus Topic",
            "ScriptType": "Output",
            "ServiceBusTopicProperties": {
                "ServiceBusNamespace": "toll",
                "TopicName": "unused",
                "SharedAccessPolicyName": "send",
                "SharedAccessPolicyKey": LITERAL,
            },
        },
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def command_lines() -> str:
    """The arguments of every process of this machine, as anyone sees them."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:  # has ended
            continue
    return "\n".join(found)


def pages_of_spark(port: int) -> str:
    """What Spark's UI shows while the run lasts; its page of settings asks another address for these."""
    applications = json.loads(answer_of(port, "api/v1/applications"))
    settings = [f"api/v1/applications/{each['id']}/environment" for each in applications]
    return "\n".join(answer_of(port, page) for page in (*UI_PAGES, *settings))


def answer_of(port: int, page: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=10) as answer:
        return answer.read().decode()


def text_of_all_files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    yield from ((path, path.read_bytes()) for path in folder.rglob("*") if path.is_file())


def rows_of_function(service: HttpService) -> dict[str, tuple[int, int]]:
    """What the function has taken, by the id of the row."""
    calls = [each for each in service.accepted if each.path == "/api/hot"]
    return {row["row_id"]: (row["a"], row["twice"]) for each in calls for row in each.json}


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks at /proc")
def test_a_run_that_fails_leaves_and_shows_no_secret(service: HttpService, tmp_path: Path) -> None:
    seen: list[str] = []
    ui_port = free_port()
    busy = iter([Says(503, b"busy", {"Retry-After": "0"})])

    def says(request: Received) -> Says:
        if request.path == "/api/hot":
            return next(busy, Says())
        if len(rows_of_function(service)) < 250:
            return Says(503, b"busy", {"Retry-After": "0"})
        seen.append(command_lines())
        seen.append(pages_of_spark(ui_port))
        echoed = json.dumps([request.headers, *CANARIES.values()])  # a service that answers with what it got
        return Says(401, echoed.encode())

    service.says = for_rows(says)
    folder, runs = project(tmp_path / "project"), tmp_path / "run"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tideglass.cli.main", "run", str(folder), "--live", "--once", "--ui"),
            *("--run-dir", str(runs), "--debug", "--conf", f"spark.ui.port={ui_port}"),
            *("--conf", "spark.hadoop.fs.azure.account.key.toll.dfs.core.windows.net=${STORE_KEY}"),
        ],
        env=os.environ | CANARIES | {"TIDEGLASS_ENDPOINTS": endpoints(service)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "refuses access (401)" in done.stderr
    assert "***" in done.stderr
    assert sorted(rows_of_function(service).values()) == [(n, 2 * n) for n in range(250)]
    assert "org.apache.spark.deploy.SparkSubmit" in seen[0]
    assert "fs.azure.account.key.toll" in seen[1]
    assert "canary" not in done.stdout + done.stderr
    assert "canary" not in "\n".join(seen[1::2]), "Spark's UI"
    shown = [line[:300] for lines in seen[::2] for line in lines.splitlines() if "canary-of" in line]
    assert not shown, "arguments of processes"
    left = [
        str(path)
        for base in (runs, folder / "LocalRunOutputs", folder / ".tideglass")
        for path, content in text_of_all_files(base)
        if b"canary" in content
    ]
    assert not left
