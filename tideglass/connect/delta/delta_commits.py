"""Commits to a Delta table, each of a batch at most once: by application transactions of its log.

The table is read, the version of the application in it is compared with that of the batch, and what is
written goes through the very state that was read. A commit of the same application by anybody else in between
makes ours fail, whatever the library writes of it again (a commit that only adds rows beside ours does not);
then all of it begins anew. A second transaction holds a digest of the batch's rows, so that a batch that is
there already is told from another one with its number, as the run of an old copy of a job directory makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from tideglass.connect.output import Batch
from tideglass.core.errors import OutputError, OutputUnavailable
from tideglass.core.sql import query, quoted

if TYPE_CHECKING:
    from collections.abc import Generator

    from deltalake import DeltaTable

#: A generation's batches come after all of the one before: numbers of batches are below this.
_BATCHES = 1 << 32
_DIGESTS = 1 << 63
#: Words of errors that pass; the library has no classes for them.
_PASSING = (
    *("error sending request", "timed out", "timeout", "connection", "reset by peer", "dns error"),
    *("429", "500 ", "502 ", "503 ", "504 ", "server error", "too many requests", "serverbusy", "slowdown"),
)
_REFUSED = ("403", "401", "forbidden", "unauthorized", "authenticat", "permission denied", "access denied")


@dataclass(frozen=True, slots=True)
class DeltaCommits:
    """What an output has committed to a table.

    table_uri: as the library reads it.
    options: of its store; may hold secrets.
    application: of the job and output in the table's log.
    output: its name, for messages.
    """

    table_uri: str
    options: Mapping[str, str]
    application: str
    output: str

    def opened(self) -> DeltaTable | None:
        """The newest state of the table; None if there is none. Raises OutputError, OutputUnavailable."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        with self.translated():
            try:
                return DeltaTable(self.table_uri, storage_options=dict(self.options))
            except TableNotFoundError:
                return None

    def create(self, schema: pa.Schema, partition_column: str | None) -> None:
        """Make the table, append-only as the service does; nothing if somebody else has made it meanwhile."""
        from deltalake import DeltaTable
        from deltalake.exceptions import CommitFailedError, DeltaError

        with self.translated():
            try:
                DeltaTable.create(
                    self.table_uri,
                    cast("Any", schema),
                    partition_by=[partition_column] if partition_column else None,
                    configuration={"delta.appendOnly": "true"},
                    storage_options=dict(self.options),
                )
            except CommitFailedError:
                return
            except DeltaError as error:
                if "already exists" not in str(error):
                    raise

    def committed(self, table: DeltaTable, batch: Batch, rows: pa.Table) -> bool:
        """Whether the table has the batch. Raises OutputError if it has another or a later one instead."""
        last = table.transaction_version(self.application)
        version = version_of(batch)
        if last is None or last < version:
            return False
        if last == version and table.transaction_version(self._rows_application) == digest_of(rows):
            return True
        there = batch_of(last)
        raise OutputError(
            f"[DELTA_BATCH_DIFFERS] the output {self.output!r} is at batch {batch.number} of generation "
            f"{batch.generation}, and the table {self.table_uri} already holds "
            + (
                "other rows as this batch"
                if last == version
                else f"batch {there.number} of generation {there.generation} of the same job"
            )
            + "\n  hint: the job directory is an older copy of itself; bring back the newest one, or begin "
            "anew with another --run-dir and remove from the table what it holds twice then"
        )

    def append(self, table: DeltaTable, batch: Batch, rows: pa.Table) -> bool:
        """Commit the rows through the state that was read; False if the application has committed since."""
        from deltalake import CommitProperties, Transaction, write_deltalake
        from deltalake.exceptions import CommitFailedError

        transactions = [
            Transaction(self.application, version_of(batch)),
            Transaction(self._rows_application, digest_of(rows)),
        ]
        words = {"tideglass.generation": str(batch.generation), "tideglass.batch": str(batch.number)}
        with self.translated():
            try:
                write_deltalake(
                    table,
                    cast("Any", rows),
                    mode="append",
                    commit_properties=CommitProperties(custom_metadata=words, app_transactions=transactions),
                )
            except CommitFailedError:
                return False
        return True

    @property
    def _rows_application(self) -> str:
        return f"{self.application}/rows"

    @contextmanager
    def translated(self) -> Generator[None]:
        """Errors of the library as ours."""
        from deltalake.exceptions import DeltaError, DeltaProtocolError

        try:
            yield
        except DeltaProtocolError as error:
            raise OutputError(
                f"the table {self.table_uri} of the output {self.output!r} has a feature that cannot be "
                f"written: {_reason(error)}"
            ) from error
        except (DeltaError, OSError) as error:
            text = str(error).lower()
            message = f"the Delta table {self.table_uri} of the output {self.output!r}: {_reason(error)}"
            if any(word in text for word in _REFUSED):
                raise OutputError(f"{message}\n  hint: look at the credentials of its store") from None
            if any(word in text for word in _PASSING):
                raise OutputUnavailable(message) from None
            raise OutputError(message) from error


def version_of(batch: Batch) -> int:
    """The version of the application a batch commits: it grows with batches, and over generations.

    >>> version_of(Batch(2, 7)) > version_of(Batch(1, 1000))
    True
    """
    return batch.generation * _BATCHES + batch.number


def batch_of(version: int) -> Batch:
    """The batch of a version.

    >>> batch_of(version_of(Batch(2, 7)))
    Batch(generation=2, number=7, job_id='')
    """
    return Batch(*divmod(version, _BATCHES))


def digest_of(rows: pa.Table) -> int:
    """A number that depends on the rows and neither on their order nor on how they were cut into parts."""
    if not rows.num_rows:
        return 0
    values = ", ".join(f"{quoted(name)} := {quoted(f'c{at}')}" for at, name in enumerate(rows.column_names))
    table = pa.table(rows.columns, names=[f"c{at}" for at in range(rows.num_columns)])
    text = f"SELECT sum(md5_number_lower(CAST(struct_pack({values}) AS VARCHAR))) AS y FROM t"
    return int(query(text, t=table)["y"][0].as_py()) % _DIGESTS


def _reason(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
