"""A standalone Spark cluster, machines whose Python lacks something, and drivers of jobs on it.

A process has one Spark context, and that of the tests is local: a job on the cluster has a driver of its own.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "cluster"))

from standalone import Cluster, Machine, running_cluster

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "tideglass.cli.main")
#: A worker whose `python3` is the interpreter of the tests, with the tideglass that is tested.
COMPLETE = Machine(python_path=(ROOT,))

__all__ = ["COMMAND", "COMPLETE", "ROOT", "Cluster", "Machine", "bare_python", "driver_environment"]
__all__ += ["machine_with_others", "run_driver", "running_cluster"]


def bare_python(folder: Path) -> Path:
    """A new interpreter of this version without any package."""
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def machine_with_others(folder: Path) -> Machine:
    """A complete one that has two more interpreters.

    bare-python: without any package. other-python: with another version of tideglass.
    """
    bare = bare_python(folder / "bare")
    other = folder / "other"
    about = other / "tideglass-9.9.dist-info" / "METADATA"
    about.parent.mkdir(parents=True)
    about.write_text("Metadata-Version: 2.1\nName: tideglass\nVersion: 9.9\n")
    paths = f'PYTHONPATH={shlex.quote(str(other))}:"$PYTHONPATH"'
    programs = {
        "bare-python": f"env -u PYTHONPATH {shlex.quote(str(bare))}",
        "other-python": f"env {paths} {shlex.quote(sys.executable)}",
    }
    return Machine(python_path=(ROOT,), programs=programs)


def driver_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of a driver: the tideglass that is tested, and workers with whatever `python3` is on their machine."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    return {
        **own,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": "python3",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONUNBUFFERED": "1",
        **(more or {}),
    }


def run_driver(
    program: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    most_seconds: float = 240.0,
) -> str:
    """Run a Python program as the driver of a job; what it printed. Raises AssertionError when it fails."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=driver_environment(environment),
        timeout=most_seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
