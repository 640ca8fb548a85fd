"""Where a generation has stopped: how far it had read when it last emitted rows (`docs/decisions/0010`).

Of files that is in Spark's log of offsets and in the states the scans have saved, of topics in
`TopicProgress`. A run that reads topics has emitted the rows of a batch as soon as that says so, whatever
Spark's log of commits says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from tideglass.core.errors import StateError
from tideglass.core.positions import Position
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.scan import ScanState
from tideglass.job.progress.replay import ReplayState, read_replay_state
from tideglass.job.progress.topic_progress import TopicProgress
from tideglass.job.start.read_plan import READ_PLAN, ReadPlan
from tideglass.spark.checkpoint import last_batch, source_offset
from tideglass.spark.source_offset import SourceOffset
from tideglass.storage import StoragePath


@dataclass(frozen=True, slots=True)
class PartitionStopPoint:
    """How far an earlier run has read a partition.

    number: of the partition.
    position: how far it is read.
    watermark_ticks: of the partition; BEFORE_ALL_TICKS for none, or one this version cannot read.
    """

    number: int
    position: Position
    watermark_ticks: int


#: Per input and partition.
PartitionStopPoints = Mapping[str, Mapping[str, PartitionStopPoint]]


@dataclass(frozen=True, slots=True)
class TopicStopPoint:
    """How far an earlier run has read a topic; offsets are by partition.

    began: of the first message it read; a partition that is absent began with its first.
    next_offsets: of the first message it did not read.
    from_the_start: the partitions it knew before their first message.
    watermark_ticks: of the input; BEFORE_ALL_TICKS for none.
    """

    began: Mapping[str, int]
    next_offsets: Mapping[str, int]
    from_the_start: frozenset[str]
    watermark_ticks: int

    def knows(self, partition: str, begin: int) -> bool:
        """Whether a partition read again from `begin` on must be there before its first message.

        One that appeared under way does so again, unless its first messages are not read.
        """
        began = self.began.get(partition, 0)
        return partition in self.from_the_start or began < begin <= self.next_offsets.get(partition, 0)


@dataclass(frozen=True, slots=True)
class StopPoint:
    """Where a generation stopped.

    stop_points: of the inputs tideglass reads itself; {} when it has done no batch.
    topics: by input; {} when it has done no batch.
    ended: its inputs are at their end.
    batch: the last one whose rows were emitted; None for none.
    """

    stop_points: PartitionStopPoints = field(default_factory=dict[str, Mapping[str, PartitionStopPoint]])
    topics: Mapping[str, TopicStopPoint] = field(default_factory=dict[str, TopicStopPoint])
    ended: bool = False
    batch: int | None = None

    @property
    def watermark_ticks(self) -> int | None:
        """The least watermark of all partitions; BEFORE_ALL_TICKS for none yet, None without a batch."""
        watermarks = [
            each.watermark_ticks for partitions in self.stop_points.values() for each in partitions.values()
        ]
        watermarks += [each.watermark_ticks for each in self.topics.values()]
        return min(watermarks, default=None)

    def of_inputs(self, names: Collection[str]) -> StopPoint:
        """The stop point without other inputs."""
        return replace(
            self,
            stop_points={name: each for name, each in self.stop_points.items() if name in names},
            topics={name: each for name, each in self.topics.items() if name in names},
        )


def stop_point(generation: StoragePath) -> StopPoint:
    """What a generation had read with the last batch whose rows were emitted.

    One that was stopped while it read events again stops where the generation before it did.
    Raises StateError where nobody knows.
    """
    read_plan, reached = ReadPlan.load(generation / READ_PLAN), TopicProgress.load(generation)
    batch = last_batch(generation / "checkpoint") if reached.batch is None else reached.batch
    if batch is None:
        return StopPoint() if read_plan.after_ticks is None else _stop_before(read_plan, reached, None)
    offset = _files_read(generation, batch, reached)
    if reached.batch is not None:
        state = read_replay_state(generation, reached, reads_again=read_plan.reads_again)
        replaying, ended = not state.emits, state is ReplayState.ENDING
    else:
        replaying = read_plan.reads_again and offset.replaying is not False
        ended = offset.final
    if replaying:
        return _stop_before(read_plan, reached, batch)
    snapshots = Snapshots(str(generation / "ingress"))
    stop_points = {
        name: {
            partition: PartitionStopPoint(
                each.number,
                each.position,
                _watermark_ticks(snapshots, f"{name}/{partition}", offset.batch),
            )
            for partition, each in partitions.items()
        }
        for name, partitions in offset.inputs.items()
    }
    return StopPoint(stop_points, _topic_stop_points(read_plan, reached), ended=ended, batch=batch)


def _stop_before(read_plan: ReadPlan, reached: TopicProgress, batch: int | None) -> StopPoint:
    """The stop point of the generation before, which this one has not passed."""
    after_ticks = BEFORE_ALL_TICKS if read_plan.after_ticks is None else read_plan.after_ticks
    stop_points = {
        name: {
            partition: PartitionStopPoint(each.number, read_plan.recorded[name][partition], after_ticks)
            for partition, each in read_plan.begins[name].items()
            if partition in read_plan.recorded[name]
        }
        for name in read_plan.recorded
    }
    return StopPoint(stop_points, _topic_stop_points(read_plan, reached, read_plan.stop_offsets), batch=batch)


def _topic_stop_points(
    read_plan: ReadPlan, reached: TopicProgress, stop_offsets: Mapping[str, Mapping[str, int]] | None = None
) -> dict[str, TopicStopPoint]:
    """Where the topics stop. stop_offsets: not where this generation has read to, but the one before it."""
    result: dict[str, TopicStopPoint] = {}
    for name, next_offsets in (reached.offsets if stop_offsets is None else stop_offsets).items():
        began = read_plan.offsets.get(name, {})
        start = frozenset(read_plan.begins.get(name, {}))
        known = start | {each for each in next_offsets if next_offsets[each] > began.get(each, 0)}
        watermarks = [reached.watermark_ticks(name, partition) for partition in known]
        watermark_ticks = min(watermarks, default=None) if stop_offsets is None else read_plan.after_ticks
        result[name] = TopicStopPoint(
            began, next_offsets, start, BEFORE_ALL_TICKS if watermark_ticks is None else watermark_ticks
        )
    return result


def _files_read(generation: StoragePath, batch: int, reached: TopicProgress) -> SourceOffset:
    """The offset of the job's own source at the end of a batch; one without inputs where it has none."""
    checkpoint = generation / "checkpoint"
    try:
        return source_offset(checkpoint, batch)
    except (OSError, ValueError, LookupError) as error:
        if reached.batch is not None and not reached.reports.keys() - reached.offsets.keys():
            return SourceOffset(0, False, {}, 0)
        raise StateError(
            f"{checkpoint} cannot be read ({error}), so nobody knows where the last run "
            "stopped\n  hint: start at an output time instead, --start TIME"
        ) from error


def _watermark_ticks(snapshots: Snapshots, sender: str, batch: int) -> int:
    try:
        saved = snapshots.load(sender, batch)
        ingress = () if saved is None else ScanState.from_bytes(saved).ingress.values()
    except StateError:  # damaged, or of another version: everything is read again, which is slow and right
        return BEFORE_ALL_TICKS
    return min((each.watermark_ticks for each in ingress), default=BEFORE_ALL_TICKS)
