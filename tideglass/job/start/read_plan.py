"""Where a generation begins to read: decided once, and kept beside its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tideglass.core.documents import Document
from tideglass.core.durable import replace_file
from tideglass.core.errors import RESTART, damaged
from tideglass.core.positions import InputPositions
from tideglass.ingress.read_from import PartitionBegin

#: In the directory of a generation, what its `ReadPlan` is.
READ_PLAN = "begun.json"


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Where a generation begins to read; plain data, kept beside its state so that a resumed run has it too.

    begins: per input and partition. recorded: the pieces to be read first, as an earlier run read them.
    after_ticks: the watermark that run had left, when no row is to be given before its place is reached.
    offsets: of inputs that are topics, per partition, the first to be read; a topic that is absent begins as
    the project says. places: of topics, the first that the run before had not read, when no row is to be
    given before; its state is built anew.
    """

    begins: Mapping[str, Mapping[str, PartitionBegin]] = field(default_factory=dict[str, Any])
    recorded: InputPositions = field(default_factory=dict[str, Any])
    after_ticks: int | None = None
    offsets: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Any])
    places: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Any])

    @property
    def reads_again(self) -> bool:
        """Whether anything is done again whose rows were given: events to be read, or idle periods."""
        if self.after_ticks is None:
            return False
        begins = [each for partitions in self.begins.values() for each in partitions.values()]
        return (
            any(each.idle_periods for each in begins)
            or any(
                place > self.offsets.get(name, {}).get(partition, 0)
                for name, of in self.places.items()
                for partition, place in of.items()
            )
            or any(
                list(self.begins[name][partition].position) != list(recorded)
                for name, of in self.recorded.items()
                for partition, recorded in of.items()
            )
        )

    @property
    def positions(self) -> InputPositions:
        """What of each partition is not read."""
        return {
            name: {partition: each.position for partition, each in partitions.items()}
            for name, partitions in self.begins.items()
        }

    def save(self, path: Path) -> None:
        replace_file(path, _DOCUMENT.text(self).encode())

    @staticmethod
    def load(path: Path) -> ReadPlan:
        """What `save` wrote; the beginning of everything where nothing was written.

        Raises StateError for what is none.
        """
        if not path.exists():
            return ReadPlan()
        try:
            return _DOCUMENT.of_text(path.read_bytes())
        except ValueError as error:
            raise damaged(
                path, f"does not say where its generation began to read ({error})", RESTART
            ) from error


def _of_format_1(content: dict[str, Any]) -> dict[str, Any]:
    """Two fields had other names."""
    content["after_ticks"] = content.pop("behind_ticks")
    for partitions in content["begins"].values():
        for each in partitions.values():
            each["idle_periods"] = each.pop("seen")
    return content


_DOCUMENT = Document(ReadPlan, format=2, earlier={1: _of_format_1})
