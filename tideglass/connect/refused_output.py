"""An output that is understood and not supported: a run that would write to it does not start."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tideglass.connect.output import Batch, OutputConnector
from tideglass.core.errors import OutputError

if TYPE_CHECKING:
    import pyarrow as pa

    from tideglass.storage import StoragePath


@dataclass(frozen=True, slots=True)
class RefusedOutput(OutputConnector):
    """Takes no rows.

    name: of the output in the query.
    type: as the project names it.
    reason: why, and what to do.
    """

    name: str
    type: str
    reason: str

    def check(self, ours: Collection[StoragePath]) -> None:
        """Raises OutputError."""
        raise OutputError(self.reason)

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        """Raises OutputError."""
        raise OutputError(self.reason)

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        return {"type": self.type, "path": None}

    def describe(self) -> str:
        return f"{self.type}, which is not supported"
