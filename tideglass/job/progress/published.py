"""Which outputs have the rows of a batch whose other outputs do not take theirs yet.

Written while a batch waits for an output. If the run ends then, the batch is run again, and an output that
has its rows is not asked to take them once more: one that writes at least once would double them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tideglass.connect.output import OutputConnector
from tideglass.core.documents import Document
from tideglass.core.errors import REBUILD, damaged
from tideglass.storage import AnyPath, StoragePath, storage_path

#: In the directory of a generation, what its `Published` is.
PUBLISHED = "published.json"


@dataclass(frozen=True, slots=True)
class PublishedOutput:
    """An output that has its rows of the batch.

    place: what identifies it, so that one that was changed since gets its rows.
    dropped: rows it has refused and that were left out.
    """

    place: str
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Published:
    """The outputs that have their rows of a batch; `batch` is None while no batch has waited."""

    batch: int | None = None
    outputs: Mapping[str, PublishedOutput] = field(default_factory=dict[str, PublishedOutput])

    @staticmethod
    def load(generation: AnyPath) -> Published:
        """What `save` wrote; nothing where it wrote nothing. Raises StateError for what is none."""
        path = storage_path(generation) / PUBLISHED
        try:
            return _DOCUMENT.of_text(path.read_bytes())
        except FileNotFoundError:
            return Published()
        except ValueError as error:
            raise damaged(path, f"does not say which outputs have their rows ({error})", REBUILD) from error

    def save(self, generation: AnyPath) -> None:
        (storage_path(generation) / PUBLISHED).write(_DOCUMENT.text(self).encode())

    def of(self, batch: int) -> Published:
        """What is known of a batch."""
        return self if self.batch == batch else Published(batch)

    def and_also(self, name: str, place: str, dropped: int) -> Published:
        """The same after one more output has its rows."""
        return replace(self, outputs={**self.outputs, name: PublishedOutput(place, dropped)})


def place_of(output: OutputConnector, directory: StoragePath) -> str:
    """What identifies an output, as text."""
    return json.dumps(output.identity(directory), sort_keys=True)


_DOCUMENT = Document(Published)
