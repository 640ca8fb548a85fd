"""How far the partitions of each input had come when a batch began, where several ingresses share an input.

A partition that appears while others are under way starts at the least of their watermarks, and some of
them are scanned elsewhere. So the driver writes down after each batch what the reports of its partitions
said, under the number of the batch; a batch that runs again meets the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tideglass.core.errors import REBUILD, damaged
from tideglass.engine.messages import json_body
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.reports import PartitionReport

#: Watermarks in ticks by partition and reader.
Watermarks: TypeAlias = Mapping[str, Mapping[int, int]]

_SENDER = "peers"


@dataclass(frozen=True, slots=True)
class PartitionWatermarks:
    """The book of watermarks. Picklable; written by the driver, read by tasks."""

    snapshots: Snapshots

    def take(self, batch: int, reports: Iterable[PartitionReport]) -> None:
        """Write down what is known after a batch: what its reports say, and of the silent what was known."""
        found = self._load(batch - 1)
        for report in reports:
            found.setdefault(report.input, {})[report.partition] = {
                str(each.reader): each.watermark_ticks for each in report.readers
            }
        self.snapshots.save(_SENDER, batch, json_body(found))
        self.snapshots.forget_before(batch)

    def before(self, batch: int, input_name: str) -> Watermarks:
        """The partitions of an input that had given something before a batch."""
        return {
            partition: {int(reader): ticks for reader, ticks in readers.items()}
            for partition, readers in self._load(batch - 1).get(input_name, {}).items()
        }

    def _load(self, batch: int) -> dict[str, dict[str, dict[str, int]]]:
        """What is known after a batch. Raises StateError when that is lost, as rows could come too late."""
        if batch < 0:
            return {}
        body = self.snapshots.load(_SENDER, batch)
        if body is None:
            raise damaged(self.snapshots.path(_SENDER, batch), "is missing", REBUILD)
        return json.loads(body)
