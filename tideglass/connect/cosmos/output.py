"""A container of Azure Cosmos DB (SQL API) as an output: a document per row, under an id of its own.

`asa.md` 6.4 says where the id comes from:

the output names a DocumentId   its value; a document that is there is replaced, below level 1.2 merged
a row has a field `id`          that; another document with it makes the row a DuplicateKey
neither                         the row's id (`connect.row_ids`), the same when its batch is run again
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tideglass.connect.output import Batch, OutputConnector
from tideglass.core.errors import OutputError

if TYPE_CHECKING:
    import pyarrow as pa

    from tideglass.connect.cosmos.cosmos_container import CosmosContainer
    from tideglass.storage import StoragePath

_DOMAIN = "documents.azure.com"


@dataclass(frozen=True, slots=True)
class CosmosOutput(OutputConnector):
    """A container that takes rows; it must be there.

    name: of the output in the query.
    account: the name of the account, or the URI of its endpoint.
    database: its name.
    container: its name.
    key: a reference to the account's key (`${NAME}`), or the key; empty: an identity of Entra ID.
    document_id: the column with the document's id; None: see the module.
    level: the job's compatibility level.
    """

    name: str
    account: str
    database: str
    container: str
    key: str = field(default="", repr=False)
    document_id: str | None = None
    level: str = "1.2"

    def at_level(self, level: str) -> CosmosOutput:
        return replace(self, level=level)

    @property
    def guarantee(self) -> str:
        return "exactly once"

    @property
    def host(self) -> str:
        """The account's host."""
        name = self.account.partition("://")[2] or self.account
        host = name.partition("/")[0].partition(":")[0].lower()
        return host if "." in host else f"{host}.{_DOMAIN}"

    def prepare(self) -> None:
        """See that the container is there, and its partition key is one this output can write.

        Raises OutputError, and OutputUnavailable for an account that does not answer.
        """
        path = self._opened().partition_paths()
        if len(path) != 1 or path[0].count("/") != 1:
            raise OutputError(
                f"the output {self.name!r} writes to {self.describe()}, whose partition key is "
                f"{' and '.join(path)}; it must be one property at the top of a document, such as /device"
            )

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        """Write a document for every row. What the batch wrote before is written again, or found to be there.

        Raises RowsRefused: for rows that no document can hold before any is written, for others after all
        that can be written are. Raises OutputUnavailable where some may be written.
        """
        from tideglass.connect.cosmos.row_documents import documents, of_one_id

        container = self._opened()
        rows = documents(self, batch, staged, container.partition_key())
        container.write(of_one_id(rows), self._update)
        return ()

    @property
    def _update(self) -> str:
        """What becomes of a document that is there: `replace`, `merge` or `keep`."""
        return "keep" if self.document_id is None else "replace" if self.level == "1.2" else "merge"

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        """A container is the same whichever key lets in."""
        words = {"cosmos": self.host, "database": self.database, "container": self.container}
        return words | {"document_id": self.document_id, "path": None}

    def describe(self) -> str:
        return f"the container {self.container} in the database {self.database} of {self.host}"

    def _opened(self) -> CosmosContainer:
        if find_spec("azure") is None or find_spec("azure.cosmos") is None:
            raise OutputError(
                f"the output {self.name!r} writes to Cosmos DB, which needs the library azure-cosmos\n"
                "  hint: pip install 'tideglass[cosmos]'"
            )
        from tideglass.connect.cosmos.cosmos_container import CosmosContainer

        return CosmosContainer(self.name, self.host, self.database, self.container, self.key)
