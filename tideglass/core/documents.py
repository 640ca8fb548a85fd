"""Documents: frozen dataclasses as JSON, for what crosses a process or outlives one.

A `Document` codes one dataclass by the types of its fields: what is read is what the fields say, or an error
that names the field. It holds the number of its format; one without a number has format 1. How an earlier
format becomes the next one is written in `earlier`, and nowhere else.

    dataclass     an object                      Mapping[K, V]   an object
    NamedTuple    an array, without last Nones   tuple[T, ...]   an array
    an enumeration, str, int, float, bool, None  themselves

The commands that look at a job read documents and must start at once, so this needs no package of others:
importing pydantic takes as long as all the rest of such a command.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Generic, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tideglass.core.durable import sealed, unsealed

T = TypeVar("T")
#: Takes JSON content, gives a value. Raises ValueError for content of another shape.
_Read: TypeAlias = Callable[[Any], Any]

#: The key of the format's number.
FORMAT = "format"
_SCALARS = (str, int, float, bool, NoneType)


@dataclass(frozen=True, slots=True)
class Document(Generic[T]):
    """How values of a dataclass are written and read.

    of: the dataclass.
    format: number of the format that is written; the next one when a reader of this one cannot read it.
    earlier: per earlier format, what makes its content that of the next; may change the content it is given.
    """

    of: type[T]
    format: int = 1
    earlier: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = field(default_factory=dict[int, Any])

    def plain(self, value: T) -> dict[str, Any]:
        """The document as values JSON can hold."""
        return {FORMAT: self.format, **_plain(value)}

    def of_plain(self, content: object) -> T:
        """What `plain` was given, of this format or an earlier one. Raises ValueError for anything else."""
        if not isinstance(content, dict):
            raise ValueError("it is no JSON object")
        found = dict(cast("dict[str, Any]", content))
        number = found.pop(FORMAT, 1)
        if number not in (self.format, *self.earlier):
            raise ValueError(f"it has format {number}, this version reads {self.format}")
        for each in range(number, self.format):
            try:
                found = self.earlier[each](found)
            except (TypeError, LookupError, AttributeError) as error:
                raise ValueError(f"it has format {number}, but not its shape ({error})") from error
        return _reader(self.of)(found)

    def body(self, value: T) -> bytes:
        """The document as the body of a message."""
        return json.dumps(self.plain(value), separators=(",", ":"), sort_keys=True).encode()

    def of_body(self, body: bytes) -> T:
        """What `body` was given. Raises ValueError for anything else."""
        return self.of_plain(json.loads(body))

    def text(self, value: T, indent: int | None = None) -> str:
        """The document for a file, or for a line of one: with its checksum (`core.durable`)."""
        return json.dumps(sealed(self.plain(value)), indent=indent)

    def of_text(self, text: str | bytes) -> T:
        """What `text` was given. Raises ValueError for anything else, and for another checksum."""
        return self.of_plain(unsealed(json.loads(text)))


def to_plain(value: object) -> Any:
    """A value of the types above as values JSON can hold.

    >>> to_plain({1: (2, None), "a": True})
    {'1': [2, None], 'a': True}
    """
    return _plain(value)


def of_plain(of: Any, content: object) -> Any:
    """The value of a type that `to_plain` was given. Raises ValueError for anything else.

    >>> of_plain(Mapping[int, tuple[int, ...]], {"1": [2, 3]})
    {1: (2, 3)}
    >>> of_plain(Mapping[int, int], {"1": "2"})
    Traceback (most recent call last):
    ValueError: 1: '2' is no int
    """
    return _reader(of)(content)


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            entries = cast("Mapping[Any, Any]", value).items()
            return {name if isinstance(name, str) else str(name): _plain(each) for name, each in entries}
        case tuple() | list():
            array = cast("tuple[Any, ...]", value)
            result = [each if type(each) in _SCALARS else _plain(each) for each in array]
            if hasattr(array, "_fields"):
                while result and result[-1] is None:
                    result.pop()
            return result
        case _ if is_dataclass(value):
            return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        case _:
            raise TypeError(f"{type(value).__qualname__} is no part of a document")


@cache
def _reader(of: Any) -> _Read:
    """What reads values of a type."""
    origin, arguments = get_origin(of), get_args(of)
    if origin in (UnionType, Union):
        return _optional(arguments)
    if origin is tuple:
        return _array(_reader(arguments[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _object(arguments[0], _reader(arguments[1]))
    if is_dataclass(of):
        return _dataclass(of)
    if isinstance(of, type) and hasattr(of, "_fields"):
        return _named_tuple(of)
    if isinstance(of, type) and issubclass(of, Enum):
        return of
    if of is Any:
        return lambda content: content
    return _scalar(of)


def _scalar(of: type) -> _Read:
    accepted = (int, float) if of is float else (of,)

    def read(content: Any) -> Any:
        if type(content) not in accepted:
            raise ValueError(f"{content!r} is no {of.__name__}")
        return content

    return read


def _optional(arguments: tuple[Any, ...]) -> _Read:
    (own,) = (each for each in arguments if each is not NoneType)
    inner = _reader(own)
    return lambda content: None if content is None else inner(content)


def _array(inner: _Read) -> _Read:
    def read(content: Any) -> tuple[Any, ...]:
        if type(content) not in (list, tuple):
            raise ValueError(f"{content!r} is no array")
        return tuple([inner(each) for each in content])

    return read


def _object(key: type, inner: _Read) -> _Read:
    def read(content: Any) -> dict[Any, Any]:
        if not isinstance(content, Mapping):
            raise ValueError(f"{content!r} is no object")
        found = cast("Mapping[str, Any]", content)
        return {key(name): _named(name, inner, each) for name, each in found.items()}

    return read


def _dataclass(of: Any) -> _Read:
    types = get_type_hints(of)
    readers = {each.name: _reader(types[each.name]) for each in fields(of)}
    needed = {each.name for each in fields(of) if each.default is MISSING and each.default_factory is MISSING}

    def read(content: Any) -> Any:
        if not isinstance(content, Mapping):
            raise ValueError(f"{content!r} is no object")
        found = cast("Mapping[str, Any]", content)
        if unknown := found.keys() - readers.keys():
            raise ValueError(f"{min(unknown)!r} is no field of {of.__name__}")
        if missing := needed - found.keys():
            raise ValueError(f"{of.__name__} has no {min(missing)!r}")
        return of(**{name: _named(name, readers[name], each) for name, each in found.items()})

    return read


def _named_tuple(of: Any) -> _Read:
    types = get_type_hints(of)
    readers = [_reader(types[name]) for name in of._fields]
    fewest = len(readers) - len(of._field_defaults)

    def read(content: Any) -> Any:
        if type(content) not in (list, of) or not fewest <= len(content) <= len(readers):
            raise ValueError(f"{content!r} is no {of.__name__}")
        return of(*[reader(each) for reader, each in zip(readers, content, strict=False)])

    return read


def _named(name: str, inner: _Read, content: Any) -> Any:
    try:
        return inner(content)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
