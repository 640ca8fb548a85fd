"""A table of a database as an output: the rows of a batch and its number in one transaction (`sql_session`).

publish   lock ─▶ (there already: nothing) ─▶ convert ─▶ insert, piece by piece ─▶ record ─▶ commit

An answer that is lost after the commit looks like a lost connection: the batch is tried again, and its number
is found. The number of an earlier batch of the same generation cannot come: then the job's directory is an
older copy, and the rows since then are in the table already.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from tideglass.connect.output import Batch, OutputConnector
from tideglass.connect.refused_rows import RefusalKind, RefusedRow, RowsRefused
from tideglass.connect.sql.fitted import ORDINAL, FittedRows, fitted
from tideglass.connect.sql.sql_session import BATCHES, Dialect, Failure, SqlSession, TableAddress
from tideglass.connect.sql.target_table import TargetTable
from tideglass.core.errors import OutputError, OutputUnavailable
from tideglass.storage import StoragePath

#: Rows of one statement, where the project says nothing; and the fewest (`asa.md` 6.4).
MOST_ROWS, LEAST_ROWS = 10_000, 100
#: Rows looked for at once that the database itself has refused.
_MOST_REFUSED = 100


class _Held:
    """What a run keeps of an output on the driver: the session, the table, and rows of one statement.

    A task that gets the output gets none of it.
    """

    def __init__(self) -> None:
        self.session: SqlSession | None = None
        self.target: TargetTable | None = None
        self.writer = 0
        self.most_rows = 0

    def __reduce__(self) -> tuple[type[_Held], tuple[()]]:
        return _Held, ()


@dataclass(frozen=True, slots=True)
class SqlOutput(OutputConnector):
    """Rows in a table that is there already.

    name: of the output.
    address: of the table.
    dialect: the kind of the database.
    most_rows: of one statement; after an error that may pass half as many.
    keys: columns by which a row replaces an earlier one; () where rows are only added.
    level: the job's compatibility level.
    """

    name: str
    address: TableAddress
    dialect: Dialect
    most_rows: int = MOST_ROWS
    keys: tuple[str, ...] = ()
    level: str = "1.2"
    _held: _Held = field(default_factory=_Held, compare=False, repr=False)

    @property
    def guarantee(self) -> str:
        return "exactly once" if self.dialect.enforces_keys else "at least once"

    def at_level(self, level: str) -> SqlOutput:
        return replace(self, level=level, _held=_Held())

    def prepare(self) -> None:
        """Connect, look at the table, and make that of the batches."""
        self._close()
        self._held.writer = 0
        with self._failing("prepare"):
            self._session()

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        session, held = self._locked(batch)
        if held:
            return ()
        target = self._held.target
        assert target is not None
        pieces, refused = fitted(staged, target, self.keys, self.dialect.rules(self.level))
        if refused:
            with self._failing("roll back"):
                session.rollback()
            raise RowsRefused(refused)
        try:
            with self._failing("write"):
                rows = sum(self._write(session, each, target) for each in pieces)
                session.record(batch, self.name, rows)
                session.commit()
        except _RowFailed as error:
            raise self._refused(staged, pieces, error) from error.__cause__
        self._held.most_rows = min(self.most_rows, self._held.most_rows * 2)
        return ()

    def finish(self, batch: Batch) -> None:
        self._close()

    def withdraw(self, after: Batch) -> None:
        """Raises OutputError for rows that cannot be taken back: no column of the table tells whose they are.

        With a unique key they stay: they are skipped or replaced when they come again.
        """
        with self._failing("look for unfinished batches"):
            session = self._session()
            written = session.lock(after, self.name, self._held.writer)
            session.commit()
        target = self._held.target
        later = written.batch is not None and written.batch > (after.generation, after.number)
        if later and target is not None and not target.unique_keys:
            raise OutputError(
                f"{self.address.shown} holds rows of a batch that the last run did not finish, and they "
                "cannot be taken back, so this start would write them twice\n"
                "  hint: start the job once as it was, which finishes the batch, or give the table a unique "
                "key"
            )

    def newest_batch(self, job_id: str) -> Batch | None:
        with self._failing("look for the newest batch"):
            session = self._session()
            found = session.newest(job_id, self.name)
            session.rollback()
        return None if found is None else Batch(*found, job_id)

    def check_replaceable(self) -> None:
        """Raises OutputError where there are rows: they may be those of others."""
        with self._failing("look for rows"):
            session = self._session()
            found = session.has_rows()
            session.rollback()
        if found:
            raise OutputError(
                f"the output {self.name!r} writes to {self.describe()}, which holds rows that this start is "
                "to replace; they may be those of others, so they are not removed\n"
                f"  hint: empty the table first (TRUNCATE TABLE {self.address.shown}), or start without "
                "--overwrite and --fresh"
            )

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        address = self.address
        found: dict[str, Any] = {
            "database": self.dialect.name,
            "server": address.host,
            "port": address.port,
            "name": address.database,
            "table": address.shown,
        }
        return found | ({"keys": list(self.keys)} if self.keys else {})

    def describe(self) -> str:
        address = self.address
        return f"the table {address.shown} of {address.database} on {address.host} ({self.dialect.name})"

    def check(self, ours: Collection[StoragePath]) -> None:
        """A table may hold rows of others: they are not counted, replaced or removed."""

    # ------------------------------------------------------------ sessions

    def _session(self) -> SqlSession:
        """The session of this run; a new one looks at the table again."""
        held = self._held
        if held.session is not None:
            return held.session
        session = self.dialect.open(self.address)
        try:
            held.target = self._target(session)
            self._make_batches(session)
            held.writer = held.writer or session.now_microseconds()
            session.commit()
        except BaseException:
            session.close()
            raise
        held.most_rows = held.most_rows or self.most_rows
        held.session = session
        return session

    def _target(self, session: SqlSession) -> TargetTable:
        target = session.target()
        if target is None:
            raise OutputError(
                f"the output {self.name!r} writes to {self.describe()}, which is not there or hidden\n"
                "  hint: create the table with the columns of the query, or look at Table; "
                "a table of another schema is named schema.table"
            )
        columns = [target.column(key) for key in self.keys]
        missing = [key for key, column in zip(self.keys, columns, strict=True) if column is None]
        if missing:
            raise OutputError(
                f'the output {self.name!r} has the key {missing[0]!r} in "KeyColumns", '
                f"and the table {target.name} has no such column"
            )
        names = {column.name for column in columns if column is not None}
        if names and self.dialect.enforces_keys and names not in [set(each) for each in target.unique_keys]:
            listed = ", ".join(sorted(names))
            raise OutputError(
                f"the output {self.name!r} replaces rows by {listed}, and the table {target.name} has no "
                f"unique key of just these columns\n"
                f"  hint: CREATE UNIQUE INDEX ON {target.name} ({listed})"
            )
        return target

    def _make_batches(self, session: SqlSession) -> None:
        try:
            session.make_batches()
        except Exception as error:
            if self.dialect.failure(error) is not Failure.OTHER:
                raise
            raise OutputError(
                f"the output {self.name!r} cannot make the table {BATCHES} beside {self.address.shown}, "
                f"which holds the number of the last batch: {self.dialect.words(error)}\n"
                f"  hint: run this as a user who may create tables, and grant SELECT, INSERT and UPDATE on "
                f"the table\n{self.dialect.batches_statement(self.address)}"
            ) from error

    def _close(self) -> None:
        session, self._held.session = self._held.session, None
        if session is not None:
            session.close()

    def _locked(self, batch: Batch) -> tuple[SqlSession, bool]:
        """A session that holds the lock, and whether the batch is there already; then it holds none.

        A connection that was lost since the last batch is made anew once.
        """
        fresh = self._held.session is None
        try:
            return self._lock(batch)
        except OutputUnavailable:
            if fresh:
                raise
            return self._lock(batch)

    def _lock(self, batch: Batch) -> tuple[SqlSession, bool]:
        with self._failing("lock its batches"):
            session = self._session()
            try:
                written = session.lock(batch, self.name, self._held.writer)
            except Exception as error:
                if self.dialect.failure(error) is not Failure.KEY:
                    raise
                self._close()  # another writer has made the row of this output at the same moment
                raise OutputUnavailable(f"{self.describe()} is locked by another writer") from error
            here = (batch.generation, batch.number)
            if written.writer > self._held.writer:
                session.rollback()
                raise OutputError(
                    f"another run of this job writes to {self.address.shown} by now; this one ends"
                )
            if written.batch is not None and written.batch > here:
                session.rollback()
                raise OutputError(
                    f"{self.address.shown} has batch {written.batch[1]} of generation {written.batch[0]} "
                    f"of this job, and the run is at batch {here[1]} of generation {here[0]}: the job's "
                    "directory is an older copy, and its rows are in the table already\n"
                    "  hint: bring back the newest copy of the directory, or start a job in a new one"
                )
            if written.batch == here:
                session.commit()
                return session, True
            return session, False

    @contextmanager
    def _failing(self, what: str) -> Generator[None]:
        """Errors of the database as what they mean. The transaction is undone."""
        try:
            yield
        except OutputError:
            raise
        except Exception as error:
            failure = self.dialect.failure(error)
            self._undo(failure)
            message = (
                f"the output {self.name!r} cannot {what} in {self.describe()}: {self.dialect.words(error)}"
            )
            match failure:
                case Failure.UNAVAILABLE:
                    self._held.most_rows = max(LEAST_ROWS, self._held.most_rows // 2)
                    raise OutputUnavailable(message) from error
                case Failure.ROW | Failure.KEY:
                    raise _RowFailed(message) from error
                case Failure.OTHER:
                    raise OutputError(message) from error

    def _undo(self, failure: Failure) -> None:
        """A transaction that failed ends; the session goes on only where a row was to blame."""
        session = self._held.session
        if session is not None and failure in (Failure.ROW, Failure.KEY):
            try:
                session.rollback()
                return
            except Exception as error:
                if self.dialect.failure(error) is not Failure.UNAVAILABLE:
                    raise
        self._close()

    # ------------------------------------------------------------ rows

    def _write(self, session: SqlSession, rows: FittedRows, target: TargetTable) -> int:
        keys = [column.name for key in self.keys if (column := target.column(key)) is not None]
        return sum(
            session.upsert(each, target, keys) if keys else session.insert(each, target)
            for each in rows.pieces(self._held.most_rows)
        )

    def _refused(
        self, staged: Sequence[pa.Table], pieces: Sequence[FittedRows], error: _RowFailed
    ) -> OutputError:
        """Which rows the database itself refuses: by constraints and triggers, which nobody else knows.

        Halves of the rows are written and rolled back until the rows are found.
        """
        found: list[RefusedRow] = []
        open_: list[FittedRows] = list(reversed(pieces))
        while open_ and len(found) < _MOST_REFUSED:
            rows = open_.pop()
            refusal = self._tried(rows)
            count = rows.rows.num_rows
            if refusal is not None and count == 1:
                found.append(_refused_row(int(rows.rows[ORDINAL][0].as_py()), staged, refusal))
            elif refusal is not None:
                halves = [(0, count // 2), (count // 2, count - count // 2)]
                open_ += [FittedRows(rows.columns, rows.rows.slice(*each)) for each in reversed(halves)]
        # Rows that fail only beside others of the batch are not found one by one.
        return RowsRefused(found) if found else OutputError(str(error))

    def _tried(self, rows: FittedRows) -> tuple[RefusalKind, str] | None:
        """Why the database refuses rows; None if it takes them. Nothing is written."""
        try:
            with self._failing("write"):
                session = self._session()
                target = self._held.target
                assert target is not None
                self._write(session, rows, target)
                session.rollback()
                return None
        except _RowFailed as error:
            cause = error.__cause__
            assert isinstance(cause, Exception)
            taken = self.dialect.failure(cause) is Failure.KEY
            return (
                RefusalKind.DUPLICATE_KEY if taken else RefusalKind.TYPE_CONVERSION_ERROR,
                f"{self.address.shown} refuses the row: {self.dialect.words(cause)}",
            )


class _RowFailed(Exception):
    """The database refuses a row, nobody knows which."""


def _refused_row(ordinal: int, staged: Sequence[pa.Table], refusal: tuple[RefusalKind, str]) -> RefusedRow:
    part = 0
    while ordinal >= staged[part].num_rows:
        ordinal -= staged[part].num_rows
        part += 1
    return RefusedRow(part, ordinal, *refusal)
