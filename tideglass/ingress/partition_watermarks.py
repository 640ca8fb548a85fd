"""The watermarks of all partitions of an input before a batch, where several ingresses share the input.

A partition that appears while others are read starts at the least of their watermarks, and other ingresses
scan some of them. So the driver writes the watermarks in the reports of a batch under the number of the
batch; a batch that runs again reads the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tideglass.core.documents import Document
from tideglass.core.errors import REBUILD, damaged
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.reports import PartitionReport

#: Watermarks in ticks by partition and reader.
Watermarks: TypeAlias = Mapping[str, Mapping[int, int]]

_SENDER = "peers"


@dataclass(frozen=True, slots=True)
class _BatchWatermarks:
    """The watermarks after a batch, by input."""

    by_input: Mapping[str, Watermarks] = field(default_factory=dict[str, Watermarks])


#: Format 1 was the mapping alone.
_DOCUMENT = Document(_BatchWatermarks, format=2, earlier={1: lambda found: {"by_input": found}})


@dataclass(frozen=True, slots=True)
class PartitionWatermarks:
    """The watermarks after each batch. Picklable; the driver writes them, tasks read them."""

    snapshots: Snapshots

    def take(self, batch: int, reports: Iterable[PartitionReport]) -> None:
        """Write the watermarks after a batch: those of its reports; of other partitions those before it."""
        found = self._load(batch - 1)
        for report in reports:
            by_reader = {each.reader: each.watermark_ticks for each in report.readers}
            found[report.input] = {**found.get(report.input, {}), report.partition: by_reader}
        self.snapshots.save(_SENDER, batch, _DOCUMENT.body(_BatchWatermarks(found)))
        self.snapshots.forget_before(batch)

    def before(self, batch: int, input_name: str) -> Watermarks:
        """The watermarks of the partitions of an input that had events before a batch."""
        return self._load(batch - 1).get(input_name, {})

    def _load(self, batch: int) -> dict[str, Watermarks]:
        """What was written after a batch. Raises StateError when it is lost: rows would be too late."""
        if batch < 0:
            return {}
        body = self.snapshots.load(_SENDER, batch)
        if body is None:
            raise damaged(self.snapshots.path(_SENDER, batch), "is missing", REBUILD)
        try:
            return dict(_DOCUMENT.of_body(body).by_input)
        except ValueError as error:
            raise damaged(
                self.snapshots.path(_SENDER, batch), f"holds no watermarks ({error})", REBUILD
            ) from error
