"""What a run finds when it starts: what the runs before it had read, and what there is to catch up with."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from tideglass.connect.kafka.topic import HeldPartition
from tideglass.connect.source import StreamInput
from tideglass.core.positions import InputPositions
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.scan import saved_state
from tideglass.job.progress.counts import Counts
from tideglass.job.progress.topic_progress import TopicProgress, positions_of_offsets
from tideglass.job.report.catch_up import CatchUp, sizes, there_now
from tideglass.job.report.metrics import Metrics
from tideglass.job.start.begin import RunSetup
from tideglass.job.start.read_plan import ReadPlan
from tideglass.plan.topology import Reader
from tideglass.spark.checkpoint import source_offset
from tideglass.storage import StoragePath


def positions_after(
    batch: int | None,
    checkpoint: StoragePath,
    inputs: Sequence[StreamInput],
    read_plan: ReadPlan,
    topic_progress: TopicProgress,
) -> InputPositions:
    """How far every input is read after a batch; None: where its generation started."""
    if batch is None:
        files = {each.name: read_plan.positions.get(each.name, {}) for each in inputs}
        return {**files, **positions_of_offsets(read_plan.offsets)}
    files = source_offset(checkpoint, batch).positions if inputs else {}
    return {**files, **positions_of_offsets(topic_progress.offsets)}


def is_read_again(
    stop_offsets: Mapping[str, Mapping[str, int]],
    inputs: Sequence[StreamInput],
    topic_progress: TopicProgress,
    read: InputPositions,
) -> bool:
    """Whether everything is read that the generation before had read.

    stop_offsets: of topics, the first messages it had not read.
    read: how far the inputs are read.
    """
    of_files = all(each.is_replayed(read.get(each.name, {})) for each in inputs)
    return of_files and topic_progress.covers(stop_offsets)


def restore(
    metrics: Metrics,
    setup: RunSetup,
    generation: StoragePath,
    inputs: Sequence[StreamInput],
    held: Mapping[str, Mapping[int, HeldPartition]],
    readers: Sequence[Reader],
) -> None:
    """What is known before the first batch: the totals of earlier runs, and what there is to catch up with.

    metrics: filled.
    setup: how the run starts.
    generation: its directory.
    inputs: those tideglass reads itself.
    held: what the topics hold, by input and partition.
    readers: of all inputs.
    """
    progress, counts, checkpoint = (
        TopicProgress.load(generation),
        Counts.load(generation),
        generation / "checkpoint",
    )
    batch = setup.batch if progress.batch is None else progress.batch
    for reports in progress.reports.values():
        for report in reports.values():
            metrics.take_partition(report)
    if batch is not None and inputs:
        _restore_files(metrics, checkpoint, batch, Snapshots(str(generation / "ingress")), readers)
    for stage in counts.stages.values():
        metrics.take_stage(stage)
    metrics.read_before = metrics.events_by_input
    metrics.rows_before = counts.up_to(setup.batch)  # Spark runs the batch after that one, again or not
    metrics.dropped_before = counts.dropped_up_to(setup.batch)
    read = positions_after(batch, checkpoint, inputs, setup.read_plan, progress)
    of_files = {name: of for name, of in read.items() if name not in held}
    # Of a topic that Spark is to begin, nobody knows where that is before the first batch.
    ends = {name: {str(n): each.end for n, each in of.items()} for name, of in held.items() if name in read}
    goal = {**sizes(there_now(inputs, of_files)), **sizes(positions_of_offsets(ends))}
    start = setup.start
    began = {name: size for name, size in sizes(read).items() if name in goal}
    metrics.catch_up = CatchUp(start.cause, start.began_from, began, goal, time.monotonic())


def _restore_files(
    metrics: Metrics, checkpoint: StoragePath, batch: int, snapshots: Snapshots, readers: Sequence[Reader]
) -> None:
    """The totals of the partitions of files, from the states their scans have left."""
    offset = source_offset(checkpoint, batch)
    if not offset.batch:  # before the first batch there is no state
        return
    for name, partitions in offset.inputs.items():
        for partition, each in partitions.items():
            saved = saved_state(snapshots, f"{name}/{partition}", offset.batch)
            metrics.take_partition(saved.report(readers, name, partition, final=each.ended))
