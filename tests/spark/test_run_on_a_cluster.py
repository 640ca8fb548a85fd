"""A project runs on a cluster by the command, by spark-submit and in a session of a user: the same rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pyspark
import pytest

from support.cluster import COMMAND, Cluster, driver_environment, run_driver
from support.job_in_process import RunInProcess
from support.project_on_disk import OnDisk, disordered
from tideglass.cli.launcher_path import LAUNCHER
from tideglass.job.directory import JobDirectory
from tideglass.job.report.run_journal import read_runs

#: The environment of the tests as if somebody had activated it.
ACTIVATED = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
Rows = Mapping[str, list[str]]


def project_in(folder: Path) -> OnDisk:
    project = OnDisk(folder, cast("Any", None)).make()
    for partition in range(2):
        project.put(f"{partition}/a.json", disordered(partition, 300))
    return project


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """What the project's outputs hold after a run without Spark."""
    project = project_in(tmp_path_factory.mktemp("alone"))
    with RunInProcess(project.job()) as alone:
        alone.batches()
    rows = project.all_rows()
    assert all(rows.values())
    return rows


def ran(words: list[str], environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=driver_environment(environment),
        timeout=300,
        check=False,
    )


def test_a_project_on_a_cluster_obeys_the_users_settings_and_gives_the_rows_of_a_run_alone(
    cluster: Cluster, expected: Rows, tmp_path: Path
) -> None:
    project = project_in(tmp_path / "job")
    (tmp_path / "conf").mkdir()
    (tmp_path / "events").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled  true\nspark.eventLog.dir=file://{tmp_path / 'events'}\n"
        "spark.eventLog.rolling.enabled false\nspark.eventLog.compress false\n"
        "spark.speculation true\nspark.app.name by-the-file\n"
    )
    words = ["--conf", "spark.app.name=by-the-command", "--conf", "spark.hadoop.fs.x.secret.key=${KEY}"]
    words += ["--conf", "spark.hadoop.fs.y.password=hidden", "--conf", "spark.log.level=INFO"]
    done = ran(
        [*COMMAND, "run", str(project.folder), "--once", "--master", cluster.master, *words],
        {"SPARK_CONF_DIR": str(tmp_path / "conf"), "KEY": "kept-nowhere"},
    )
    assert done.returncode == 0, done.stdout
    assert project.all_rows() == expected
    assert "note: spark.speculation is false, not true, since two attempts" in done.stdout
    (log,) = (tmp_path / "events").iterdir()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    (settings,) = (each["Spark Properties"] for each in events if each["Event"].endswith("EnvironmentUpdate"))
    assert settings["spark.app.name"] == "by-the-command"
    assert settings["spark.speculation"] == "false"
    assert len([each for each in events if each["Event"].endswith("ExecutorAdded")]) == 2
    directory = JobDirectory.of_project(project.folder)
    assert " INFO " in directory.spark_log.read_text()
    arguments = read_runs(directory.journal)[-1].start.arguments or ()
    assert "spark.hadoop.fs.x.secret.key=${KEY}" in arguments
    assert "spark.hadoop.fs.y.password=(not kept)" in arguments
    assert not [
        path
        for path in directory.path.local.rglob("*")
        if path.is_file() and b"kept-nowhere" in path.read_bytes()
    ]


def test_spark_submit_runs_a_project_by_the_launcher(
    cluster: Cluster, expected: Rows, tmp_path: Path
) -> None:
    project = project_in(tmp_path / "job")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    words = [str(submit), "--master", cluster.master, str(LAUNCHER), "run", str(project.folder), "--once"]
    done = ran(words, ACTIVATED)
    assert done.returncode == 0, done.stdout
    assert project.all_rows() == expected
    assert "2 executors" in done.stdout


OF_THE_USER = """
import sys, warnings
from pyspark.sql import SparkSession
from tideglass.spark.session.java import use_java
import tideglass

use_java()
builder = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false")
spark = (tideglass.configure(builder) if sys.argv[3:] else builder).getOrCreate()
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    tideglass.Job.load(sys.argv[2], once=True).run(spark=spark)
print("still there:", spark.range(3).count())
for each in warned:
    print("warning:", each.message)
"""


@pytest.mark.parametrize("configured", [False, True])
def test_a_session_of_the_user_runs_a_project_and_hears_once_what_is_slower(
    cluster: Cluster, expected: Rows, tmp_path: Path, configured: bool
) -> None:
    project = project_in(tmp_path / "job")
    more = ["configured"] if configured else []
    printed = run_driver(OF_THE_USER, cluster.master, str(project.folder), *more, environment=ACTIVATED)
    assert project.all_rows() == expected
    assert "still there: 3" in printed
    assert printed.count("tideglass.configure(SparkSession.builder)") == (0 if configured else 1)


@pytest.mark.parametrize(
    ("python", "wrong"),
    [
        ("bare-python", "bare-python has no package tideglass"),
        ("other-python", "has tideglass 9.9, and this is tideglass"),
        ("no-python", "they have no program no-python"),
    ],
)
def test_executors_whose_python_does_not_fit_are_refused_in_one_sentence(
    cluster: Cluster, tmp_path: Path, python: str, wrong: str
) -> None:
    project = project_in(tmp_path / "job")
    done = ran(
        [*COMMAND, "run", str(project.folder), "--once", "--master", cluster.master],
        {"PYSPARK_PYTHON": python},
    )
    assert done.returncode == 1
    sentence, hint = done.stdout.strip().splitlines()
    assert sentence.startswith("The Python of Spark's executors cannot run a query: ")
    assert wrong in sentence
    assert hint.startswith("  hint: install tideglass ")
    assert not (project.folder / "LocalRunOutputs").exists()
