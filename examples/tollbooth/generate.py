"""Toll events to any size, the same for the same seed.

Arrivals: a Poisson stream, 1 000 a second by default, over four booths (the input partitions; within
one, arrival never runs backwards). Event time: arrival minus an exponential delay of mean 20 s, cut at
119 s; each device's clock is off by its own constant, up to a second. One event in 1 000 is late by 1
to 30 minutes, one in 2 000 early by 5 to 15. Booth 3 is idle for two minutes of every twenty. Devices
are drawn with probability 1 / (rank + 10) ** 0.9 out of 10 000 (`--devices`).

Writes `<out>/<stream>/<booth>/<n>.json` (or `.parquet`), 125 000 events a file:

    toll     seq, partition, device, event_time (ms), arrival_time (ms), tolls, amount, plate
    entry    toll fields of cars that come in        exit    the same plate when it leaves again
    registration.json   one row a plate: plate, owner, expired

    python examples/tollbooth/generate.py --events 1000000 --out build/toll
"""

from __future__ import annotations

import argparse
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BOOTHS = 4
DEVICES = 10_000
EVENTS_PER_FILE = 125_000
START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
LETTERS = np.array(list("ABCDEFGHJKLMNPRSTUVWXYZ"))


def toll_events(events: int, seed: int = 1, rate: float = 1000.0, devices: int = DEVICES) -> pa.Table:
    """`events` rows in order of arrival."""
    random = np.random.default_rng(seed)
    arrival_ms = START_MS + np.cumsum(random.exponential(1000.0 / rate, events)).astype(np.int64)
    booth = random.integers(0, BOOTHS, events)
    idle = (booth == 3) & ((arrival_ms // 60_000) % 20 < 2)
    booth[idle] = random.integers(0, BOOTHS - 1, int(idle.sum()))
    weight = 1.0 / (np.arange(devices) + 10.0) ** 0.9
    device = np.searchsorted(np.cumsum(weight / weight.sum()), random.random(events)).clip(0, devices - 1)
    clock_ms = random.integers(-1000, 1000, devices)
    delay_ms = np.minimum(random.exponential(20_000.0, events), 119_000.0).astype(np.int64)
    event_ms = arrival_ms - delay_ms + np.minimum(clock_ms[device], delay_ms)
    kind = random.random(events)
    late, early = kind < 0.001, (kind >= 0.001) & (kind < 0.0015)
    event_ms[late] -= random.integers(60_000, 1_800_000, int(late.sum()))
    event_ms[early] = arrival_ms[early] + random.integers(300_001, 900_000, int(early.sum()))
    plates = LETTERS[random.integers(0, len(LETTERS), (events, 3))]
    number = random.integers(0, 10_000, events)
    return pa.table(
        {
            "seq": np.arange(events),
            "partition": booth.astype(np.int64),
            "device": pa.array(np.char.mod("device-%05d", np.arange(devices))).take(pa.array(device)),
            "event_time": event_ms,
            "arrival_time": arrival_ms,
            "tolls": random.integers(1, 11, events),
            "amount": np.round(random.gamma(2.0, 4.0, events), 2),
            "plate": pa.array(np.char.add(_joined(plates), np.char.mod("%04d", number))),
        }
    )


def entry_and_exit(events: int, seed: int = 1, devices: int = DEVICES) -> tuple[pa.Table, pa.Table]:
    """Cars that enter, and most of them again when they leave 30 s to 20 minutes later."""
    entry = toll_events(events, seed, devices=devices)
    random = np.random.default_rng(seed + 1)
    stay_ms = random.integers(30_000, 1_200_000, events)
    leaves = random.random(events) < 0.9
    moved = {
        "event_time": entry["event_time"].to_numpy() + stay_ms,
        "arrival_time": entry["arrival_time"].to_numpy() + stay_ms,
    }
    left = entry
    for name, values in moved.items():
        left = left.set_column(left.column_names.index(name), name, pa.array(values))
    return entry, left.filter(pa.array(leaves)).sort_by("arrival_time")


def registrations(plates: pa.ChunkedArray, seed: int = 1) -> pa.Table:
    """One row a plate; every seventh is expired."""
    known = plates.unique()
    random = np.random.default_rng(seed + 2)
    return pa.table(
        {
            "plate": known,
            "owner": pa.array(np.char.mod("owner-%07d", np.arange(len(known)))),
            "expired": pa.array(random.random(len(known)) < 1 / 7),
        }
    )


def write_stream(table: pa.Table, directory: Path, file_format: str) -> int:
    """Write a stream by booth; answers with the number of files."""
    files = 0
    booths = table["partition"].to_numpy()
    for booth in range(BOOTHS):
        mine = table.filter(pa.array(booths == booth))
        folder = directory / str(booth)
        folder.mkdir(parents=True, exist_ok=True)
        for first in range(0, mine.num_rows, EVENTS_PER_FILE):
            piece = mine.slice(first, EVENTS_PER_FILE)
            path = folder / f"{first // EVENTS_PER_FILE:05d}.{file_format}"
            if file_format == "parquet":
                pq.write_table(piece, path)
            else:
                duckdb.from_arrow(piece).query("piece", f"COPY piece TO '{path}' (FORMAT JSON)")
            files += 1
    return files


def _joined(characters: np.ndarray) -> np.ndarray:
    return np.char.add(np.char.add(characters[:, 0], characters[:, 1]), characters[:, 2])


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate toll events.")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--format", choices=("json", "parquet"), default="json")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--devices", type=int, default=DEVICES)
    parser.add_argument("--streams", choices=("toll", "entry-exit", "all"), default="toll")
    options = parser.parse_args()
    if options.streams in ("toll", "all"):
        toll = toll_events(options.events, options.seed, devices=options.devices)
        files = write_stream(toll, options.out / "toll", options.format)
        print(f"{options.events:,} toll events in {files} files under {options.out / 'toll'}")
    if options.streams in ("entry-exit", "all"):
        entry, left = entry_and_exit(options.events, options.seed, options.devices)
        for name, table in (("entry", entry), ("exit", left)):
            files = write_stream(table, options.out / name, options.format)
            print(f"{table.num_rows:,} {name} events in {files} files under {options.out / name}")
        known = registrations(entry["plate"], options.seed)
        path = options.out / "registration.json"
        duckdb.from_arrow(known).query("known", f"COPY known TO '{path}' (FORMAT JSON)")
        print(f"{known.num_rows:,} registrations in {path}")


if __name__ == "__main__":
    main()
