"""Workers of Spark that cannot run a query are told of in one sentence, the remedy first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tideglass.core.errors import TideglassError
from tideglass.spark.errors import explained
from tideglass.spark.interpreter import see_interpreter, see_planner, see_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMEDY = f"Set PYSPARK_PYTHON={sys.executable} before the Spark session is made"
WORKERS = "the Python of Spark's workers"


def program(folder: Path, text: str) -> str:
    """A program that answers as some Python would."""
    file = folder / "python3"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def session(python: str, master: str = "local[2]") -> SparkSession:
    return cast(
        "SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(master=master, pythonExec=python))
    )


def test_a_python_without_the_packages_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    bare = program(tmp_path, f'exec {sys.executable} -I -S "$@"')
    with pytest.raises(TideglassError) as caught:
        see_interpreter(session(bare))
    wanted = f"{REMEDY}: {WORKERS}, {bare}, has no package tideglass, pyarrow, duckdb."
    assert str(caught.value) == wanted


def test_a_python_of_another_version_is_told_of(tmp_path: Path):
    old = program(tmp_path, "echo 3.8; echo")
    with pytest.raises(TideglassError) as caught:
        see_program(old)
    assert str(caught.value).startswith(f"{REMEDY}: {WORKERS}, {old}, is Python 3.8, and this")


@pytest.mark.parametrize("text", [None, "exit 3"])
def test_a_python_that_does_not_start_is_told_of(tmp_path: Path, text: str | None):
    broken = str(tmp_path / "none") if text is None else program(tmp_path, text)
    with pytest.raises(TideglassError) as caught:
        see_program(broken)
    assert str(caught.value).startswith(f"{REMEDY}: {WORKERS}, {broken}, cannot be started (")


def test_our_own_python_is_not_looked_at():
    see_program(sys.executable)
    see_planner(session(sys.executable, "spark://elsewhere:7077"))


def test_the_python_that_plans_on_this_machine_for_others_is_told_of(tmp_path: Path):
    bare = program(tmp_path, f'exec {sys.executable} -I -S "$@"')
    with pytest.raises(TideglassError) as caught:
        see_planner(session(bare, "spark://elsewhere:7077"))
    sentence, hint = str(caught.value).splitlines()
    assert sentence.startswith(
        f"Spark plans a job with {bare} on this machine, as executors run it with theirs"
    )
    assert "here it has no package" in sentence
    assert hint.startswith(f"  hint: have {sys.executable} be {bare} on the PATH")
    see_planner(session(bare))  # there the workers are those of this machine, and looked at


TOLD = {
    "ModuleNotFoundError: No module named 'tideglass'": (
        f"{REMEDY}, or install tideglass for {WORKERS}: it has no module tideglass."
    ),
    "ModuleNotFoundError: No module named 'pyarrow.lib'": (
        f"{REMEDY}, or install pyarrow.lib for {WORKERS}: it has no module pyarrow.lib."
    ),
    "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9"
    " than that in driver: 3.11, PySpark cannot run with different minor versions.": (
        f"{REMEDY}: the Python of Spark's workers is of another version, 3.9."
    ),
    "PySparkImportError: [PACKAGE_NOT_INSTALLED] PyArrow >= 15.0.0 must be installed; however": (
        f"{REMEDY}, or install PyArrow >= 15.0.0 for {WORKERS}: it has none, or an older one."
    ),
    'java.io.IOException: Cannot run program "python3": error=2, No such file or directory': (
        f"{REMEDY}: Spark cannot start the Python of its workers, python3."
    ),
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)": (
        "Take fewer --cores or a smaller --batch-mb: a Python worker exited unexpectedly, as one does that "
        "the system ends for want of memory."
    ),
    "java.lang.OutOfMemoryError: Java heap space": (
        "Raise TIDEGLASS_DRIVER_MEMORY, or take a smaller --batch-mb: Spark's JVM has no memory left "
        "(Java heap space)."
    ),
}


@pytest.mark.parametrize("said", TOLD)
def test_what_spark_says_of_its_workers_becomes_one_sentence(said: str):
    account = f"Job aborted\nTraceback (most recent call last):\n  File x\n{said}\n\tat org.apache.A.b(A:1)\n"
    plan = "=== Streaming Query ===\nIdentifier: 1\n" + "+- Project\n" * 60
    assert str(explained(account + plan)) == TOLD[said]


def test_an_error_of_ours_is_told_whatever_else_spark_says():
    said = "tideglass.core.errors.InputError: no file\n\nDuring handling\nNo module named 'tideglass'"
    assert str(explained(said)) == "no file"


OF_ANOTHER_SESSION = """
from pyspark.sql import SparkSession
import tideglass
from tideglass.spark.session.java import use_java
use_java()
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
df = spark.createDataFrame([("2026-01-01T00:00:00Z", 1)], "t string, a int")
try:
    tideglass.query(spark, "SELECT a INTO o FROM i TIMESTAMP BY t", {"i": df})
except tideglass.core.errors.TideglassError as error:
    print(f"told: {error}")
"""


def test_a_session_of_the_user_without_the_variable_is_refused_before_it_runs(java: None, tmp_path: Path):
    bare = program(tmp_path, f'exec {sys.executable} -I -S "$@"')
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", OF_ANOTHER_SESSION],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("told: ")]
    assert len(told) == 1, done.stdout + done.stderr
    assert told[0].startswith(f"told: {REMEDY}: {WORKERS}, python3, has no package")
    assert Path(bare).exists()
