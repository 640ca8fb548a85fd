"""How the files of an ASA project are found and read: Windows paths, byte-order marks, JSON objects."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tideglass.core.bounds import ANYWHERE, Bounds, why_not_found
from tideglass.core.errors import ProjectError
from tideglass.project.jsonc import read_json, remedy

#: What a user may do where a project names a file outside of it.
REMEDY = "move it into the project, or say --allow-outside"
#: Windows' own editors write UTF-16 where they are asked for "Unicode".
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(slots=True)
class Problems:
    """Collects what is wrong with the files under `folder`, so that all of it is reported at once.

    folder: of the project.
    bounds: which files may be read.
    errors: what keeps the project from being used.
    warnings: what is read and may not mean what its writer thinks, such as a misspelt key.
    notices: what is understood and not supported, or was left unread; the project can be used without it.
    """

    folder: Path
    bounds: Bounds = ANYWHERE
    errors: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])
    notices: list[str] = field(default_factory=list[str])

    def place(self, path: Path) -> str:
        """The path as the user knows it: relative to the project."""
        return path.relative_to(self.folder).as_posix() if path.is_relative_to(self.folder) else str(path)

    def error(self, path: Path, message: str) -> None:
        self.errors.append(f"{self.place(path)}: {message}")

    def warn(self, path: Path, message: str) -> None:
        self.warnings.append(f"{self.place(path)}: {message}")

    def notice(self, path: Path, message: str) -> None:
        self.notices.append(f"{self.place(path)}: {message}")

    def path(self, base: Path, text: str, file: Path, what: str, must_exist: bool = True) -> Path | None:
        """The file `text` names, seen from `base`; None after a reported problem.

        file: where that stands. what: words for what is named, as `"FilePath" of the input 'a'`. must_exist:
        False where the reader of the file reports that it is not there.
        """
        found = named_path(base, text, self.bounds, must_exist)
        if isinstance(found, Path):
            return found
        remedy = f"; {REMEDY}" if found.outside else ""
        self.error(file, f"{what} names {text}, which {found.why}{remedy}")
        return None

    def raise_if_any(self) -> None:
        if self.errors:
            raise ProjectError("\n".join(self.errors))


def project_path(base: Path, text: str) -> Path:
    """The file `text` names, seen from the folder `base`.

    Project files are written on Windows: backslashes separate folders, and a name may differ from the
    one on disk in case. An exact match is preferred; without any match the plain path is returned.

    >>> project_path(Path("p"), "Inputs\\\\x.json").as_posix()
    'p/Inputs/x.json'
    """
    plain = Path(base, text.replace("\\", "/"))
    if plain.exists():
        return plain
    found = base
    for part in Path(text.replace("\\", "/")).parts:
        exact = found / part
        if part not in ("..", ".") and not exact.exists() and found.is_dir():
            same = sorted(entry for entry in found.iterdir() if entry.name.lower() == part.lower())
            exact = same[0] if same else exact
        found = exact
    return found if found.exists() else plain


@dataclass(frozen=True, slots=True)
class NotNamed:
    """Why a text of a project file names no file that may be used, in words that follow the text.

    outside: it lies outside of the project, where the command line may allow it.
    """

    why: str
    outside: bool = False


def named_path(base: Path, text: str, bounds: Bounds, must_exist: bool = True) -> Path | NotNamed:
    """The file or folder a project file names by `text`, seen from the folder `base`.

    Every path that stands in a project goes through here: none leads out of the bounds, by `..`, as an
    absolute path or over a symbolic link, and nothing in it is replaced. Whether a path outside exists is
    not reported. must_exist: else a path that does not exist is returned, such as a pattern of paths.
    """
    try:
        path = project_path(base, text)
        found = path.resolve().exists()
    except (OSError, ValueError, RuntimeError) as error:  # too long, a NUL in it, links in a circle
        return NotNamed(why_not_found(text) if "\0" in text else f"cannot be looked for: {_words(error)}")
    if not bounds.hold(path):
        return NotNamed("lies outside of the project", outside=True)
    return path if found or not must_exist else NotNamed(why_not_found(text))


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def read_text(path: Path, problems: Problems) -> str | None:
    """The text of a file in UTF-8, or in UTF-16 by its byte-order mark; None after a reported problem.

    The mark is left out, and a line ends in LF.
    """
    if not problems.bounds.hold(path):
        problems.error(path, f"lies outside of the project; {REMEDY}")
        return None
    try:
        data = path.read_bytes()
        encoding = "utf-16" if data.startswith(_UTF_16_MARKS) else "utf-8-sig"
        return data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        problems.error(path, "the file does not exist")
    except IsADirectoryError:
        problems.error(path, "is a folder where a file is expected")
    except UnicodeDecodeError as error:
        name = "UTF-16" if error.encoding.startswith("utf-16") else "UTF-8"
        problems.error(path, f"byte {error.start} is not {name}; save the file as UTF-8")
    except OSError as error:
        problems.error(path, f"cannot be read: {error.strerror}")
    return None


def read_object(path: Path, problems: Problems) -> dict[str, Any] | None:
    """The JSON object a file holds; None after a reported problem, which names line and column."""
    text = read_text(path, problems)
    if text is None:
        return None
    try:
        value = read_json(text)
    except json.JSONDecodeError as error:
        advice = remedy(error)
        message = f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        problems.error(path, f"{message}; {advice}" if advice else message)
        return None
    except RecursionError:
        problems.error(path, "nested too deeply to be read")
        return None
    if not isinstance(value, dict):
        problems.error(path, f"holds {json_kind(value)} where an object {{...}} is expected")
        return None
    return cast("dict[str, Any]", value)


def json_kind(value: object) -> str:
    """The JSON kind of a value, in words for messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case str():
            return "a text"
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return "a number"


def text_of(
    content: Mapping[str, Any], key: str, path: Path, problems: Problems, required: bool = True
) -> str | None:
    """The non-empty text under `key`; None after a reported problem, or when it is absent and optional."""
    value = content.get(key)
    if isinstance(value, str) and value.strip():
        return value.strip()
    if value is None or value == "":
        if required:
            problems.error(path, f'"{key}" is missing')
    else:
        problems.error(path, f'"{key}" is {json_kind(value)} where a text is expected')
    return None
