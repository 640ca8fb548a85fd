"""A Delta Lake table as an output: every batch is one commit, exactly once (`asa.md` 6.4, 6.5)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from tideglass.connect.output import Batch, OutputConnector
from tideglass.core.errors import OutputError, OutputUnavailable

if TYPE_CHECKING:
    import pyarrow as pa

    from tideglass.connect.azure.storage_account import StorageAccount
    from tideglass.connect.delta.delta_commits import DeltaCommits
    from tideglass.storage import StoragePath

#: How often a commit begins anew while others commit under the same application.
_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class DeltaOutput(OutputConnector):
    """A table that takes rows, a commit for every batch.

    Tables are append-only, so rows are never withdrawn: see `withdraw`.

    name: of the output in the query.
    path: the folder of the table, on a disk or in an object store.
    partition_column: by whose value its files lie in folders; None: they do not.
    account: what lets a run into the store of the folder; None: the environment alone.
    """

    name: str
    path: StoragePath
    partition_column: str | None = None
    account: StorageAccount | None = None

    @property
    def guarantee(self) -> str:
        return "exactly once"

    def storage_settings(self) -> Mapping[str, str]:
        return {} if self.account is None else self.account.settings()

    def prepare(self) -> None:
        """See that the table can be read, and has the partition column; it is made by its first rows.

        Raises OutputError, and OutputUnavailable for a store that does not answer.
        """
        table = self._commits("").opened()
        if table is None:
            return
        there, wanted = table.metadata().partition_columns, self.partition_column
        if [each.casefold() for each in there] != ([] if wanted is None else [wanted.casefold()]):
            raise OutputError(
                f"the output {self.name!r} has {_partitions([wanted] if wanted else [])}, and the Delta "
                f"table {self.path} has {_partitions(there)}\n  hint: name the column the table has"
            )

    def stage(self, rows: pa.Table, sender: str) -> pa.Table:
        """The rows with a column for every field."""
        from tideglass.connect.delta.delta_schema import LISTED
        from tideglass.connect.formats.layout import spread

        listed = [name for name in rows.column_names if not name.startswith("$")]
        return spread(rows).replace_schema_metadata({LISTED: json.dumps(listed).encode()})

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        """Commit the rows, and make the table where there is none; nothing for a batch that is there.

        Raises RowsRefused before anything of them is visible, OutputUnavailable, and OutputError where the
        table holds other rows as this batch or a later batch.
        """
        import pyarrow as pa

        from tideglass.connect.delta.delta_schema import first_schema, projected

        commits = self._commits(batch.job_id)
        for _ in range(_ATTEMPTS):
            table = commits.opened()
            if table is None:
                schema = first_schema(staged, self.partition_column)
                projected(staged, schema)  # rows that are refused make no table
                commits.create(schema, self.partition_column)
                continue
            rows = projected(staged, pa.schema(cast("Any", table.schema().to_arrow())))
            if commits.committed(table, batch, rows) or commits.append(table, batch, rows):
                return ()
        raise OutputUnavailable(
            f"the Delta table {self.path} of the output {self.name!r} is committed to by others all the time"
        )

    def newest_batch(self, job_id: str) -> Batch | None:
        from tideglass.connect.delta.delta_commits import batch_of

        commits = self._commits(job_id)
        table = commits.opened()
        last = None if table is None else table.transaction_version(commits.application)
        return None if last is None else batch_of(last)

    def withdraw(self, after: Batch) -> None:
        """Raises OutputError if the table holds later batches: it is append-only, they cannot be removed."""
        last = self.newest_batch(after.job_id)
        if last is not None and last.generation == after.generation and last.number > after.number:
            raise OutputError(
                f"[DELTA_APPEND_ONLY] the Delta table {self.path} holds batch {last.number}, which "
                f"the job had not committed when it was killed; a start that emits its rows again would "
                "double them\n  hint: start the job once as it was, without --start, and stop it; then start "
                "it as you like"
            )

    def check_replaceable(self) -> None:
        """Raises OutputError where there is a table, for it is append-only."""
        if self._commits("").opened() is not None:
            raise OutputError(
                f"the output {self.name!r} appends to the Delta table {self.path}, whose rows cannot be "
                "replaced\n  hint: remove the table, or name another one"
            )

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        """A project that is moved as a whole, its job directory inside, is the same."""
        from tideglass.connect.spec import path_seen_from

        table = path_seen_from(directory, self.path)
        return {"delta": table, "partition_column": self.partition_column, "path": None}

    def describe(self) -> str:
        return f"the Delta table {self.path}"

    def _commits(self, job_id: str) -> DeltaCommits:
        if find_spec("deltalake") is None:
            raise OutputError(
                f"the output {self.name!r} writes to a Delta table, which needs the library deltalake\n"
                "  hint: pip install 'tideglass[delta]'"
            )
        from tideglass.connect.delta.delta_commits import DeltaCommits
        from tideglass.storage.table_options import table_options

        return DeltaCommits(
            str(self.path.absolute()), table_options(self.path), f"tideglass/{job_id}/{self.name}", self.name
        )


def _partitions(columns: Sequence[str]) -> str:
    return f"the partition column {' and '.join(columns)}" if columns else "no partition column"
