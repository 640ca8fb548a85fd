"""What docs/cluster.md shows runs on a real cluster as it stands there, and what it lists is what holds."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from support.cluster import ROOT, Cluster, driver_environment
from support.job_in_process import RunInProcess
from tideglass.connect.files.written_rows import read_rows
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.project.project import load_project
from tideglass.spark.session.spark_settings import PARTITIONS, REQUIRED_OF_JOBS, SETTINGS

PAGE = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
MASTER = "spark://node1:7077"


def commands() -> list[str]:
    found = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return [line for block in found for line in block.splitlines()]


def rows_of(project: Path) -> dict[str, list[str]]:
    return {
        folder.name: sorted(repr(row) for row in read_rows(folder))
        for folder in (project / "LocalRunOutputs").iterdir()
    }


def test_the_page_names_every_setting_of_ours_with_what_it_is() -> None:
    for name, required in REQUIRED_OF_JOBS.items():
        value = required.value.rpartition(".")[2]
        assert f"| `{name}` | `{value}` | {required.why} |" in PAGE
    for name in (*SETTINGS, PARTITIONS):
        assert f"`{name}`" in PAGE, name


def test_every_command_of_the_page_runs_and_each_run_gives_the_rows_of_the_laptop(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = f"{Path(sys.executable).parent}:{driver_environment()['PATH']}"
    expected: dict[str, list[str]] = {}
    assert len(commands()) == 8
    for command in commands():
        done = subprocess.run(
            ["bash", "-c", command.replace(MASTER, cluster.master).replace("///tmp", f"//{tmp_path}")],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=driver_environment({"PATH": path}),
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        if command.startswith("tideglass new"):
            heat = tmp_path / "heat"
            job = plan_job(load_project(heat), RunOptions(once=True, run_directory=tmp_path / "alone"))
            with RunInProcess(job) as alone:
                alone.batches()
            expected = rows_of(heat)
            assert all(expected.values())
            shutil.rmtree(heat / "LocalRunOutputs")
        elif " --once" in command:
            assert rows_of(heat) == expected, command
        if " --master" in command:
            assert MASTER in command
    assert [each for each in tmp_path.iterdir() if each.name.startswith(("app-", "local-", "eventlog"))]
