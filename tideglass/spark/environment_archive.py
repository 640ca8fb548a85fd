"""The environment of a job as one archive, for the executors of a cluster.

    bin/python          a script that starts the interpreter beside it, wherever it was unpacked
    bin/python3.N       the interpreter, and its shared library in lib/
    lib/python3.N       the standard library, and in site-packages what tideglass needs

Spark unpacks it on every executor (`--archives env.tar.gz#env`), which need no Python of their own. Spark's
own Python modules are left out: every executor has those of its Spark.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path, PurePosixPath

from tideglass.core.errors import TideglassError

#: What executors have from their own Spark.
_OF_SPARK = {"pyspark", "py4j"}
#: Parts of the standard library that no job needs.
_LEFT_OUT = {"site-packages", "dist-packages", "test", "idlelib", "tkinter", "turtledemo", "ensurepip"}
#: The first tells how a requirement is named, the second that it is of an extra.
_NAME, _EXTRA = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*"), re.compile(r";.*\bextra\b")

_LAUNCHER = """\
#!/bin/sh
# Starts the Python of this archive, wherever it was unpacked.
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
unset PYTHONHOME
LD_LIBRARY_PATH="$here/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
export LD_LIBRARY_PATH
exec "$here/bin/{program}" "$@"
"""


def write_environment(file: Path, more: Sequence[str] = ()) -> int:
    """Write the archive of this environment; returns how many packages it holds.

    more: names of installed packages to add with what they need, as those of a user's own functions.
    Raises TideglassError for a package that is not installed, or whose files cannot be told.
    """
    packages = needed_packages(("tideglass", *more))
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with tarfile.open(draft, "w:gz", compresslevel=1, dereference=True) as archive:
            _add_interpreter(archive)
            own = f"lib/{_program()}/site-packages"
            for package in packages:
                for source, name in _files(package):
                    archive.add(source, f"{own}/{name}", recursive=False)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return len(packages)


def needed_packages(names: Sequence[str]) -> list[Distribution]:
    """The installed packages of these names and all they need, by name; without Spark's own.

    Raises TideglassError for a name of `names` that is not installed.
    """
    found: dict[str, Distribution] = {}
    waiting = [(name, True) for name in names]
    while waiting:
        name, asked = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found or key in _OF_SPARK:
            continue
        try:
            found[key] = distribution(name)
        except PackageNotFoundError as error:
            if asked:
                raise TideglassError(
                    f"there is no package {name!r} in this environment\n"
                    "  hint: install it here, then pack again"
                ) from error
            continue  # needed on other systems or older Pythons only
        waiting += [(each, False) for each in _required(found[key])]
    return [found[key] for key in sorted(found)]


def _required(package: Distribution) -> Iterator[str]:
    for line in package.requires or ():
        name = _NAME.match(line)
        if name is not None and not _EXTRA.search(line):
            yield name[0]


def _files(package: Distribution) -> Iterator[tuple[Path, str]]:
    """The files of a package: where each is, and its name in site-packages."""
    listed = [each for each in package.files or () if ".." not in each.parts]
    metadata = [each for each in listed if each.parts[0].endswith((".dist-info", ".egg-info"))]
    code = [each for each in listed if each not in metadata]
    if package.name == "tideglass":  # as it runs here, which need not be as it was installed
        code, root = [], Path(__file__).parents[1]
        for source in sorted(root.rglob("*")):
            if source.is_file() and "__pycache__" not in source.parts:
                yield source, str(PurePosixPath(root.name, source.relative_to(root)))
    elif not code or any(each.name.startswith("__editable__") for each in code):
        raise TideglassError(
            f"the package {package.name!r} is installed as editable, so its files are elsewhere\n"
            "  hint: install it without -e, then pack again"
        )
    for each in (*code, *metadata):
        source = Path(str(package.locate_file(each)))
        if source.is_file() and each.name not in {"direct_url.json", "RECORD"}:
            yield source, str(PurePosixPath(each))


def _program() -> str:
    return f"python{sys.version_info[0]}.{sys.version_info[1]}"


def _add_interpreter(archive: tarfile.TarFile) -> None:
    program = _program()
    archive.add(Path(sys.base_prefix) / "bin" / program, f"bin/{program}")
    launcher = _LAUNCHER.format(program=program).encode()
    for name in ("python", "python3"):
        info = tarfile.TarInfo(f"bin/{name}")
        info.size, info.mode = len(launcher), 0o755
        archive.addfile(info, BytesIO(launcher))
    shared = sysconfig.get_config_var("INSTSONAME")
    folder = sysconfig.get_config_var("LIBDIR")
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and (Path(folder) / shared).is_file():
        archive.add(Path(folder) / shared, f"lib/{shared}")
    library = Path(sysconfig.get_path("stdlib"))
    for source in sorted(library.rglob("*")):
        parts = source.relative_to(library).parts
        if source.is_file() and parts[0] not in _LEFT_OUT and not parts[0].startswith("config-"):
            archive.add(source, str(PurePosixPath("lib", program, *parts)), recursive=False)
