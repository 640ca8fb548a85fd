"""Queues and topics of Azure Service Bus as outputs: a message per row, in batches by its REST interface.

Rows arrive at least once. The `MessageId` of a message is its row's id, the same whenever it is sent again: a
queue or topic with duplicate detection drops what it has seen within its window. A column that is a property
of the message is no part of its body (`asa.md` 6.4).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

from tideglass.connect.azure.endpoints import endpoint
from tideglass.connect.environment import resolved_secret
from tideglass.connect.http.sending import AcceptedRows, OutgoingRow, RequestLimits, send
from tideglass.connect.output import Batch, OutputConnector
from tideglass.connect.refused_rows import RefusalKind, RefusedRow, RowsRefused
from tideglass.core.errors import OutputError, OutputUnavailable
from tideglass.core.masking import keep_secret

if TYPE_CHECKING:
    import pyarrow as pa

    from tideglass.storage import StoragePath

#: Of a message, and of a batch of them: of the tier Standard. Premium takes 1 MB by REST.
MOST_BYTES = 262_144
#: Of a batch: more would only make a lost answer dearer.
MOST_ROWS = 1_000

#: System properties a project may fill from columns (`asa.md` 6.4) -> as the service's JSON names them.
SYSTEM_PROPERTIES = {
    **{name: name for name in ("MessageId", "ContentType", "Label", "PartitionKey", "ReplyTo")},
    **{name: name for name in ("SessionId", "CorrelationId", "To", "ForcePersistence")},
    **{name: name for name in ("TimeToLive", "ScheduledEnqueueTimeUtc")},
}
#: Of messages in one batch these agree.
_SAME_IN_A_BATCH = ("PartitionKey", "SessionId")
#: How long a token lets in; one is made for every request.
_TOKEN_SECONDS = 1200
_TIMEOUT_SECONDS = 60.0
#: Words in the text of a 403 that is about room and not about access.
_FULL = ("quota", "maximum entity size")


@dataclass(frozen=True, slots=True)
class ServiceBusOutput(OutputConnector):
    """A queue or topic that takes a message per row.

    name: of the output in the query.
    kind: `queue` or `topic`.
    namespace: of Service Bus, as a name or as a host.
    entity: the queue's or topic's name.
    policy: the shared access policy that may send; empty: Entra ID lets in.
    key: of the policy, or a reference to the environment.
    format: of bodies, `json` or `csv`.
    delimiter: of CSV.
    properties: columns that are properties of the message.
    system_properties: names of SYSTEM_PROPERTIES -> columns.
    limits: what a request holds; its bytes are also the most of a message.
    accepted: which rows of the current batch the service has taken.
    """

    name: str
    kind: str
    namespace: str
    entity: str
    policy: str = ""
    key: str = field(default="", repr=False)
    format: str = "json"
    delimiter: str = ","
    properties: tuple[str, ...] = ()
    system_properties: Mapping[str, str] = field(default_factory=dict[str, str])
    limits: RequestLimits = RequestLimits(MOST_ROWS, MOST_BYTES)
    accepted: AcceptedRows = field(default_factory=AcceptedRows, compare=False, repr=False)

    def prepare(self) -> None:
        """See that the key is there. A policy that may only send can ask the service for nothing."""
        self._authorization()

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        """Send the messages of the batch that the service has not accepted yet."""
        send(self._messages(batch, staged), self.limits, self.accepted.of(batch), self._send, self.describe())
        return ()

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        """Policy, key and sizes of requests may change."""
        words = {"kind": self.kind, "namespace": self.namespace, "entity": self.entity}
        how = {"format": self.format, "delimiter": self.delimiter, "properties": list(self.properties)}
        return {
            "type": "service bus",
            **words,
            **how,
            "system_properties": dict(self.system_properties),
            "path": None,
        }

    def describe(self) -> str:
        return f"the {self.kind} {self.entity} of {self.namespace}"

    @property
    def host(self) -> str:
        return self.namespace if "." in self.namespace else f"{self.namespace}.servicebus.windows.net"

    def _messages(self, batch: Batch, staged: Sequence[pa.Table]) -> list[OutgoingRow]:
        """The rows as elements of the batch format. Raises RowsRefused for properties that are none."""
        from tideglass.connect.row_ids import row_ids

        ids = iter(row_ids(self.name, batch, staged))
        found: list[OutgoingRow] = []
        refused: list[RefusedRow] = []
        for part, table in enumerate(staged):
            for row, (columns, body) in enumerate(self._bodies(table)):
                id_ = next(ids)
                try:
                    found.append(self._message(id_, columns, body, part, row))
                except _NoProperty as error:
                    refused.append(RefusedRow(part, row, error.kind, str(error)))
        if refused:
            raise RowsRefused(refused)
        return found

    def _bodies(self, table: pa.Table) -> Iterator[tuple[dict[str, Any], str]]:
        """The values of each row's property columns, and the text of what is left of it."""
        from tideglass.connect.formats.layout import spread
        from tideglass.core.json_rows import json_lines, rows_of

        taken = {name.casefold() for name in (*self.properties, *self.system_properties.values())}
        if self.format == "csv":
            shown = spread(table)
            kept = [name for name in shown.column_names if name.casefold() not in taken]
            for row, body in zip(rows_of(shown), _csv_texts(shown.select(kept), self.delimiter), strict=True):
                yield {name.casefold(): value for name, value in row.items()}, body
            return
        for text in json_lines(table).to_pylist():
            if not taken:
                yield {}, text
                continue
            row = json.loads(text)
            left = {name: value for name, value in row.items() if name.casefold() not in taken}
            columns = {name.casefold(): value for name, value in row.items()}
            yield columns, json.dumps(left, ensure_ascii=False, separators=(",", ":"))

    def _message(self, id_: str, columns: Mapping[str, Any], body: str, part: int, row: int) -> OutgoingRow:
        broker: dict[str, Any] = {"MessageId": id_}
        for name, column in self.system_properties.items():
            value = _property(columns, column)
            if value is not None:
                broker[name] = _system_value(name, column, value)
        broker.setdefault("ContentType", "application/json" if self.format == "json" else "text/csv")
        user = {name: value for name in self.properties if (value := _property(columns, name)) is not None}
        message = {"Body": body, "BrokerProperties": broker}
        if user:
            message["UserProperties"] = user
        data = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        beside = len(json.dumps([broker, user]).encode())
        size = len(body.encode("utf-8", "surrogatepass")) + beside
        together = "\0".join(str(broker.get(name, "")) for name in _SAME_IN_A_BATCH)
        return OutgoingRow(id_, data, part, row, size, together)

    def _send(self, rows: Sequence[OutgoingRow]) -> bool:
        from tideglass.connect.http.client import post, raise_for

        url = f"{endpoint(self.host) or f'https://{self.host}'}/{quote(self.entity)}/messages"
        headers = {
            "Authorization": self._authorization(),
            "Content-Type": "application/vnd.microsoft.servicebus.json",
        }
        answer = post(url, b"[" + b",".join(row.data for row in rows) + b"]", headers, _TIMEOUT_SECONDS)
        if answer.status in (200, 201):
            return True
        text = answer.excerpt.casefold()
        if answer.status == 413 or (answer.status == 403 and "too large" in text):
            return False
        if answer.status == 403 and any(word in text for word in _FULL):
            raise OutputUnavailable(
                f"{self.describe()} is full: {answer.excerpt}", answer.retry_after_seconds
            )
        raise_for(
            answer,
            self.describe(),
            refused="look at SharedAccessPolicyName and …Key; the policy needs the right Send",
        )
        raise OutputError(
            f"{self.describe()} has answered {answer.status} where 201 is expected: {answer.excerpt}"
        )

    def _authorization(self) -> str:
        if not self.policy:
            from tideglass.connect.http.client import bearer

            return bearer("https://servicebus.azure.net/.default")
        key = resolved_secret(self.key, os.environ, f"the output {self.name!r}")
        return sas_token(
            f"https://{self.host}/{self.entity}", self.policy, key, int(time.time()) + _TOKEN_SECONDS
        )


def sas_token(uri: str, policy: str, key: str, expires_seconds: int) -> str:
    """The token a policy's key makes for all below a URI, until a time in seconds since 1970.

    The signature is HMAC-SHA256 of the quoted URI, a line end and the time, with the key's text as it stands
    (learn.microsoft.com/azure/service-bus-messaging/service-bus-sas).
    """
    target = quote_plus(uri.lower())
    digest = hmac.new(key.encode(), f"{target}\n{expires_seconds}".encode(), hashlib.sha256).digest()
    signature = quote_plus(keep_secret(base64.b64encode(digest).decode()))
    return f"SharedAccessSignature sr={target}&sig={signature}&se={expires_seconds}&skn={quote_plus(policy)}"


class _NoProperty(ValueError):
    """What a row holds in a column is no property of a message."""

    def __init__(self, kind: RefusalKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def _property(columns: Mapping[str, Any], column: str) -> Any:
    """The value of a property column; None for NULL. Raises _NoProperty."""
    if column.casefold() not in columns:
        raise _NoProperty(
            RefusalKind.REQUIRED_COLUMN_MISSING, f"the row has no column {column!r}, which is a property"
        )
    value = columns[column.casefold()]
    if isinstance(value, dict | list):
        raise _NoProperty(
            RefusalKind.TYPE_CONVERSION_ERROR,
            f"the column {column!r} holds a record or an array, which no property can",
        )
    return value


def _system_value(name: str, column: str, value: Any) -> Any:
    """The value as the service's JSON has that property. Raises _NoProperty."""
    if name == "ForcePersistence" and isinstance(value, bool):
        return value
    if name == "TimeToLive" and isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if name == "ScheduledEnqueueTimeUtc":
        try:
            at = datetime.fromisoformat(str(value)[:26].removesuffix("Z"))
        except ValueError:
            pass
        else:
            return format_datetime(at.replace(tzinfo=UTC), usegmt=True)
    elif name not in ("ForcePersistence", "TimeToLive"):
        return value if isinstance(value, str) else json.dumps(value)
    wanted = {"ForcePersistence": "a bit", "TimeToLive": "seconds", "ScheduledEnqueueTimeUtc": "a datetime"}
    raise _NoProperty(
        RefusalKind.TYPE_CONVERSION_ERROR, f"the column {column!r} is {name}, which is {wanted[name]}"
    )


def _csv_texts(table: pa.Table, delimiter: str) -> list[str]:
    """A header and a row each."""
    import numpy as np

    from tideglass.connect.formats.csv import row_bounds
    from tideglass.connect.formats.layout import csv_bytes

    body = csv_bytes(table, delimiter)
    bounds = row_bounds(np.frombuffer(body, np.uint8), delimiter).tolist()
    header = body[: bounds[1]]
    return [(header + body[start:end]).decode() for start, end in pairwise(bounds[1:])]
