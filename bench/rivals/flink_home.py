"""Flink, from the Python package index, in an environment of its own: what it requires is older."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

PACKAGE = "apache-flink==2.3.0"
HOME = Path(__file__).parents[2] / ".cache" / "flink"

#: What a JVM takes by itself, a quarter of the machine, would depend on the machine.
HEAP = "-Xmx6g"


def flink_python() -> Path:
    """The interpreter Flink is installed for, installing it (about 850 MB, once) when it is not.

    Raises subprocess.CalledProcessError when it cannot be installed.
    """
    python = HOME / "bin" / "python"
    ready = HOME / f"{PACKAGE}.ready"
    if not ready.exists():
        print(f"installing {PACKAGE} under {HOME.relative_to(HOME.parents[1])}, once …", flush=True)
        venv.create(HOME, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, PACKAGE], check=True)
        ready.touch()
    return python


if __name__ == "__main__":
    print(flink_python(), file=sys.stdout)
