"""Where a generation begins to read: decided once, and kept beside its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tideglass.core.documents import Document
from tideglass.core.errors import RESTART, damaged
from tideglass.core.positions import InputPositions
from tideglass.ingress.read_from import PartitionBegin
from tideglass.storage import AnyPath, storage_path

#: In the directory of a generation, what its `ReadPlan` is.
READ_PLAN = "begun.json"


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Where a generation begins to read; plain data, kept beside its state so that a resumed run has it too.

    begins: per input and partition, where its first event is.
    recorded: per input and partition, the pieces to be read first, as an earlier generation read them.
    after_ticks: the watermark of that generation where it stopped. Its state is built anew, and no row is
        emitted before everything is read that it had read. None for a generation that goes on after no other.
    offsets: per topic and partition, the first to be read; a topic that is absent begins as the project says.
    stop_offsets: per topic and partition, the first that the earlier generation had not read.
    """

    begins: Mapping[str, Mapping[str, PartitionBegin]] = field(default_factory=dict[str, Any])
    recorded: InputPositions = field(default_factory=dict[str, Any])
    after_ticks: int | None = None
    offsets: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Any])
    stop_offsets: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Any])

    @property
    def reads_again(self) -> bool:
        """Whether anything is done again whose rows were emitted: events to be read, or idle periods."""
        if self.after_ticks is None:
            return False
        begins = [each for partitions in self.begins.values() for each in partitions.values()]
        return (
            any(each.idle_periods for each in begins)
            or any(
                stop > self.offsets.get(name, {}).get(partition, 0)
                for name, of in self.stop_offsets.items()
                for partition, stop in of.items()
            )
            or any(
                list(self.begins[name][partition].position) != list(recorded)
                for name, of in self.recorded.items()
                for partition, recorded in of.items()
            )
        )

    @property
    def positions(self) -> InputPositions:
        """Where each partition begins; nothing before it is read."""
        return {
            name: {partition: each.position for partition, each in partitions.items()}
            for name, partitions in self.begins.items()
        }

    def save(self, path: AnyPath) -> None:
        storage_path(path).write(_DOCUMENT.text(self).encode())

    @staticmethod
    def load(path: AnyPath) -> ReadPlan:
        """What `save` wrote; the beginning of everything where nothing was written.

        Raises StateError for what is none.
        """
        try:
            return _DOCUMENT.of_text(storage_path(path).read_bytes())
        except FileNotFoundError:
            return ReadPlan()
        except ValueError as error:
            raise damaged(
                path, f"does not say where its generation began to read ({error})", RESTART
            ) from error


def _of_format_1(content: dict[str, Any]) -> dict[str, Any]:
    """Three fields had other names; earlier versions left out the offsets."""
    content["after_ticks"] = content.pop("behind_ticks")
    content["stop_offsets"] = content.pop("places", {})
    for partitions in content["begins"].values():
        for each in partitions.values():
            each["idle_periods"] = each.pop("seen")
    return content


_DOCUMENT = Document(ReadPlan, format=2, earlier={1: _of_format_1})
