"""Arrays, objects, lines and broken parts in one file: each event is read or counted, however it is cut."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.depth import depth
from tideglass.connect.files import piece_ends, reading
from tideglass.connect.files.input import FileInput
from tideglass.connect.files.seek import place_of
from tideglass.connect.formats.decoded import INVALID_DATA, merge_rejected
from tideglass.connect.formats.payloads import Payload, decode_messages
from tideglass.connect.spec import InputSpec
from tideglass.core.events import Chunk, Fields
from tideglass.core.types import OFFSET

N = Fields((("n",),))

#: What is written in place of an event, and is refused; every bracket of it is closed.
BROKEN = ["oops", "7", '{"n":x}', '{"n" 1}', '"text"', "{'n':1}", '{"n":1,}']
#: Lines that are refused as one: brackets that are not closed, or not opened.
TORN = ['{"n":', '{"n":1', '"n":1}', '{"n":{"m":1}', '{"n":[1}', '{"s":"x', '[{"n":7', '{"n":1}}', '{"n":1]']


@dataclass(frozen=True)
class Written:
    """A part of a file: its text, and what reading it gives."""

    text: str
    events: int
    refused: int = 0


def event(n: int) -> str:
    """One of many forms of the event n; it tells its number, and what could be taken for layout."""
    forms = [
        {"n": n},
        {"n": n, "s": 'a, b]}{[ "quoted" \\'},
        {"m": [{"n": -1}, {"n": -2}, [[]]], "n": n},
        {"o": {"n": -3}, "n": n},
    ]
    return json.dumps(forms[n % len(forms)], separators=(",", ":") if n % 3 else None)


@st.composite
def elements(draw: st.DrawFn, most: int = 5) -> tuple[list[str], int]:
    """Texts of some events, numbered later, and of broken parts between; and how many are broken."""
    texts = draw(st.lists(st.sampled_from(["event"] * 4 + BROKEN), max_size=most))
    return texts, sum(text != "event" for text in texts)


@st.composite
def on_lines(draw: st.DrawFn) -> Written:
    """Something that ends with its line, or has each event on a line of its own."""
    blank = draw(st.sampled_from(["", " ", "\t", " \r"]))
    kind = draw(st.sampled_from(["object", "array", "array over lines", "joined", "behind", "blank", "torn"]))
    if kind == "torn":
        return Written(draw(st.sampled_from(TORN)) + "\n", 0, 1)
    texts, broken = draw(elements())
    good = len(texts) - broken
    match kind:
        case "object":
            return Written(f"{blank}event{blank}\n", 1)
        case "array":
            return Written(f"{blank}[{blank}{f',{blank}'.join(texts)}{blank}]{blank}\n", good, broken)
        case "array over lines":
            lines = f",{blank}\n{blank}".join(texts)
            return Written(f"[\n{blank}{lines}{blank}\n]\n" if good % 2 else f"[{lines}]\n", good, broken)
        case "joined":
            texts = [text for text in texts if text == "event"]
            return Written(f",{blank}".join(texts) + (",\n" if texts else "\n"), len(texts))
        case "behind":
            texts = [text for text in texts if text == "event"]
            return Written(blank.join(texts) + "\n", len(texts))
        case _:
            return Written(f"{blank}\n", 0)


@st.composite
def over_lines(draw: st.DrawFn) -> Written:
    """Something of which a document may hold more: objects over several lines."""
    texts, broken = draw(elements())
    indent = draw(st.sampled_from(["", "  "]))
    texts = ["pretty" if text == "event" and draw(st.booleans()) else text for text in texts]
    listed = f",\n{indent}".join(texts)
    if draw(st.booleans()):
        return Written(f"[\n{indent}{listed}\n]\n", len(texts) - broken, broken)
    good = [text for text in texts if text in ("event", "pretty")]
    return Written("\n".join(good) + "\n", len(good))


def numbered(parts: list[Written]) -> str:
    """The text of the parts, every event with a number of its own."""
    text, n = "".join(part.text for part in parts), 0
    while (
        place := min((at for at in (text.find("event"), text.find("pretty")) if at >= 0), default=-1)
    ) >= 0:
        word = "event" if text.startswith("event", place) else "pretty"
        made = event(n)
        if word == "pretty":
            made = json.dumps(json.loads(made), indent=3)
        text, n = text[:place] + made + text[place + len(word) :], n + 1
    return text


def in_parts(source: FileInput, limit: int | None, position: Any = ()) -> list[Chunk]:
    """All chunks, batch by batch."""
    found, at = list[Chunk](), {"0": list(position)}
    while not source.ended(at) >= set(source.partitions()):
        end = source.latest(at, limit)
        found += source.read("0", at["0"], end["0"], N)
        at = end
    return found


def column(chunks: list[Chunk], name: str) -> list[Any]:
    return [value for chunk in chunks for value in chunk.table[name].to_pylist()]


def refused(chunks: list[Chunk]) -> int:
    rejected = merge_rejected([each for chunk in chunks for each in chunk.rejected])
    assert all(each.error_type == INVALID_DATA for each in rejected)
    return sum(each.count for each in rejected)


def agrees(path: Path, text: str, events: int, broken: int, block: int, limit: int) -> None:
    """Read whole, in small blocks, in small batches and from its middle, the file gives what it must."""
    path.write_text(text)
    source = FileInput(InputSpec(name="in", path=path))
    whole = in_parts(source, None)
    assert (column(whole, "$payload.n"), refused(whole)) == (list(range(events)), broken)
    offsets = column(whole, OFFSET)
    assert offsets == sorted(set(offsets))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK_BYTES", block)
        patch.setattr(reading, "BLOCK_EVENTS", 3)
        patch.setattr(piece_ends, "_BLOCK", 7)
        parts = in_parts(source, limit)
        assert (column(parts, "$payload.n"), refused(parts)) == (list(range(events)), broken)
        assert column(parts, OFFSET) == offsets
    if offsets:
        middle = offsets[block % len(offsets)]
        found = place_of(source, "0", source.latest({})["0"], middle)
        behind = column(in_parts(source, limit, found.position), OFFSET)
        assert behind == offsets[len(offsets) - len(behind) :]
        assert len(behind) >= len([offset for offset in offsets if offset >= middle])
        assert behind[0] >= found.next_offset


CUTS = {"block": st.integers(1, 200), "limit": st.integers(1, 200)}


#: A bracket that is closed by one of another kind, before a broken line.
OF_OTHER_KINDS = [Written('{"n":1]\n', 0, 1), Written("[\noops,\nevent\n]\n", 1, 1)]


@given(parts=st.lists(on_lines(), max_size=12), ended=st.booleans(), **CUTS)
@example(parts=OF_OTHER_KINDS, ended=False, block=1, limit=1)
@settings(max_examples=depth(200), deadline=None)
def test_every_event_on_lines_is_read_or_counted(
    tmp_path_factory: Any, parts: list[Written], ended: bool, block: int, limit: int
):
    parts = [Written("event\n", 1), *parts]
    text = numbered(parts)
    text = text if ended else text.removesuffix("\n")
    events, broken = sum(part.events for part in parts), sum(part.refused for part in parts)
    agrees(tmp_path_factory.mktemp("in") / "a.json", text, events, broken, block, limit)


@given(
    first=st.sampled_from(["[\n", "[event,\n", "pretty\n", "event,event\n", "event\n,"]),
    parts=st.lists(st.one_of(on_lines(), over_lines()), max_size=10),
    **CUTS,
)
@settings(max_examples=depth(200), deadline=None)
def test_every_event_of_a_document_is_read_or_counted(
    tmp_path_factory: Any, first: str, parts: list[Written], block: int, limit: int
):
    # A torn line of a document may lack just what a later one has too much of.
    parts = [part for part in parts if part.text.strip() not in TORN]
    array = "]\n" if first.startswith("[") else ""
    parts = [Written(first + array, first.count("event") + first.count("pretty")), *parts]
    events, broken = sum(part.events for part in parts), sum(part.refused for part in parts)
    agrees(tmp_path_factory.mktemp("in") / "a.json", numbered(parts), events, broken, block, limit)


@given(parts=st.lists(st.one_of(on_lines(), over_lines()), max_size=8))
@settings(max_examples=depth(100), deadline=None)
def test_every_event_of_a_message_is_read_or_counted(parts: list[Written]):
    parts = [part for part in parts if part.text.strip() not in TORN]
    message = pa.array([numbered(parts)], pa.string())
    decoded, message_of = decode_messages(message, Payload(), N)
    events, broken = sum(part.events for part in parts), sum(part.refused for part in parts)
    read = decoded.table["$payload.n"].to_pylist()
    if events + broken > 1:
        assert (read, sum(each.count for each in decoded.rejected)) == (list(range(events)), broken)
        assert set(message_of.tolist()) <= {0}
