"""Damaged input files: every event is accepted or refused and counted, however the file is cut."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz import counting
from fuzz.corpus import events
from fuzz.mutation import mutate_bytes, mutate_lines
from fuzz.trial import Trial, holds
from tideglass.compile import compile_query
from tideglass.connect.files import reading
from tideglass.connect.files.input import FileInput
from tideglass.connect.formats.decoded import INVALID_COMPRESSION, INVALID_HEADER, merge_rejected
from tideglass.connect.spec import InputSpec
from tideglass.core.errors import Source
from tideglass.core.events import Fields
from tideglass.core.json_rows import rows_of
from tideglass.core.types import OFFSET
from tideglass.ingress.reports import BatchReports
from tideglass.job.report.metrics import Metrics
from tideglass.local import LocalDriver, PartitionBatch
from tideglass.project.settings import from_options

#: What a query may ask of the same events: nothing, a few fields, the whole.
ASKED = (
    Fields(),
    Fields((("a",),)),
    Fields((("r", "b", "c"), ("t",), ("a",))),
    Fields((("k",),), whole=True),
    Fields((), whole=True),
)
DELIMITERS = (",", ";", "\t", "|", " ")


def make(rng: Random) -> Trial:
    """Events in one of the formats, damaged before they are compressed, after it, or both."""
    kind = rng.choice(["lines", "lines", "lines", "array", "mixed", "pretty", "csv", "csv", "parquet"])
    delimiter = rng.choice(DELIMITERS) if kind == "csv" else ","
    data = encoded(rng, kind, events(rng, rng.choice([4, 12, 40])), delimiter)
    if rng.random() < 0.85:
        data = _damaged(rng, kind, data)
    name = f"a.{ {'csv': 'csv', 'parquet': 'parquet'}.get(kind, 'json') }"
    if kind != "parquet" and rng.random() < 0.25:
        name += ".gz"
        data = _compressed(rng, data)
        if rng.random() < 0.6:
            data = mutate_bytes(rng, data)
    options = {
        "delimiter": delimiter,
        "block_bytes": rng.choice([1, 16, 64, 300]),
        "block_events": rng.choice([1, 2, 7]),
        "asked": [rng.randrange(len(ASKED)), rng.randrange(len(ASKED))],
        "limits": [rng.choice([1, 20, 90, 300, 10_000]) for _ in range(4)],
    }
    return Trial("file", {name: data}, options)


def encoded(rng: Random, kind: str, rows: Sequence[dict[str, Any]], delimiter: str = ",") -> bytes:
    """The rows in a format."""

    def text(row: object, **how: Any) -> str:
        return json.dumps(row, ensure_ascii=rng.random() < 0.5, **how)

    match kind:
        case "lines":
            mark = "\ufeff" if rng.random() < 0.1 else ""
            end = "" if rng.random() < 0.3 else "\n"
            return (mark + rng.choice(["\n", "\n", "\r\n"]).join(map(text, rows)) + end).encode()
        case "array":
            return ("[" + rng.choice([",", ",\n", " , "]).join(map(text, rows)) + "]").encode()
        case "pretty":
            return rng.choice(["\n", ",\n"]).join(text(row, indent=1) for row in rows).encode()
        case "mixed":
            parts: list[str] = []
            left = list(rows)
            while left:
                count = rng.randrange(1, 4)
                part, left = left[:count], left[count:]
                parts.append(text(part) if rng.random() < 0.5 else "\n".join(map(text, part)))
            return "\n".join(parts).encode()
        case "csv":
            names = ["t", "a", "k"]
            lines = [delimiter.join(names)]
            for row in rows:
                lines.append(delimiter.join(_field(rng, row[name]) for name in names))
            return (rng.choice(["\n", "\r\n"]).join(lines) + rng.choice(["\n", ""])).encode()
        case _:
            table = pa.table(
                {
                    "t": [row["t"] for row in rows],
                    "a": [row["a"] if type(row["a"]) is int else None for row in rows],
                    "r": pa.array([row.get("r") for row in rows], _RECORD),
                }
            )
            sink = io.BytesIO()
            pq.write_table(table, sink, row_group_size=rng.choice([3, 1000]))
            return sink.getvalue()


#: The type of `r` in a Parquet file, with a list of one type.
_RECORD = pa.struct([("b", pa.struct([("c", pa.int64())]))])


def _field(rng: Random, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return '"' + text.replace('"', '""') + '"' if rng.random() < 0.3 or set(text) & set(',;\t| "\n') else text


def _damaged(rng: Random, kind: str, data: bytes) -> bytes:
    other = encoded(rng, rng.choice(["lines", "array", "csv"]), events(rng, 5))
    if kind != "parquet" and rng.random() < 0.4:
        return mutate_lines(rng, data)
    return mutate_bytes(rng, data, [other])


def _compressed(rng: Random, data: bytes) -> bytes:
    cut = rng.randrange(len(data) + 1) if rng.random() < 0.2 else len(data)
    level = rng.choice([0, 1, 9])
    packed = gzip.compress(data[:cut], level, mtime=0)
    packed += gzip.compress(data[cut:], level, mtime=0) if cut < len(data) else b""
    return packed + (b"\x00" * 9 if rng.random() < 0.1 else b"")


# ---------------------------------------------------------------- checking


@dataclass(frozen=True)
class Read:
    """What came of reading: offsets and rows of accepted events, refusals by type, and chunks."""

    offsets: list[int]
    rows: list[dict[str, Any]]
    refused: dict[str, int]
    chunks: list[Any]

    @property
    def counted(self) -> int:
        return len(self.offsets) + sum(self.refused.values())


def check(trial: Trial) -> None:
    """Raises for any exception, and where the counts or the rows are not what they must be."""
    ((name, data),) = trial.files.items()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        source = FileInput(InputSpec(name="in", path=path, delimiter=trial.options["delimiter"]))
        whole = [_read(source, [None], fields) for fields in ASKED]
        first = whole[0]
        for fields, each in zip(ASKED, whole, strict=True):
            if name == "a.parquet" and not _is_whole_parquet(data):
                continue  # what is broken in a column shows only where it is read
            if _numbers_are_float(data):  # a number outside of float is refused only where it is read
                holds(each.offsets == first.offsets, "what is refused depends on the fields", fields)
            holds(
                each.counted == first.counted,
                "the count depends on the fields",
                (fields, each.refused, first.refused),
            )
        one, other = trial.options["asked"]
        with _small_blocks(trial.options["block_bytes"], trial.options["block_events"]):
            _same(_read(source, [None], ASKED[one]), whole[one], "rows depend on the size of blocks")
        cut = _read(source, trial.options["limits"], ASKED[other])
        _same(cut, whole[other], "rows depend on where reading is cut")
        _counts(name, data, trial.options["delimiter"], whole)
        _counters(whole[-1], source)


def _numbers_are_float(data: bytes) -> bool:
    return b"e" not in data and b"E" not in data and len(data) < 100_000


def _read(source: FileInput, limits: Sequence[int | None], fields: Fields) -> Read:
    """The whole input, in as many steps as the limits make of it."""
    position: dict[str, Any] = {}
    chunks: list[Any] = []
    for step in range(10_000):
        limit = limits[step % len(limits)]
        following = source.latest(position, limit)
        if following == position:
            break
        chunks += source.read("0", position.get("0", []), following["0"], fields)
        position = following
    holds(source.ended(position) >= set(source.partitions()), "reading does not come to the end", position)
    offsets = [offset for chunk in chunks for offset in chunk.table[OFFSET].to_pylist()]
    rows = [row for chunk in chunks for row in rows_of(_shown(chunk.table))]
    refused: dict[str, int] = {}
    for each in merge_rejected([each for chunk in chunks for each in chunk.rejected]):
        refused[each.error_type] = refused.get(each.error_type, 0) + each.count
    holds(offsets == sorted(set(offsets)), "offsets do not ascend", offsets)
    return Read(offsets, rows, refused, chunks)


def _shown(table: pa.Table) -> pa.Table:
    """The payload under names that rows show: those with `$` are the engine's own."""
    names = [name for name in table.column_names if name.startswith("$payload")]
    return table.select(names).rename_columns([name.replace("$", "") for name in names])


@contextmanager
def _small_blocks(block_bytes: int, block_events: int) -> Iterator[None]:
    kept = reading.BLOCK_BYTES, reading.BLOCK_EVENTS
    reading.BLOCK_BYTES, reading.BLOCK_EVENTS = block_bytes, block_events
    try:
        yield
    finally:
        reading.BLOCK_BYTES, reading.BLOCK_EVENTS = kept


def _same(one: Read, other: Read, name: str) -> None:
    holds(one.offsets == other.offsets, name, (one.offsets, other.offsets))
    holds(repr(one.rows) == repr(other.rows), name, (one.rows, other.rows))
    # Of a file whose header is broken only some rows may be counted (`docs/bad-input.md`).
    sure = [{k: n for k, n in read.refused.items() if k != INVALID_HEADER} for read in (one, other)]
    holds(sure[0] == sure[1], name.replace("rows", "refusals"), sure)


def _counts(name: str, data: bytes, delimiter: str, whole: Sequence[Read]) -> None:
    """What was read beside what an independent reader finds."""
    first, packed = whole[0], name.endswith(".gz")
    if name == "a.json":
        blank = not data.strip(b" \t\r\n\v\f,[]\xef\xbb\xbf")
        holds(first.counted or blank, "nothing is counted")
    broken = 0
    if packed and data:
        unpacked = counting.unpacked(data)
        broken = int(not unpacked.whole)
        found = first.refused.get(INVALID_COMPRESSION, 0)
        holds(found == broken, "a break of the compression is not counted once", first.refused)
        data = unpacked.data
    if name.startswith("a.parquet"):
        _parquet_counts(data, first)
    elif name.startswith("a.csv"):
        _csv_counts(data, delimiter, first, broken)
    else:
        _json_counts(data, whole, broken)


def _is_whole_parquet(data: bytes) -> bool:
    try:
        pq.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError):
        return False
    return True


def _parquet_counts(data: bytes, read: Read) -> None:
    rows = pq.read_table(io.BytesIO(data)).num_rows if _is_whole_parquet(data) else None
    if rows is None:
        holds(not data or read.counted >= 1, "a broken Parquet file is not counted")
        return
    holds(read.counted == rows, "the rows of a Parquet file do not add up", (read.counted, rows))


def _csv_counts(data: bytes, delimiter: str, read: Read, broken: int) -> None:
    if INVALID_HEADER in read.refused or not data:
        return
    found = counting.csv_rows(data, delimiter)
    if found is None:
        return
    rows = max(0, len(found) - 1)
    # The row in which the compression breaks may be an event or a refusal, or nothing; the break is one.
    holds(
        rows <= read.counted <= rows + broken,
        "the rows of a CSV file do not add up",
        (read.counted, read.refused, rows, broken),
    )


def _json_counts(data: bytes, whole: Sequence[Read], broken: int) -> None:
    if broken:  # whatever the line is in which it breaks
        data = data[: data.rfind(b"\n") + 1]
    first = whole[0]
    objects = counting.whole_objects(data)
    if objects is not None:
        holds(len(first.offsets) >= objects, "a broken event takes another one along", objects)
    known = counting.json_lines(data)
    if known is None and data.removeprefix(counting.BYTE_ORDER_MARK).lstrip().startswith(b"["):
        known = counting.json_values(data)
    if known is None:
        return
    # An object over several lines that the compression breaks in is counted as the break alone.
    cut = int(bool(broken and known and known[-1].verdict is False))
    for read in whole:
        holds(
            len(known) + broken - cut <= read.counted and (broken or len(known) == read.counted),
            "the events of a JSON file do not add up",
            (read.counted, read.refused, len(known), broken),
        )
    if broken or any(event.verdict is None for event in known):
        return
    accepted = [event.value for event in known if event.verdict]
    for read in whole:
        holds(
            len(read.offsets) == len(accepted),
            "another number is accepted",
            (len(read.offsets), len(accepted)),
        )
    for row, value in zip(whole[-1].rows, accepted, strict=True):
        came = counting.DECODER.decode(row["payload"]) if isinstance(row["payload"], str) else row["payload"]
        holds(came == value, "an event is not what was written", (row, value))


#: Every policy has something to decide: late and early events, and those without a time.
_QUERY = Source("SELECT * INTO o FROM i TIMESTAMP BY t")


def _counters(read: Read, source: FileInput) -> None:
    """What the job says of its input: events in one counted place each, refusals beside them."""
    settings = from_options({"late_arrival": "5s", "out_of_order": "1s", "policy": "drop"})
    topology = compile_query(_QUERY, settings, key_groups=2).topology
    chunks = _read(source, [None], topology.fields["i"]).chunks
    metrics = Metrics()
    messages = LocalDriver(topology).run([PartitionBatch("i", 0, chunks)], final=True)
    metrics.take_batch(BatchReports.of(messages), {})
    holds(metrics.events == read.counted, "counters do not add up", (metrics.events, read.counted))
    (facts,) = metrics.partitions.values()
    counters = facts.counters
    placed = counters.accepted + counters.adjusted + counters.dropped
    holds(placed == len(read.offsets), "counters do not add up", (counters, len(read.offsets)))
    holds(facts.rejected == sum(read.refused.values()), "counters do not add up", facts.rejected)
