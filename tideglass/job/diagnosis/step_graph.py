"""The operators of a job as a graph: from an output upstream to what holds it, or loses its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tideglass.core.time import BEFORE_ALL_TICKS, LAST_TICKS, ORIGIN_TICKS
from tideglass.job.report.status import HolderStatus, StepStatus


@dataclass(frozen=True, slots=True)
class StepGraph:
    """The steps of a status by their numbers."""

    steps: Mapping[int, StepStatus]

    @staticmethod
    def of(steps: Sequence[StepStatus]) -> StepGraph:
        return StepGraph({each.operator: each for each in steps})

    def writers(self, output: str) -> tuple[StepStatus, ...]:
        """The operators that hand rows to an output: one for each of its statements."""
        return tuple(each for each in self.steps.values() if each.output == output)

    def sources(self, step: StepStatus) -> tuple[StepStatus, ...]:
        """The operators whose rows a step reads."""
        return tuple(self.steps[each] for each in step.sources if each in self.steps)

    def upstream(self, output: str) -> tuple[StepStatus, ...]:
        """Every operator that feeds an output, those nearest to it first."""
        found: dict[int, StepStatus] = {}
        waiting = list(self.writers(output))
        while waiting:
            step = waiting.pop(0)
            if step.operator not in found:
                found[step.operator] = step
                waiting += self.sources(step)
        return tuple(found.values())

    def slowest_path(self, step: StepStatus) -> tuple[StepStatus, ...]:
        """From a step upstream to a scan, along the source with the least output watermark each time."""
        path = [step]
        while sources := self.sources(path[-1]):
            path.append(min(sources, key=lambda each: known_ticks(each.output_watermark_ticks)))
        return tuple(path)

    def watermark_ticks(self, output: str) -> int | None:
        """How far an output is: the least watermark of what writes it; None: unknown."""
        found = [each.output_watermark_ticks for each in self.writers(output)]
        known = [each for each in found if each is not None]
        return min(known) if known and len(known) == len(found) else None

    def is_held_by_partitions(self, output: str) -> bool:
        """Whether rows of the output wait for all partitions: something of it runs after an exchange."""
        return any(each.level > 0 for each in self.upstream(output))

    def inputs(self, output: str) -> frozenset[str]:
        """The streams that feed an output: the steps of its scans."""
        return frozenset(each.step for each in self.upstream(output) if not each.sources)

    def waiting(self, output: str) -> Iterator[tuple[StepStatus, HolderStatus]]:
        """What is held on its path and has a time at which it goes, the earliest first."""
        found = [
            (step, holder)
            for step in self.upstream(output)
            for holder in step.holders
            if holder.due_ticks is not None
        ]
        return iter(sorted(found, key=lambda each: each[1].due_ticks or 0))

    def losing(self, output: str) -> tuple[StepStatus, ...]:
        """The operators next to the output that get rows and hand on none; () where rows reach it."""
        found: dict[int, StepStatus] = {}
        for writer in self.writers(output):
            if writer.rows_in:
                return ()
            waiting, looked = [writer], set[int]()
            while waiting:
                step = waiting.pop(0)
                if step.operator in looked:
                    continue
                looked.add(step.operator)
                if step.rows_in and not step.rows_out:
                    found[step.operator] = step
                else:
                    waiting += self.sources(step)
        return tuple(found.values())

    def trail(self, output: str) -> tuple[StepStatus, ...]:
        """The operators from the scans to the output that people know."""
        shown = [each for each in self.upstream(output) if each.kind not in MOVES]
        return tuple(sorted(shown, key=lambda each: each.operator))


#: Kinds of operators that only carry rows from one stage to the next.
MOVES = frozenset({"send", "receive", "exchange"})


def known_ticks(ticks: int | None) -> int:
    """A watermark to compare with: one that is unknown is the least."""
    return BEFORE_ALL_TICKS if ticks is None else ticks


def is_moment(ticks: int | None) -> bool:
    """Whether a watermark is a datetime: known, and not the end of the input."""
    return ticks is not None and ORIGIN_TICKS <= ticks <= LAST_TICKS
