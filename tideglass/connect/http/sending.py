"""Rows in requests to a service: as many as the service takes at once, each row until it is accepted.

An attempt that fails is made again for the same batch; rows the service has accepted by then are left out,
as long as the process lives. After a crash all rows of the batch are sent again, each under its id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tideglass.connect.output import Batch
from tideglass.connect.refused_rows import RefusalKind, RefusedRow, RowsRefused

_AROUND_BYTES, _BETWEEN_BYTES = 2, 1


@dataclass(frozen=True, slots=True)
class OutgoingRow:
    """A row on its way.

    id: the same whenever the batch runs again, another for every row.
    data: as a request holds it.
    part, row: where it is among what the tasks have staged.
    size_bytes: as the service counts it against its limit; None: as long as `data`.
    together: a request holds only rows that agree in it.
    """

    id: str
    data: bytes
    part: int
    row: int
    size_bytes: int | None = None
    together: str = ""

    @property
    def counted_bytes(self) -> int:
        return len(self.data) if self.size_bytes is None else self.size_bytes


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What a request holds at most.

    rows: of them, one at least.
    bytes: of its body, two around all rows and one between two of them.
    """

    rows: int
    bytes: int


@dataclass(slots=True)
class AcceptedRows:
    """Which rows of the batch that is being sent a service has accepted. Of the driver's process only."""

    batch: Batch | None = None
    ids: set[str] = field(default_factory=set[str])

    def of(self, batch: Batch) -> set[str]:
        """The ids accepted of a batch; those of another batch are forgotten."""
        if self.batch != batch:
            self.batch, self.ids = batch, set()
        return self.ids

    def __reduce__(self) -> tuple[type[AcceptedRows], tuple[()]]:
        return AcceptedRows, ()


#: Sends rows in one request. False: the service takes no request of this size. Raises OutputError.
SendRows = Callable[[Sequence[OutgoingRow]], bool]


def send(
    rows: Sequence[OutgoingRow], limits: RequestLimits, accepted: set[str], request: SendRows, what: str
) -> None:
    """Send all rows that are not accepted yet, in their order, in as few requests as the limits allow.

    A request that is too large for the service is sent in halves. what: the service, in words.
    Raises RowsRefused before the first request for rows that no request can hold, and for a row that the
    service does not take even alone.
    """
    wide = [row for row in rows if row.counted_bytes > limits.bytes - _AROUND_BYTES]
    if wide:
        raise RowsRefused([_too_large(row, f"{what} takes {limits.bytes:,} at most") for row in wide])
    left = [row for row in rows if row.id not in accepted]
    most_rows, done = limits.rows, 0
    while done < len(left):
        chunk = _fitting(left, done, most_rows, limits.bytes)
        if request(chunk):
            accepted.update(row.id for row in chunk)
            done += len(chunk)
        elif len(chunk) == 1:
            raise RowsRefused([_too_large(chunk[0], f"{what} has refused it as too large")])
        else:
            most_rows = len(chunk) // 2


def _fitting(rows: Sequence[OutgoingRow], start: int, most: int, most_bytes: int) -> Sequence[OutgoingRow]:
    """The rows from `start` on that go into one request; one at least."""
    first = rows[start]
    size, end = _AROUND_BYTES + len(first.data), start + 1
    for row in rows[start + 1 : start + most]:
        size += _BETWEEN_BYTES + len(row.data)
        if size > most_bytes or row.together != first.together:
            break
        end += 1
    return rows[start:end]


def _too_large(row: OutgoingRow, why: str) -> RefusedRow:
    return RefusedRow(
        row.part,
        row.row,
        RefusalKind.RECORD_EXCEEDED_SIZE_LIMIT,
        f"the row has {row.counted_bytes:,} bytes; {why}",
    )
