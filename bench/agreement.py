"""Whether the entrants of a scenario computed the same, row by row, and where they may differ.

DuckDB's batch query follows `asa.md` to the letter: it is told which events are early (dropped) and late
(re-timed), and its windows are (start, end]. Every row of ours must be one of its rows and the other way
round. Streaming rivals have other rules for three kinds of event, so their rows are compared where these
are not involved:

late        older than two minutes at arrival: we re-time it, they drop it once their watermark is past
boundary    exactly on the end of a window: (start, end] with us, [start, end) with them; of LAG, equal times
unflushed   windows that close behind the last watermark: only an engine told that the input has ended
            writes them
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb

from data import Data

EARLY_MS = 300_000
LATE_MS = 120_000
#: Floats are added in other orders, so the last digits differ; everything else is equal.
RELATIVE_ERROR = 1e-9

#: windows, sessions: those that hold such an event. pairs: either event is late. neighbours: a row whose
#: predecessor is late or not certain. nothing: no row is touched by what time policies do.
Touched = Literal["windows", "sessions", "pairs", "neighbours", "nothing"]


class Disagreement(Exception):
    """Rows differ that must be the same; the text says which."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """columns: names and types of a row, times as TIMESTAMPTZ. key: the columns no two rows share.

    size_ms, hop_ms: of windows; of sessions size_ms is the timeout.
    """

    columns: dict[str, str]
    key: tuple[str, ...]
    touched: Touched
    size_ms: int = 0
    hop_ms: int = 0

    def rows(self, directory: Path, file_format: str) -> str:
        """What an entrant wrote, as a table in DuckDB's SQL with the columns of this agreement."""
        if file_format == "csv":
            names = ", ".join(f"'{name}': '{kind}'" for name, kind in self.columns.items())
            return f"(FROM read_csv('{directory}/rows/part-*', header = false, columns = {{{names}}}))"
        casts = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in self.columns.items())
        return f"(SELECT {casts} FROM read_parquet('{directory}/rows/**/*.parquet'))"


@dataclass(frozen=True, slots=True)
class Compared:
    """How many rows had to be the same, and were; how many were left aside, and why."""

    rows: int
    compared: int
    late_or_boundary: int
    unflushed: int

    def __str__(self) -> str:
        said = f"{self.compared:,} of {self.rows:,} rows compared, all equal"
        if self.late_or_boundary:
            said += f"; {self.late_or_boundary:,} hold late or boundary events, for which the rules differ"
        if self.unflushed:
            said += (
                f"; {self.unflushed:,} close behind the last watermark, which only a finished input passes"
            )
        return said


def compare(
    agreement: Agreement, data: Data, root: Path, floor: str, theirs: str, exact: bool, flushes: bool
) -> Compared:
    """Rows of `theirs` against those of `floor`, both tables of SQL with the agreement's columns.

    exact: every row must be the same, none is left aside. flushes: the end of the input closes
    everything. Raises Disagreement with the first rows that differ.
    """
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"CREATE TABLE floor AS FROM {floor}")
    connection.execute(f"CREATE TABLE theirs AS FROM {theirs}")
    key = ", ".join(agreement.key)
    for name in ("floor", "theirs"):
        doubled = connection.sql(f"SELECT {key} FROM {name} GROUP BY ALL HAVING count(*) > 1 LIMIT 3")
        if doubled.fetchall():
            raise Disagreement(f"more than one row of a key:\n{doubled}")
    touched, open_ = "false", "false"
    if not exact:
        _make_touched(connection, agreement, data, root)
        touched = _is_touched(agreement)
        if not flushes and "window_end" in agreement.columns:
            open_ = "epoch_ms(window_end) > (SELECT max(last) FROM watermarks)"
    values = [name for name in agreement.columns if name not in agreement.key]
    renamed = "".join(f", {name} AS {name}_" for name in values)
    connection.execute(f"""
        CREATE TABLE joined AS
        SELECT *, {touched} AS touched, {open_} AS unflushed
        FROM (SELECT true AS ours, * FROM floor) AS a
        FULL JOIN (SELECT true AS other, {key}{renamed} FROM theirs) AS b
        USING ({key})
    """)
    unequal = " OR ".join(_unequal(name, agreement.columns[name]) for name in values) or "false"
    differing = connection.sql(f"""
        FROM joined WHERE NOT touched AND NOT unflushed AND (ours IS NULL OR other IS NULL OR {unequal})
        ORDER BY {key} LIMIT 5
    """)
    if differing.fetchall():
        raise Disagreement(f"rows differ:\n{differing}")
    counted = connection.sql("""
        SELECT count(*), count(*) FILTER (NOT touched AND NOT unflushed),
            count(*) FILTER (touched AND NOT unflushed), count(*) FILTER (unflushed)
        FROM joined
    """).fetchall()
    return Compared(*counted[0])


def _unequal(name: str, kind: str) -> str:
    if kind == "DOUBLE":
        return (
            f"({name} IS NULL) <> ({name}_ IS NULL) OR abs({name} - {name}_) > {RELATIVE_ERROR} * abs({name})"
        )
    return f"{name} IS DISTINCT FROM {name}_"


def _make_touched(
    connection: duckdb.DuckDBPyConnection, agreement: Agreement, data: Data, root: Path
) -> None:
    """Tables `events_…` (no early ones), `watermarks` (the last one) and `marks` of rows to leave aside.

    A late event is marked both at its own time and at the one we give it.
    """
    for stream in data.names:
        connection.execute(f"""
            CREATE TABLE "events_{stream}" AS
            SELECT *, arrival_time - event_time > {LATE_MS} AS late FROM {data.files(root, stream)}
            WHERE event_time - arrival_time <= {EARLY_MS}
        """)
    last = " UNION ALL ".join(
        f'SELECT max(event_time) AS time_ms FROM "events_{name}"' for name in data.names
    )
    connection.execute(f"CREATE TABLE watermarks AS SELECT min(time_ms) - {LATE_MS} AS last FROM ({last})")
    if agreement.touched == "pairs":
        return
    points = f"""
        SELECT device, seq, event_time AS time_ms, late FROM events_toll
        UNION ALL SELECT device, seq, arrival_time - {LATE_MS}, true FROM events_toll WHERE late
    """
    size_ms, hop_ms = agreement.size_ms, agreement.hop_ms
    match agreement.touched:
        case "windows":
            first_ms = f"(time_ms + {hop_ms - 1}) // {hop_ms} * {hop_ms}"
            connection.execute(f"""
                CREATE TABLE marks AS
                SELECT DISTINCT device, make_timestamptz(1000 * ends) AS window_end FROM (
                    SELECT device, unnest(range({first_ms}, time_ms + {size_ms} + 1, {hop_ms})) AS ends
                    FROM ({points}) WHERE late
                    UNION ALL
                    SELECT device, unnest([event_time, event_time + {size_ms}]) FROM events_toll
                    WHERE event_time % {hop_ms} = 0)
            """)
        case "sessions":
            # Made of all the times an event can have, so every session of any engine lies within one.
            connection.execute(f"""
                CREATE TABLE marks AS
                WITH opened AS (
                    SELECT *, coalesce(time_ms - lag(time_ms) OVER earlier > {size_ms}, true) AS opens
                    FROM ({points}) WINDOW earlier AS (PARTITION BY device ORDER BY time_ms)),
                numbered AS (
                    SELECT *, count(*) FILTER (opens) OVER (PARTITION BY device ORDER BY time_ms) AS number
                    FROM opened)
                SELECT device AS of_device, make_timestamptz(1000 * min(time_ms)) AS first,
                    make_timestamptz(1000 * (max(time_ms) + {size_ms})) AS last
                FROM numbered GROUP BY device, number HAVING bool_or(late)
            """)
        case "neighbours":
            connection.execute(f"""
                CREATE TABLE marks AS
                WITH seen AS (
                    SELECT seq, time_ms, late, lag(late) OVER earlier AS after_late,
                        lag(time_ms) OVER earlier AS before, lag(time_ms, 2) OVER earlier AS before_that,
                        lead(time_ms) OVER earlier AS after
                    FROM ({points}) WINDOW earlier AS (PARTITION BY device ORDER BY time_ms, late, seq))
                SELECT DISTINCT seq FROM seen
                WHERE late OR after_late OR time_ms = before OR time_ms = after OR before = before_that
            """)
        case _:
            connection.execute("CREATE TABLE marks AS SELECT 0 AS none WHERE false")


def _is_touched(agreement: Agreement) -> str:
    match agreement.touched:
        case "windows":
            return "(device, window_end) IN (FROM marks)"
        case "sessions":
            return (
                "EXISTS (FROM marks WHERE of_device = device AND window_end > first AND window_end <= last)"
            )
        case "pairs":
            return (
                "entry_seq IN (SELECT seq FROM events_entry WHERE late)"
                " OR exit_seq IN (SELECT seq FROM events_exit WHERE late)"
            )
        case "neighbours":
            return "seq IN (FROM marks)"
        case "nothing":
            return "false"
