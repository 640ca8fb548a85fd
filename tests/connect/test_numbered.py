"""Inputs whose events are numbered: batches, what is read again, and places by time of arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideglass.connect.dataframes.input import FrameSpec
from tideglass.connect.formats.payloads import Payload
from tideglass.connect.numbered import NumberedInput
from tideglass.core.events import Fields
from tideglass.core.time import parse_ticks
from tideglass.core.types import OFFSET

N = Fields((("n",),))


@dataclass(frozen=True)
class Entries(NumberedInput):
    """Logs of so many entries; entry n arrives at n seconds."""

    name: str
    length: Mapping[str, int]
    as_payload: bool = False

    def columns(self) -> FrameSpec:
        payload = "body" if self.as_payload else None
        return FrameSpec(self.name, arrival="at", offset="number", payload=payload, payload_as=Payload())

    def partitions(self) -> Sequence[str]:
        return list(self.length)

    def end(self, partition: str) -> int:
        return self.length[partition]

    def most_numbers(self) -> int:
        return 6

    def rows(self, partition: str, begin: int, end: int) -> pa.Table:
        numbers = range(begin, end)
        at = [f"1970-01-01T00:00:{each:02}Z" for each in numbers]
        own = {"body": [f'{{"n": {each}}}' for each in numbers]} if self.as_payload else {"n": list(numbers)}
        return pa.table({"number": list(numbers), "at": at, **own})

    def identity(self, directory: Path) -> Mapping[str, Any]:
        return {}


def numbers(source: Any, start: Any, end: Any) -> dict[str, list[int]]:
    return {
        name: [
            int(n)
            for chunk in source.read(name, start.get(name, []), position, N)
            for n in chunk.table["$payload.n"].to_pylist()
        ]
        for name, position in end.items()
    }


def test_a_batch_takes_so_much_and_what_short_partitions_leave_goes_to_long_ones() -> None:
    source = Entries("e", {"a": 1, "b": 20})
    first = source.latest({}, 1)
    second = source.latest(first, 1)
    assert numbers(source, {}, first) == {"a": [0], "b": [0, 1, 2, 3, 4]}
    assert numbers(source, first, second) == {"a": [], "b": [5, 6, 7, 8, 9, 10]}
    assert source.ended(first) == {"a"}
    assert source.ended(source.latest({})) == {"a", "b"}


def test_what_an_earlier_run_has_read_comes_first_and_alone() -> None:
    recorded = Entries("e", {"a": 3}).latest({})
    source = Entries("e", {"a": 5, "b": 2}).reading_again(recorded)
    again = source.latest({}, 1)
    assert numbers(source, {}, again) == {"a": [0, 1, 2]}
    assert (source.is_replayed({}), source.is_replayed(again)) == (False, True)
    assert numbers(source, again, source.latest(again, 1)) == {"a": [3, 4], "b": [0, 1]}


@pytest.mark.parametrize("as_payload", [False, True])
def test_the_first_event_that_arrived_from_a_time_on_is_found(as_payload: bool) -> None:
    source = Entries("e", {"a": 20}, as_payload)
    everything = source.latest({})["a"]
    ticks = parse_ticks("1970-01-01T00:00:07Z")
    assert ticks is not None
    found = source.seek("a", everything, ticks)
    assert numbers(source, {"a": found.position}, {"a": everything})["a"] == list(range(7, 20))
    first = next(iter(source.read("a", found.position, everything, N)))
    assert first.table[OFFSET][0].as_py() == found.next_offset
    assert source.seek("a", everything, None).position == []
    late = source.seek("a", everything, ticks * 10)
    assert numbers(source, {"a": late.position}, {"a": everything})["a"] == []
