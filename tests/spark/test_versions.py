"""Which Sparks are taken, and that one that is not supported is refused before anything of it is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tideglass.core.errors import TideglassError
from tideglass.spark.versions import REQUIREMENT, SUPPORTED, check_version, installed_version, release

pytestmark = pytest.mark.versions

ROOT = Path(__file__).parents[2]


def test_pyproject_asks_for_the_supported_versions():
    assert f'"{REQUIREMENT.strip(chr(39))}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_installed_spark_is_supported():
    import pyspark

    assert installed_version() == pyspark.__version__
    assert release(installed_version()) in SUPPORTED


@pytest.mark.parametrize("version", ["3.5.9", "4.1.4", "4.4.0", "5.0.0.dev1", "unknown"])
def test_other_versions_are_refused_in_one_sentence_with_the_remedy(version: str):
    with pytest.raises(TideglassError) as refused:
        check_version(version)
    told, hint = str(refused.value).split("\n")
    assert told == f"[SPARK_VERSION] pyspark is {version}, and tideglass runs on Spark 4.2 and 4.3"
    assert REQUIREMENT in hint


def test_an_old_spark_is_refused_before_it_is_imported(tmp_path: Path):
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "version.py").write_text('__version__: str = "4.1.4"\n')
    told = subprocess.run(
        [sys.executable, "-c", "import tideglass; tideglass.FrameInput"],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "[SPARK_VERSION] pyspark is 4.1.4, and tideglass runs on Spark 4.2 and 4.3" in told.stderr
    assert told.stderr.splitlines()[-1] != "imported"


BATCH = """
import sys
import tideglass
from tideglass.spark.session.spark_session import local_session

spark = local_session(1)
rows = [("a", f"2026-01-01T00:00:0{second}Z") for second in range(8)]
answer = tideglass.query(
    spark,
    "SELECT COUNT(*) AS n INTO out FROM i TIMESTAMP BY t GROUP BY TumblingWindow(second, 3)",
    {"i": spark.createDataFrame(rows, "k string, t string")},
)
print([row.n for row in answer["out"].collect()])
"""


@pytest.mark.usefixtures("java")
def test_a_window_over_finished_dataframes_needs_no_stream_before_it():
    done = subprocess.run([sys.executable, "-c", BATCH], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["[1, 3, 3, 1]"], done.stderr[-2000:]
