"""Tags: how plans are written where the text outlives the program that made it.

Fingerprints of state and the manifest of a job directory are hashes of such texts. A class or a field of the
code may get another name; its tag stays, so that the state of running jobs still belongs to its operator.
`tests/plan/test_tags.py` holds all tags and what they write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, field, fields
from enum import Enum
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T", bound=type)

#: Class -> its tag. A tag is for ever: it never changes, and no other class gets it.
TAGS: dict[type, str] = {}

_FIELD = "tag"
_ADDED = "added later"
_NEVER = object()


def tag(name: str) -> Callable[[T], T]:
    """Tags a dataclass or an enumeration. Raises ValueError if another class has it."""

    def decorate(class_: T) -> T:
        if name in TAGS.values():
            raise ValueError(f"two classes have the tag {name!r}")
        TAGS[class_] = name
        return class_

    return decorate


def renamed_field(was: str, **options: Any) -> Any:
    """A dataclass field that is written under the name it had at first."""
    return field(metadata={_FIELD: was}, **options)


def added_field(**options: Any) -> Any:
    """A dataclass field that is not written while it has its default, since earlier texts lack it."""
    return field(metadata={_ADDED: True}, **options)


def tag_of(value: object) -> str:
    """The tag of a tagged value. Raises TypeError for any other."""
    try:
        return TAGS[type(value)]
    except KeyError:
        raise TypeError(f"{type(value).__qualname__} has no tag; give it one with core.tags.tag") from None


def tagged_fields(value: Any) -> Iterator[tuple[str, str, object]]:
    """The fields that are written: name in the code, name in the text, value."""
    for name, written_name, left_out in _layout(type(value)):
        content = getattr(value, name)
        if left_out is _NEVER or content != left_out:
            yield name, written_name, content


@cache
def _layout(class_: type) -> tuple[tuple[str, str, object], ...]:
    """The fields of a class: name in the code, name in the text, the value that is not written."""
    return tuple(
        (
            each.name,
            each.metadata.get(_FIELD, each.name),
            _default(each) if each.metadata.get(_ADDED) else _NEVER,
        )
        for each in fields(class_)
        if each.repr
    )


def written(value: object) -> str:
    """The text of a tree of tagged values, tuples, dictionaries, texts, numbers and None.

    Raises TypeError for what has no tag, so that no name of the code gets into the text by accident.

    >>> written((1, "a", None))
    "(1, 'a', None)"
    """
    match value:
        case Enum():
            return f"<{tag_of(value)}.{value.name}: {value.value!r}>"
        case None | bool() | int() | float() | str():
            return repr(value)
        case tuple():
            parts = [written(each) for each in value]
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        case dict():
            return "{" + ", ".join(f"{written(key)}: {written(each)}" for key, each in value.items()) + "}"
        case _:
            name = tag_of(value)
            return f"{name}({', '.join(f'{of}={written(each)}' for _, of, each in tagged_fields(value))})"


def _default(of: Field[Any]) -> object:
    if of.default_factory is not MISSING:
        return of.default_factory()
    return of.default
