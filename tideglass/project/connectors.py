"""Inputs and outputs by the type a project file names: one table, of ours and of installed packages.

A project file can only name a type. The code of a type is our own, or that of a package the user has
installed, which declares the type as an entry point of the group `tideglass.inputs` or `tideglass.outputs`
(`docs/extending.md`):

    [project.entry-points."tideglass.outputs"]
    "Append Log" = "append_log:append_log"
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from tideglass.core.errors import ProjectError
from tideglass.core.suggest import did_you_mean
from tideglass.project.file_reader import Problems, json_kind, text_of
from tideglass.project.keys import objects_in

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_Made = TypeVar("_Made")

#: Groups of entry points.
INPUT_GROUP, OUTPUT_GROUP = "tideglass.inputs", "tideglass.outputs"


@dataclass(frozen=True, slots=True)
class Described:
    """The description of an input or output in a project file that is not a local file.

    name: its name in the query.
    type: its type, as the file spells `DataSourceType`.
    content: all of the file, in the spelling of the tools' files.
    delimiter: of CSV.
    file: the file itself.
    problems: takes what is wrong with the file.
    """

    name: str
    type: str
    content: Mapping[str, Any]
    delimiter: str
    file: Path
    problems: Problems

    @property
    def format(self) -> str:
        """The word of `Serialization` for the format, in lower case; `json` where the file has none."""
        type_name = objects_in(self.content.get("Serialization")).get("Type")
        return str(type_name or "json").strip().lower()

    def properties(self, *known: str) -> Properties:
        """The object of the type's own keys, `known`; its key is the type's name and `Properties`.

        Reports an object that is missing, and keys that are not known.
        """
        key = properties_key(self.type)
        value = next((each for name, each in self.content.items() if name.casefold() == key.casefold()), None)
        if not isinstance(value, dict):
            self.problems.error(
                self.file, f'"{key}" is {json_kind(value)} where an object {{...}} is expected'
            )
            return Properties({}, self.file, self.problems)
        values = cast("dict[str, Any]", value)
        for each in values:
            if each not in known:
                hint = did_you_mean(each, known) or f"known are {', '.join(known)}"
                self.problems.error(self.file, f'"{key}" holds {each!r}, which is not known; {hint}')
        return Properties(values, self.file, self.problems)


@dataclass(frozen=True, slots=True)
class Properties:
    """The keys of a type of input or output. What is wrong with a value is reported, and reading goes on."""

    values: Mapping[str, Any]
    file: Path
    problems: Problems

    def text(self, key: str) -> str:
        """A text that must be there; empty after a reported problem."""
        return text_of(self.values, key, self.file, self.problems) or ""

    def optional_text(self, key: str) -> str | None:
        """A text; None where there is none."""
        return text_of(self.values, key, self.file, self.problems, required=False)

    def choice(self, key: str, allowed: Sequence[str]) -> str:
        """One of `allowed`; the first where the file has none."""
        found = self.optional_text(key) or allowed[0]
        if found not in allowed:
            self.problems.error(self.file, f'"{key}" is {found!r}, it must be one of {", ".join(allowed)}')
            return allowed[0]
        return found

    def whole(self, key: str, default: int, least: int = 0) -> int:
        """A whole number, `least` or more; `default` where the file has none."""
        found = self.values.get(key, default)
        if isinstance(found, bool) or not isinstance(found, int) or found < least:
            self.problems.error(self.file, f'"{key}" is {found!r}, it must be a whole number from {least}')
            return default
        return found

    def path(self, key: str) -> Path:
        """A file or folder that must be named, seen from the folder of the project file; it need not exist.

        A path that leads out of the project is reported; see `Problems.path`.
        """
        text = self.text(key)
        base = self.file.parent
        found = self.problems.path(base, text, self.file, f'"{key}"', must_exist=False) if text else None
        return base if found is None else found.absolute()


def properties_key(type_: str) -> str:
    """The key under which a file describes what is of a type.

    >>> properties_key("Append Log"), properties_key("Kafka")
    ('AppendLogProperties', 'KafkaProperties')
    """
    return type_.replace(" ", "") + "Properties"


#: Makes what a file describes. Reports problems, or raises ProjectError; None, after a note, where the file
#: does not say enough for a live run.
Make = Callable[[Described], _Made | None]


def by_name(name: str) -> Make[Any]:
    """What makes a type, by its name below `tideglass.project`, such as `kafka.topic_output`.

    Its module is imported when a file names the type: a project has few of them, and there are many.
    """

    def make(described: Described) -> Any:
        module, _, function = name.rpartition(".")
        return getattr(import_module(f"tideglass.project.{module}"), function)(described)

    return make


@dataclass(frozen=True, slots=True)
class Connectors(Generic[_Made]):
    """What makes an input or output of each type.

    what: the word for messages.
    group: of the entry points of other packages.
    own: our own, by the type in lower case.
    """

    what: str
    group: str
    own: Mapping[str, Make[_Made]]

    def makes(self, type_: str) -> bool:
        """Whether there is something that makes what is of a type."""
        return type_.casefold() in self.own or bool(_declared(self.group, type_))

    def make(self, described: Described) -> _Made | None:
        """What the file describes; None after a reported problem, or a note."""
        problems = described.problems
        before = len(problems.errors)
        try:
            made = self._maker(described.type)(described)
        except ProjectError as error:
            problems.error(described.file, str(error))
            return None
        return made if len(problems.errors) == before else None

    def _maker(self, type_: str) -> Make[_Made]:
        """Raises ProjectError for a type that more than one package has, or whose package is broken."""
        declared, own = _declared(self.group, type_), self.own.get(type_.casefold())
        packages = [_package_of(each) for each in declared]
        if own is not None and not declared:
            return own
        if own is not None or len(declared) > 1:
            owners = [*(["tideglass"] if own else []), *packages]
            raise ProjectError(
                f"the {self.what} type {type_!r} is declared by {' and '.join(owners)}; uninstall one of them"
            )
        try:
            make = declared[0].load()
        except Exception as error:  # whatever the package does while it is imported
            raise _broken(
                f"cannot be loaded from {declared[0].value}", self.what, type_, packages[0], error
            ) from error

        def made(described: Described) -> _Made | None:
            try:
                return make(described)
            except ProjectError:
                raise
            except Exception as error:
                raise _broken("has failed", self.what, type_, packages[0], error) from error

        return made


def _broken(how: str, what: str, type_: str, package: str, error: Exception) -> ProjectError:
    return ProjectError(
        f"the {what} type {type_!r} of the package {package} {how}: {type(error).__name__}: {error}"
    )


def _declared(group: str, type_: str) -> list[EntryPoint]:
    """The entry points of installed packages for a type, whatever its case. Loads none of them."""
    return [each for each in _entries(group, tuple(sys.path)) if each.name.casefold() == type_.casefold()]


@lru_cache
def _entries(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """All entry points of a group on the path of this process."""
    from importlib.metadata import entry_points  # takes longer to import than most commands need it

    return tuple(entry_points(group=group))


def _package_of(entry: EntryPoint) -> str:
    return "of an unknown name" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
