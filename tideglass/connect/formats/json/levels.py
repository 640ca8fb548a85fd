"""What older compatibility levels read differently in JSON (`asa.md` 5.3, 5.5).

Up to level 1.1 a boolean is the bigint 0 or 1, at any depth. At level 1.0 names are lower-cased, an
event with two names equal but for case is invalid, and ISO text is a datetime. Events are rewritten
one by one in Python, so these levels read several times slower than 1.2; at 1.1 only events that
hold a boolean are.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from tideglass.core.arrays import Mask, pc
from tideglass.core.columns import settle, to_variant
from tideglass.core.time import format_ticks, parse_ticks
from tideglass.core.types import Type

#: The text `at_level` makes of every datetime; no other text looks so.
_INSTANT = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{7}Z$"


class _SameNames(Exception):
    """Two names of one object differ only in case."""


def at_level(texts: pa.Array, level: str) -> tuple[pa.Array, Mask | None]:
    """The events as the level reads them, and which of them it refuses (None: none).

    texts: valid JSON objects.
    """
    if level == "1.2":
        return texts, None
    concerned = np.ones(len(texts), np.bool_)
    if level == "1.1":
        concerned = np.asarray(pc.match_substring_regex(texts, r"true|false").fill_null(False))
    if not concerned.any():
        return texts, None
    refused = np.zeros(len(texts), np.bool_)
    rewritten: list[str | None] = texts.to_pylist()
    for place in np.flatnonzero(concerned).tolist():
        text = rewritten[place]
        assert text is not None
        try:
            event = json.loads(text, object_pairs_hook=_object_at(level))
        except _SameNames:
            refused[place] = True
            continue
        rewritten[place] = json.dumps(_at(event, level), separators=(",", ":"), ensure_ascii=False)
    return pa.array(rewritten, pa.string()), refused if refused.any() else None


def datetimes_of(values: pa.Array, type_: Type, level: str) -> tuple[pa.Array, Type]:
    """At level 1.0, text that is a datetime as one; other values and levels as they are."""
    if level != "1.0" or type_ not in (Type.NVARCHAR, Type.VARIANT):
        return values, type_
    tagged = to_variant(values, type_)
    instants = pc.match_substring_regex(pc.utf8_slice_codeunits(tagged, 1), _INSTANT)
    instants = pc.and_(pc.fill_null(instants, False), pc.fill_null(pc.starts_with(tagged, "s"), False))
    if not pc.any(instants).as_py():
        return values, type_
    ticks = [
        None if text is None else f"d{parse_ticks(text[1:])}" if is_instant else text
        for text, is_instant in zip(tagged.to_pylist(), instants.to_pylist(), strict=True)
    ]
    return settle(pa.array(ticks, pa.string()), Type.VARIANT)


def _object_at(level: str) -> Any:
    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if level != "1.0":
            first: dict[str, Any] = {}
            for name, value in pairs:
                first.setdefault(name, value)
            return first
        lowered = {name.lower(): value for name, value in pairs}
        if len(lowered) != len(pairs):
            raise _SameNames
        return lowered

    return made


def _at(value: Any, level: str) -> Any:
    match value:
        case bool():
            return int(value)
        case dict():
            return {name: _at(part, level) for name, part in value.items()}
        case list():
            return [_at(part, level) for part in value]
        case str() if level == "1.0" and (ticks := parse_ticks(value)) is not None:
            return format_ticks(ticks)
        case _:
            return value
