"""EventId says where an event comes from, and nothing of how it was read (`asa.md` 4.9)."""

from __future__ import annotations

import gzip
import json
import os
import uuid
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tideglass.connect.files.event_id import NAMESPACE, event_ids
from tideglass.connect.files.input import FileInput
from tideglass.connect.spec import InputSpec
from tideglass.core.events import Chunk, Fields
from tideglass.core.types import OFFSET
from tideglass.testing import run

N = Fields((("n",),))
ID = "GetMetadataPropertyValue(x, 'EventId')"


def ids(files: FileInput, limit_bytes: int | None = None) -> dict[int, str]:
    """The EventId of each event by its `n`, read in batches of about that size."""
    found: dict[int, str] = {}
    position: dict[str, list[list[str | int]]] = {}
    while True:
        later = files.latest(position, limit_bytes)
        if later == position:
            return found
        for name in later:
            for chunk in files.read(name, position.get(name, []), later[name], N):
                numbers = chunk.table["$payload.n"].to_pylist()
                assert not found.keys() & set(numbers)
                found |= dict(zip(numbers, event_ids(files.name, name, chunk).to_pylist(), strict=True))
        position = later


def write(path: Path, numbers: Sequence[int], mode: str = "w") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open(mode) as file:
        file.writelines(f"{json.dumps({'n': n})}\n" for n in numbers)
    os.utime(path, (1_000_000_000, 1_000_000_000))


def test_batches_do_not_change_the_ids_and_every_event_has_its_own(tmp_path: Path) -> None:
    for file in range(3):
        write(tmp_path / f"{file}.json", range(file * 100, file * 100 + 100))
    files = FileInput(InputSpec(name="x", path=tmp_path))
    whole = ids(files)
    assert len(set(whole.values())) == len(whole) == 300
    assert ids(files, 150) == whole
    assert [uuid.UUID(each).version for each in whole.values()] == [3] * 300


def test_other_files_and_the_way_a_file_grew_do_not_change_the_ids(tmp_path: Path) -> None:
    write(tmp_path / "m.json", range(10))
    alone = ids(FileInput(InputSpec(name="x", path=tmp_path)))
    write(tmp_path / "a.json", range(50, 60))
    write(tmp_path / "m.json", range(10, 20), "a")
    both = ids(FileInput(InputSpec(name="x", path=tmp_path)))
    assert alone.items() <= both.items()
    live = FileInput(InputSpec(name="y", path=tmp_path / "live", finished=False))
    write(tmp_path / "live" / "m.json", range(10))
    first = live.latest({})
    write(tmp_path / "live" / "z.json", range(50, 60))
    second = live.latest(first)
    write(tmp_path / "live" / "m.json", range(10, 20), "a")
    third = live.latest(second)
    grown: dict[int, str] = {}
    for chunk in live.read("0", [], third["0"], N):
        grown |= dict(
            zip(chunk.table["$payload.n"].to_pylist(), event_ids("y", "0", chunk).to_pylist(), strict=True)
        )
    assert grown == ids(live)


def test_partitions_of_equal_files_have_ids_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "0" / "e.json", range(5))
    write(tmp_path / "1" / "e.json", range(5, 10))
    assert len(set(ids(FileInput(InputSpec(name="x", path=tmp_path, partitions="folders"))).values())) == 10


@pytest.mark.parametrize("suffix", ["json", "json.gz", "csv"])
def test_every_format_has_ids(tmp_path: Path, suffix: str) -> None:
    lines = ["n", *map(str, range(20))] if suffix == "csv" else [json.dumps({"n": n}) for n in range(20)]
    body = "".join(f"{line}\n" for line in lines).encode()
    path = tmp_path / f"e.{suffix}"
    path.write_bytes(gzip.compress(body) if suffix.endswith("gz") else body)
    found = ids(FileInput(InputSpec(name="x", path=tmp_path)))
    assert len(set(found.values())) == len(found) == 20


def test_an_id_is_the_name_based_guid_of_where_the_event_comes_from() -> None:
    def made(places: list[int], file: str = "") -> list[str]:
        table = pa.table({OFFSET: pa.array(np.array(places, np.int64))})
        return event_ids("in", "7", Chunk(table, file=file)).to_pylist()

    names = ["in|7||0", "in|7||4611686018427387904"]
    assert made([0, 1 << 62]) == [str(uuid.uuid3(NAMESPACE, name)) for name in names]
    assert made([(3 << 40) + 12], "ö/a.json") == [str(uuid.uuid3(NAMESPACE, "in|7|ö/a.json|12"))]
    assert made([]) == []


def test_the_kit_gives_the_same_ids_at_every_run_and_others_to_another_input() -> None:
    rows = [{"_arrival": "2026-01-01T00:00:01Z", "_partition": n % 2} for n in range(6)]
    query = f"SELECT {ID} AS id FROM x"
    first = sorted(row["id"] for row in run(query, {"x": rows})["output"])
    assert first == sorted(row["id"] for row in run(query, {"x": rows})["output"])
    others = [row["id"] for row in run(query.replace(" x", " y").replace("(x", "(y"), {"y": rows})["output"]]
    assert len({*first, *others}) == 12
