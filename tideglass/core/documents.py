"""Documents: frozen dataclasses as JSON, for what crosses a process or outlives one.

A `Document` codes one dataclass by the types of its fields: what is read fits the fields, or it is an error
that names the field. It holds the number of its format; one without a number has format 1. How an earlier
format becomes the next one is written in `earlier`, and nowhere else. A field with a default may be left
out, and a field this version does not know is ignored, so that adding a field needs no new format.

    dataclass     an object                      Mapping[K, V]   an object
    NamedTuple    an array                       tuple[T, ...], Sequence[T]   an array
    an enumeration, str, int, float, bool, None  themselves

msgspec does the coding: the commands that look at a job must start at once, and it is loaded in a tenth of
the time that pydantic takes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import msgspec

from tideglass.core.durable import sealed, unsealed

T = TypeVar("T")

#: Held while msgspec learns a type: two threads that use a type for the first time at once would crash the
#: process, since the second finds a table that the first has not filled.
_LEARNING = threading.Lock()
_learnt: set[Any] = set()

#: The key of the format's number.
FORMAT = "format"


@dataclass(frozen=True, slots=True)
class Document(Generic[T]):
    """How values of a dataclass are written and read.

    of: the dataclass
    format: number of the format that is written; the next one when a reader of this one cannot read it
    earlier: per earlier format, what makes its content that of the next; may change the content it gets
    key: of the number, where a field of the dataclass has the usual one
    """

    of: type[T]
    format: int = 1
    earlier: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = field(default_factory=dict[int, Any])
    key: str = FORMAT

    def plain(self, value: T) -> dict[str, Any]:
        """The document as values JSON can hold."""
        return {self.key: self.format, **to_plain(value)}

    def of_plain(self, content: object) -> T:
        """The value of `plain`, in this or an earlier format. Raises ValueError for anything else."""
        if not isinstance(content, dict):
            raise ValueError("it is no JSON object")
        found = dict(cast("dict[str, Any]", content))
        number = found.pop(self.key, 1)
        if number not in (self.format, *self.earlier):
            raise ValueError(f"it has format {number}, this version reads {self.format}")
        for each in range(number, self.format):
            try:
                found = self.earlier[each](found)
            except (TypeError, LookupError, AttributeError) as error:
                raise ValueError(f"it has format {number}, but not its shape ({error})") from error
        return of_plain(self.of, found)

    def body(self, value: T) -> bytes:
        """The document as the body of a message."""
        return json.dumps(self.plain(value), separators=(",", ":"), sort_keys=True).encode()

    def of_body(self, body: bytes) -> T:
        """The value `body` was made of. Raises ValueError for anything else."""
        return self.of_plain(json.loads(body))

    def text(self, value: T, indent: int | None = None) -> str:
        """The document for a file, or for a line of one: with its checksum (`core.durable`)."""
        return json.dumps(sealed(self.plain(value)), indent=indent)

    def of_text(self, text: str | bytes) -> T:
        """The value `text` was made of. Raises ValueError for anything else, and for another checksum."""
        return self.of_plain(unsealed(json.loads(text)))


@dataclass(frozen=True, slots=True)
class Plain(Generic[T]):
    """How values of a type are coded as JSON without a format of their own.

    For what one version sends to itself, and for what is part of something that has a format.
    of: a type of the table above.
    """

    of: Any

    def body(self, value: T) -> bytes:
        return json.dumps(to_plain(value), separators=(",", ":"), sort_keys=True).encode()

    def of_body(self, body: bytes) -> T:
        """The value `body` was made of. Raises ValueError for anything else."""
        return of_plain(self.of, json.loads(body))


def to_plain(value: object) -> Any:
    """A value of the types above as values JSON can hold.

    >>> to_plain({1: (2, None), "a": True})
    {'1': (2, None), 'a': True}
    """
    return msgspec.to_builtins(value, str_keys=True)


def of_plain(of: Any, content: object) -> Any:
    """The value of a type that `to_plain` has coded. Raises ValueError for anything else.

    >>> of_plain(Mapping[int, tuple[int, ...]], {"1": [2, 3]})
    {1: (2, 3)}
    >>> of_plain(Mapping[int, int], {"1": "2"})
    Traceback (most recent call last):
    ValueError: Expected `int`, got `str` - at `$[...]`
    """
    _learn(of)
    try:
        return msgspec.convert(content, of, str_keys=True)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def _learn(of: Any) -> None:
    """Let msgspec make its table of a type, one thread at a time."""
    if of not in _learnt:
        with _LEARNING:
            msgspec.json.Decoder(of)
            _learnt.add(of)
