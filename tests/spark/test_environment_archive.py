"""`tideglass pack`: an archive with which executors run that have no tideglass of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.cluster import ROOT, Machine, bare_python, driver_environment, running_cluster
from tideglass.core.errors import TideglassError
from tideglass.spark.environment_archive import needed_packages

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from tideglass.spark.session.java import use_java
import tideglass

use_java()
builder = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false")
builder = builder.config("spark.archives", sys.argv[2] + "#env").config("spark.sql.shuffle.partitions", "1")
spark = builder.getOrCreate()
rows = [(f"2026-01-01T00:00:0{second}Z",) for second in range(8)]
query = "SELECT COUNT(*) AS n INTO o FROM i TIMESTAMP BY t GROUP BY TumblingWindow(second, 3)"
found = tideglass.query(spark, query, {"i": spark.createDataFrame(rows, "t string")})["o"]
print(json.dumps([row.n for row in found.collect()]))

def place(_):
    import sys, tideglass
    yield sys.executable, tideglass.__file__

print(json.dumps(spark.sparkContext.parallelize([0], 1).mapPartitions(place).collect()[0]))
spark.stop()
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pack") / "env.tar.gz"
    command = [sys.executable, "-m", "tideglass.cli.main", "pack", "-o", str(file)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"--archives {file}#env" in done.stdout
    return file


@pytest.mark.usefixtures("java")
def test_executors_whose_python_has_nothing_run_a_query_with_the_archive(
    archive: Path, tmp_path: Path
) -> None:
    home = tmp_path / "driver"
    (home / "env").mkdir(parents=True)
    subprocess.run(["tar", "-xzf", archive, "-C", home / "env"], check=True)
    alone = [home / "env/bin/python", "-c", "import tideglass.testing, sys; print(sys.prefix)"]
    printed = subprocess.run(alone, env={}, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert printed.stdout.strip() == str(home / "env"), printed.stderr
    with running_cluster(tmp_path, (Machine(python=bare_python(tmp_path / "bare")),)) as cluster:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, cluster.master, str(archive)],
            env=driver_environment({"PYSPARK_PYTHON": "./env/bin/python"}),
            cwd=home,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr + cluster.logs()
    counts, (interpreter, module) = (json.loads(line) for line in done.stdout.splitlines()[-2:])
    assert counts == [1, 3, 3, 1]
    assert Path(interpreter).is_relative_to(tmp_path / "worker-0")
    assert Path(module).is_relative_to(tmp_path / "worker-0")


def test_what_tideglass_needs_is_packed_and_spark_is_not() -> None:
    packed = {each.name.lower() for each in needed_packages(["tideglass"])}
    assert {"tideglass", "pyarrow", "duckdb", "numba", "llvmlite", "pandas"} <= packed
    assert not {"pyspark", "py4j", "pytest", "pyright"} & packed
    assert "pytest" in {each.name for each in needed_packages(["tideglass", "pytest"])}


def test_a_package_that_is_not_installed_is_told_of() -> None:
    with pytest.raises(TideglassError, match="there is no package 'nowhere-at-all' in this environment"):
        needed_packages(["nowhere-at-all"])
