"""A table of Azure Table storage as an output: an entity per row, inserted or replaced by its two keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tideglass.connect.output import Batch, OutputConnector
from tideglass.core.errors import OutputError

if TYPE_CHECKING:
    import pyarrow as pa

    from tideglass.connect.tables.table_service import TableService
    from tideglass.storage import StoragePath

#: Entities in a transaction, the service's limit.
MOST_ENTITIES = 100
_DOMAIN = "table.core.windows.net"


@dataclass(frozen=True, slots=True)
class EntityColumns:
    """How rows become entities.

    partition_key, row_key: the columns with an entity's keys.
    removed: columns that entities do not have.
    """

    partition_key: str
    row_key: str
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableStorageOutput(OutputConnector):
    """A table that takes rows; it is made where there is none.

    name: of the output in the query.
    account: the storage account, or its host.
    table: its name.
    columns: how rows become entities.
    key: a reference to the account's key (`${NAME}`), or the key; empty: an identity of Entra ID.
    batch_size: entities in a transaction, MOST_ENTITIES at most.
    """

    name: str
    account: str
    table: str
    columns: EntityColumns
    key: str = field(default="", repr=False)
    batch_size: int = MOST_ENTITIES

    @property
    def guarantee(self) -> str:
        return "exactly once"

    @property
    def host(self) -> str:
        """The account's host of tables."""
        account, _, domain = self.account.lower().partition(".")
        return f"{account}.{domain or _DOMAIN}"

    def prepare(self) -> None:
        """Make the table where there is none. Raises OutputError, OutputUnavailable."""
        self._service().make_table()

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        """Insert or replace an entity for every row; a batch that is repeated replaces what it had written.

        Raises RowsRefused: for rows that no entity can hold before any is written, for those the service
        refuses after the transactions without them. Raises OutputUnavailable where some may be written.
        """
        from tideglass.connect.tables.entities import entities, transactions

        self._service().write(transactions(entities(staged, self.columns), self.batch_size))
        return ()

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        """A table is the same whichever key lets in."""
        keys = {"partition_key": self.columns.partition_key, "row_key": self.columns.row_key}
        removed = list(self.columns.removed)
        return {"account": self.host, "table": self.table, **keys, "removed": removed, "path": None}

    def describe(self) -> str:
        return f"the table {self.table} of {self.host}"

    def _service(self) -> TableService:
        if find_spec("azure") is None or find_spec("azure.data.tables") is None:
            raise OutputError(
                f"the output {self.name!r} writes to Table storage, which needs the library "
                "azure-data-tables\n  hint: pip install 'tideglass[table]'"
            )
        from tideglass.connect.tables.table_service import TableService

        return TableService(self.name, self.host, self.table, self.key)
