"""What the writer asks of a database: a dialect that opens sessions, and a session that is a transaction.

Exactly once: rows and the number of their batch are written in one transaction. The numbers lie in a table
`tideglass_batches` beside the table of the rows, with a row for each job and output:

    job                  id of the job directory
    output               name of the output
    generation, batch    the last batch whose rows are there; NULL before the first
    writer               when the newest writer has connected: microseconds since 1970 by the database's clock
    row_count            rows written so far

A transaction first locks that row. So of two writers one waits for the other, and one that finds a newer
writer there stops: a driver that was taken for dead writes nothing any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from tideglass.connect.output import Batch
from tideglass.connect.sql.conversion import SinkRules
from tideglass.connect.sql.fitted import FittedRows
from tideglass.connect.sql.target_table import TargetTable

#: The table of what is committed, in the schema of the table of the rows.
BATCHES = "tideglass_batches"


@dataclass(frozen=True, slots=True)
class TableAddress:
    """Where a table is, and who writes to it.

    host: of the server, as the project has it.
    port: 0 for that of the protocol.
    database: on that server.
    user: empty for none.
    password: a reference to the environment, or the password itself.
    schema: of the table; empty for the database's own.
    table: without schema.
    entra: whether a token of Entra ID takes the place of the password.
    """

    host: str
    port: int
    database: str
    user: str
    schema: str
    table: str
    password: str = field(repr=False, default="")
    entra: bool = False

    @property
    def shown(self) -> str:
        """The table for people."""
        return f"{self.schema}.{self.table}" if self.schema else self.table


@dataclass(frozen=True, slots=True)
class Written:
    """What is written of an output: the last batch, None before the first; and the newest writer."""

    batch: tuple[int, int] | None
    writer: int


class Failure(Enum):
    """What an error of a database means for a batch."""

    #: It may work later: lost connections, locks, throttling.
    UNAVAILABLE = "unavailable"
    #: A row is to blame.
    ROW = "row"
    #: A row is to blame that has the key of another.
    KEY = "key"
    #: Nothing of that: the run ends.
    OTHER = "other"


class SqlSession(Protocol):
    """A connection. Each method belongs to the transaction that `commit` or `rollback` ends."""

    def now_microseconds(self) -> int:
        """The time by the clock of the database."""
        ...

    def target(self) -> TargetTable | None:
        """The table as it is; None where there is none that the user may see."""
        ...

    def has_rows(self) -> bool:
        """Whether the table holds any row."""
        ...

    def make_batches(self) -> None:
        """Make the table of what is committed, unless it is there."""
        ...

    def newest(self, job_id: str, output: str) -> tuple[int, int] | None:
        """Generation and number of the last batch of an output, without a lock; None before the first."""
        ...

    def lock(self, batch: Batch, output: str, writer: int) -> Written:
        """Lock what is known of an output, and leave `writer` there if no newer one is there."""
        ...

    def record(self, batch: Batch, output: str, rows: int) -> None:
        """Write down that the rows of a batch are there."""
        ...

    def insert(self, rows: FittedRows, target: TargetTable) -> int:
        """Insert rows, without those that have a key that is there; returns how many are new."""
        ...

    def upsert(self, rows: FittedRows, target: TargetTable, keys: Sequence[str]) -> int:
        """Insert rows or replace those of the same key; of several in `rows` the last one counts."""
        ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def close(self) -> None:
        """Close the connection; an open transaction ends without effect. Raises nothing."""
        ...


class Dialect(Protocol):
    """A kind of database. Picklable."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def enforces_keys(self) -> bool:
        """Whether unique keys are held by the database."""
        ...

    def rules(self, level: str) -> SinkRules:
        """How values are converted. level: the job's compatibility level."""
        ...

    def open(self, address: TableAddress) -> SqlSession:
        """Connect. Raises OutputError where that is refused, OutputUnavailable where it may work later."""
        ...

    def failure(self, error: Exception) -> Failure:
        """What an error that a session has raised means."""
        ...

    def words(self, error: BaseException) -> str:
        """What an error says, for people; no secret, and no statement."""
        ...

    def batches_statement(self, address: TableAddress) -> str:
        """The SQL that makes the table of what is committed."""
        ...
