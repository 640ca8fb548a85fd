"""Rows emitted and rows left out since a generation began, kept beside its state.

The scans keep the counters of the inputs in their own state. The rows of the outputs are known to the
driver alone, which writes it down with every batch, before Spark takes the batch for done. A batch that is
run again counts once: what was known before it is kept beside what is known after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tideglass.core.documents import Document
from tideglass.core.errors import REBUILD, damaged
from tideglass.engine.reports import StageReport
from tideglass.storage import AnyPath, storage_path

#: In the directory of a generation, what its `Counts` are.
COUNTS = "counts.json"


@dataclass(frozen=True, slots=True)
class Counts:
    """What a generation has emitted.

    batch: the last one that is counted; None before the first.
    rows: per output, emitted up to that batch.
    rows_before: per output, emitted up to the batch before.
    stages: the last report of each key group of a stage that has left out rows, without its operators, by
        `level/key group`.
    dropped, dropped_before: per output, rows it has refused and that were left out, as `rows`.
    """

    batch: int | None = None
    rows: Mapping[str, int] = field(default_factory=dict[str, int])
    rows_before: Mapping[str, int] = field(default_factory=dict[str, int])
    stages: Mapping[str, StageReport] = field(default_factory=dict[str, StageReport])
    dropped: Mapping[str, int] = field(default_factory=dict[str, int])
    dropped_before: Mapping[str, int] = field(default_factory=dict[str, int])

    @staticmethod
    def load(generation: AnyPath) -> Counts:
        """What `save` wrote; nothing where it wrote nothing. Raises StateError for what is none.

        An earlier version wrote none: what it gave is not counted.
        """
        path = storage_path(generation) / COUNTS
        try:
            return _DOCUMENT.of_text(path.read_bytes())
        except FileNotFoundError:
            return Counts()
        except ValueError as error:
            raise damaged(path, f"does not say how many rows were given ({error})", REBUILD) from error

    def save(self, generation: AnyPath) -> None:
        (storage_path(generation) / COUNTS).write(_DOCUMENT.text(self).encode())

    def after(
        self,
        batch: int,
        rows: Mapping[str, int],
        reports: Iterable[StageReport],
        dropped: Mapping[str, int] | None = None,
    ) -> Counts:
        """The counts after one more batch, or after the last one once more.

        >>> once = Counts().after(0, {"o": 2}, []).after(1, {"o": 3}, [])
        >>> once.rows, once.after(1, {"o": 3}, []).rows
        ({'o': 5}, {'o': 5})
        """
        before, dropped_before = self.up_to(batch - 1), self.dropped_up_to(batch - 1)
        total, left_out = _sum(before, rows), _sum(dropped_before, dropped or {})
        stages = dict(self.stages)
        for report in reports:
            if report.failed:
                stages[f"{report.level}/{report.key_group}"] = replace(report, operators=())
        return Counts(batch, total, before, stages, left_out, dropped_before)

    def up_to(self, batch: int | None) -> Mapping[str, int]:
        """Rows per output of all batches up to one that is done; None: of none.

        >>> counts = Counts(3, {"o": 5}, {"o": 2})
        >>> counts.up_to(3), counts.up_to(2)
        ({'o': 5}, {'o': 2})
        """
        return self.rows if self._counts(batch) else self.rows_before

    def dropped_up_to(self, batch: int | None) -> Mapping[str, int]:
        """As `up_to`, of the rows that were left out."""
        return self.dropped if self._counts(batch) else self.dropped_before

    def _counts(self, batch: int | None) -> bool:
        """Whether the last batch that is counted is done."""
        return self.batch is None or self.batch <= (-1 if batch is None else batch)


def _sum(before: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {name: before.get(name, 0) + more.get(name, 0) for name in {**before, **more}}


_DOCUMENT = Document(Counts)
