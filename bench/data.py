"""The events that are read: generated once, kept under build/bench, the same for every entrant."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / "build" / "bench"
GENERATE = HERE.parent / "examples" / "tollbooth" / "generate.py"
#: 2026-01-01T00:00:00Z, the first instant of a window of ten minutes and of one of seven days.
GROUPS_START_MS = 1_767_225_600_000
OWNERS = CACHE / "reference" / "owners.json"


@dataclass(frozen=True, slots=True)
class Prepared:
    """Data on disk. root: a folder a stream, in it a folder a booth. events: of all streams together.

    merged: the same events in two files a stream, each of two booths in order of arrival; None where no
    entrant asks for it. Flink's file source promises no order across files, so a reader that met the
    booths one after the other would take the second for late.
    """

    root: Path
    events: int
    merged: Path | None


@dataclass(frozen=True, slots=True)
class Data:
    """Which events. streams: `toll`; `entry-exit`; `groups`, made so that all of them stay open.

    devices: how many devices there are; of `groups`, how many there are before any comes again.
    owners: rows of reference data, `OWNERS`, a device each.
    """

    streams: Literal["toll", "entry-exit", "groups"]
    file_format: Literal["json", "parquet"]
    devices: int = 10_000
    owners: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return ("entry", "exit") if self.streams == "entry-exit" else ("toll",)

    def prepare(self, events: int, merged: bool) -> Prepared:
        """Make what is not there yet.

        events: of all streams together, about; `entry-exit` has a tenth fewer exits than entries.
        """
        devices = "" if self.devices == 10_000 else f"-{self.devices}-devices"
        root = CACHE / f"{self.streams}-{self.file_format}-{events}{devices}"
        _once(root, lambda part: self._generate(events, part))
        if self.owners:
            _once(OWNERS.parent, lambda part: _write_owners(self.owners, part / OWNERS.name))
        side = root.with_name(f"{root.name}-merged")
        if merged:
            _once(side, lambda part: self._merge(root, part))
        return Prepared(root, self._count(root), side if merged else None)

    def files(self, root: Path, stream: str) -> str:
        """The events of a stream as a table in DuckDB's SQL."""
        pattern = f"{root / stream}/*/*.{self.file_format}"
        if self.file_format == "parquet":
            return f"read_parquet('{pattern}')"
        columns = (
            "{seq: 'BIGINT', partition: 'BIGINT', device: 'VARCHAR', event_time: 'BIGINT', "
            "arrival_time: 'BIGINT', tolls: 'BIGINT', amount: 'DOUBLE', plate: 'VARCHAR'}"
        )
        return f"read_json('{pattern}', format = 'newline_delimited', columns = {columns})"

    def _generate(self, events: int, root: Path) -> None:
        if self.streams == "groups":
            _write_groups(events, self.devices, root)
            return
        each = events // len(self.names)
        command = [sys.executable, str(GENERATE), "--events", str(each), "--out", str(root)]
        command += ["--format", self.file_format, "--streams", self.streams, "--devices", str(self.devices)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def _merge(self, root: Path, merged: Path) -> None:
        for stream in self.names:
            for half in (0, 1):
                folder = merged / stream / str(half)
                folder.mkdir(parents=True)
                duckdb.sql(f"""
                    COPY (
                        FROM {self.files(root, stream)} WHERE partition % 2 = {half}
                        ORDER BY arrival_time, seq
                    ) TO '{folder}/0.{self.file_format}' (FORMAT {self.file_format})
                """)

    def _count(self, root: Path) -> int:
        tables = " UNION ALL ".join(f"SELECT seq FROM {self.files(root, name)}" for name in self.names)
        connection = duckdb.connect()
        return connection.execute(f"SELECT count(*) FROM ({tables})").fetchall()[0][0]


def in_minutes(prepared: Prepared) -> Prepared:
    """Toll events with a file for every booth and minute of arrival, as a growing input would have them.

    The files are as old as the events in them, so that whoever reads by age reads the booths side by side.
    """
    root = prepared.root.with_name(f"{prepared.root.name}-minutes")
    _once(root, lambda part: _split(prepared.root, part))
    return Prepared(root, prepared.events, None)


def _split(root: Path, part: Path) -> None:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE toll AS FROM {Data('toll', 'json').files(root, 'toll')}")
    found = connection.execute(
        "SELECT DISTINCT partition, arrival_time // 60000 AS minute FROM toll ORDER BY ALL"
    ).fetchall()
    for booth, minute in found:
        folder = part / "toll" / str(booth)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{minute}.json"
        connection.execute(f"""
            COPY (
                FROM toll WHERE partition = {booth} AND arrival_time // 60000 = {minute}
                ORDER BY arrival_time, seq
            ) TO '{file}' (FORMAT JSON)
        """)
        os.utime(file, (minute * 60 + booth, minute * 60 + booth))


def _once(root: Path, make: Callable[[Path], None]) -> None:
    """Make a folder under another name and rename it, so that what is there is whole."""
    if root.exists():
        return
    part = root.with_name(f"{root.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    make(part)
    os.replace(part, root)


def _write_owners(owners: int, path: Path) -> None:
    """Whose a device is: its own, so that a query has the same rows with owners for devices."""
    name = "format('device-{:05d}', i)"
    duckdb.sql(f"""
        COPY (SELECT {name} AS device, {name} AS owner, i % 7 = 0 AS expired FROM range({owners}) AS made(i))
        TO '{path}' (FORMAT JSON)
    """)


def _write_groups(events: int, groups: int, root: Path) -> None:
    """Events 0.1 ms apart whose keys are all different, then the same keys again in another order.

    Every line has the same length, so that bytes of input are events; two booths, each in its order.
    The keys come again by steps of a number that has no divisor in common with how many there are.
    """
    for booth in (0, 1):
        folder = root / "toll" / str(booth)
        folder.mkdir(parents=True)
        group = f"CASE WHEN i < {groups} THEN i ELSE i * 7919 % {groups} END"
        time_ms = f"{GROUPS_START_MS} + 1 + i // 10"
        duckdb.sql(f"""
            COPY (
                SELECT 1000000000 + i AS seq, i % 2 AS partition,
                    'group-' || lpad(CAST({group} AS VARCHAR), 7, '0') AS device,
                    {time_ms} AS event_time, {time_ms} AS arrival_time,
                    1 AS tolls, 1.5 AS amount, 'AAA0000' AS plate
                FROM range({events}) AS made(i) WHERE i % 2 = {booth} ORDER BY i
            ) TO '{folder}/0.json' (FORMAT JSON)
        """)
