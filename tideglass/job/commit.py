"""The commit of a batch on the driver: its steps in order, and what a crash between two of them leaves.

Spark logs the offsets of a batch before it runs and its commit after the steps below. A run that is killed
in between starts again with the same batch: the same offsets, so the same messages. A step that is done once
more for the same batch changes nothing, so the batch counts once whatever was done of it before. Only a start
that gives up the state (`--start last`, a changed query) does not run the batch again. It goes by the last
batch that is committed: of a job with topics the one in `reached.json`, else the last one in Spark's log.
Rows for topics are written by Spark before these steps (`spark.query.write`), and once more when the batch
runs again.
Before each step the run makes sure that it still holds the job directory (`job.lease`); one that does not
stops there, as if it had been killed.

1. `record_partition_watermarks`: where the partitions of topics are, for the ingresses of the next batch.
   A crash after it leaves watermarks of a batch without rows; nobody asks for them before the batch after.
2. `publish_rows`: what the tasks have staged becomes visible. A crash after it leaves rows of a batch that
   is not committed. Publishing it again replaces them; a start that gives up the state withdraws them first.
   While an output does not take its rows the batch waits here, and `published.json` names the outputs that
   have theirs: they are not asked again if the run ends meanwhile (`job.output_publisher`).
3. `advance_watermarks`: the outputs learn how far their rows are complete. A crash after it leaves what they
   do then, such as a finished file, of a batch that is not committed. The same batch says the same once more.
4. `journal_idle_periods`: idle periods, for whoever reads the events again. A crash after it leaves idle
   periods of a batch that is not committed. The same batch adds them once; a start that gives up the state
   may use them, since that time has passed.
5. `sync_scan_states`: what the scans have saved is on the disk. A crash after it leaves nothing new.
6. `save_topic_progress`: how far the topics are read, and with that the batch. From here on a job with topics
   counts the rows as emitted: a start that gives up the state goes on after them. Were it saved before the
   rows are visible, a crash in between would lose them.
7. `save_counts`: rows emitted so far, with this batch and without, so that it counts once if it runs again.
8. `move_replay`: the sources may read new events once all earlier ones are read again (`progress.replay`). A
   crash before it leaves the state before the move; the next start makes it (`Committer.of`).
9. `update_metrics`, `show_rows`, `take_profile`: in memory only. A run that starts reads its totals from
   what the steps before have written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tideglass.connect.output import Batch
from tideglass.connect.source import StreamInput
from tideglass.core.failpoints import failpoint
from tideglass.core.positions import InputPositions
from tideglass.engine.messages import Kind, Message
from tideglass.engine.output_filter import emitted_messages
from tideglass.engine.profiled import TASK_PROFILE
from tideglass.engine.snapshots import Snapshots
from tideglass.ingress.partition_watermarks import PartitionWatermarks
from tideglass.ingress.reports import BatchReports
from tideglass.job.options import JobPlan
from tideglass.job.output_publisher import OutputPublisher
from tideglass.job.output_retries import ONCE_TIMEOUT_SECONDS, Retries
from tideglass.job.outputs import BatchRows
from tideglass.job.progress.counts import Counts
from tideglass.job.progress.idle_journal import IdleJournal
from tideglass.job.progress.replay import (
    ReplayEvent,
    ReplayState,
    next_state,
    read_replay_state,
    write_replay_state,
)
from tideglass.job.progress.restore import is_read_again, positions_after
from tideglass.job.progress.topic_progress import TopicProgress
from tideglass.job.report.batch_times import Moment, utc_milliseconds_text
from tideglass.job.report.catch_up import sizes, there_now
from tideglass.job.report.metrics import Metrics
from tideglass.job.report.output_calls import OutputCalls
from tideglass.job.report.profile import Profile
from tideglass.job.report.reporter import Reporter
from tideglass.job.report.watermark_view import Lease, WatermarkView
from tideglass.storage import StoragePath

#: Called after every batch: its number, its rows, and the metrics so far.
Watch = Callable[[int, BatchRows, Metrics], None]


@dataclass
class Committer:
    """Commits the batches of a run one after the other, and knows what is committed so far.

    job: what runs.
    reporter: keeps the metrics, and how the run has started.
    inputs: those tideglass reads itself, which read first what an earlier run had read.
    topic_progress: how far the topics are read.
    counts: rows emitted so far.
    replay: where the generation is between reading again and its end.
    watch: called with the rows of every batch; None for nobody.
    profile: takes where the time of the batches went; None measures nothing.
    """

    job: JobPlan
    reporter: Reporter
    inputs: Sequence[StreamInput]
    topic_progress: TopicProgress
    counts: Counts
    replay: ReplayState
    watch: Watch | None = None
    profile: Profile | None = None

    @staticmethod
    def of(
        job: JobPlan, reporter: Reporter, watch: Watch | None = None, profile: Profile | None = None
    ) -> Committer:
        """The committer of a run that starts, with what earlier runs of its generation have committed."""
        setup = reporter.setup
        generation, read_plan = reporter.directory.generation(setup.plan.generation), setup.read_plan
        progress = TopicProgress.load(generation)
        committer = Committer(
            job,
            reporter,
            tuple(each.reading_again(read_plan.recorded.get(name, {})) for name, each in job.inputs.items()),
            progress,
            Counts.load(generation),
            read_replay_state(generation, progress, reads_again=bool(job.topics) and read_plan.reads_again),
            watch,
            profile,
        )
        if progress.batch is not None:
            committer.release(progress.batch)
        return committer

    @property
    def generation(self) -> StoragePath:
        """The directory of the generation the run belongs to."""
        return self.reporter.directory.generation(self.reporter.setup.plan.generation)

    @property
    def checkpoint(self) -> StoragePath:
        """The directory of Spark's checkpoint."""
        return self.generation / "checkpoint"

    @cached_property
    def idle_journal(self) -> IdleJournal:
        return IdleJournal(self.reporter.directory.idle_journal)

    @cached_property
    def scan_states(self) -> Snapshots:
        """What the scans of files save of every batch."""
        return Snapshots(str(self.generation / "ingress"))

    @cached_property
    def partition_watermarks(self) -> PartitionWatermarks:
        """What the ingresses of a topic know of each other."""
        return PartitionWatermarks(Snapshots(str(self.generation / "peers")))

    def commit(self, number: int, messages: Sequence[Message]) -> None:
        """Commit a batch. number: Spark's of the batch. messages: those for the driver."""
        batch = BatchCommit(self, number, messages)
        if self.reporter.view is not None:
            self.reporter.view.batches.committing(Moment.now())
        for step in COMMIT_STEPS:
            self.reporter.check_lock()  # another run may have taken the job directory over
            failpoint(f"before-{step.__name__}", number)
            step(batch)
            failpoint(f"after-{step.__name__}", number)

    def finish(self) -> None:
        """The inputs have ended and all their batches are committed: the outputs end what is open."""
        number = self.counts.batch
        if number is not None:
            self.reporter.check_lock()
            self.publisher.finish(self.batch(number))

    def batch(self, number: int) -> Batch:
        """What an output knows a batch by. number: Spark's."""
        setup = self.reporter.setup
        return Batch(setup.plan.generation, number, setup.job_id)

    @cached_property
    def publisher(self) -> OutputPublisher:
        """Calls the outputs."""
        reporter, options = self.reporter, self.job.options
        timeout_seconds = options.output_timeout_seconds
        if timeout_seconds is None and options.once:
            timeout_seconds = ONCE_TIMEOUT_SECONDS
        return OutputPublisher(
            self.job.outputs,
            OutputCalls() if reporter.view is None else reporter.view.outputs,
            self.job.settings.output_error_policy,
            Retries(timeout_seconds=timeout_seconds),
            reporter.stop_requested.wait,
            reporter.check_lock,
            self.generation,
        )

    @cached_property
    def watermarks(self) -> WatermarkView:
        """The watermarks of all operators, shown to people where somebody looks."""
        view = self.reporter.view
        return WatermarkView(self.job.compiled.topology) if view is None else view.watermarks

    def backlog(self) -> dict[str, int]:
        """Bytes, or what an input counts in, that are there and not read, by input. Looks at directories."""
        read = self.positions_after(self.counts.batch)
        found = sizes(there_now(self.inputs, read))
        return {name: max(0, size - sizes(read).get(name, 0)) for name, size in found.items()}

    def positions_after(self, batch: int | None) -> InputPositions:
        """How far every input is read after the last batch, whose topics are known; None: before all."""
        read_plan = self.reporter.setup.read_plan
        return positions_after(batch, self.checkpoint, self.inputs, read_plan, self.topic_progress)

    def move(self, event: ReplayEvent) -> bool:
        """Take the replay state on and write it down; False for an event that moves nothing."""
        state = next_state(self.replay, event)
        if state is self.replay:
            return False
        write_replay_state(self.generation, state)
        self.replay = state
        return True

    def release(self, batch: int) -> None:
        """Let the sources go on to new events if after the last batch everything is read again."""
        if self.replay is ReplayState.REPLAYING:
            stop_offsets, read = self.reporter.setup.read_plan.stop_offsets, self.positions_after(batch)
            if is_read_again(stop_offsets, self.inputs, self.topic_progress, read):
                self.move(ReplayEvent.READ_AGAIN)


@dataclass
class BatchCommit:
    """A batch that is being committed.

    run: the run's committer.
    number: Spark's number of the batch.
    messages: those for the driver.
    rows: how many rows each output got; none before they are published.
    """

    run: Committer
    number: int
    messages: Sequence[Message]
    rows: BatchRows = field(default_factory=BatchRows)
    began_seconds: float = field(default_factory=time.monotonic)

    @cached_property
    def reports(self) -> BatchReports:
        """What the tasks report."""
        return BatchReports.of(self.messages)


def record_partition_watermarks(batch: BatchCommit) -> None:
    if batch.run.job.topics:
        batch.run.partition_watermarks.take(batch.number, batch.reports.partitions)


def publish_rows(batch: BatchCommit) -> None:
    run, job = batch.run, batch.run.job
    names = job.compiled.topology.outputs
    batch.rows = run.publisher.publish(run.batch(batch.number), emitted_messages(batch.messages), names)


def advance_watermarks(batch: BatchCommit) -> None:
    run = batch.run
    with run.reporter.changing():  # the status shows them too
        run.watermarks.take(batch.reports, Lease(run.reporter.setup.plan.generation, batch.number))
        found = run.watermarks.output_watermarks()
    run.publisher.advance(run.batch(batch.number), found)


def journal_idle_periods(batch: BatchCommit) -> None:
    for report in batch.reports.partitions:
        batch.run.idle_journal.take(report)


def sync_scan_states(batch: BatchCommit) -> None:
    batch.run.scan_states.sync([report.sender for report in batch.reports.partitions])


def save_topic_progress(batch: BatchCommit) -> None:
    run = batch.run
    if run.job.topics:
        run.topic_progress = run.topic_progress.after(
            batch.number, run.checkpoint, tuple(run.job.topics), batch.reports.partitions
        )
        run.topic_progress.save(run.generation)


def save_counts(batch: BatchCommit) -> None:
    run = batch.run
    run.counts = run.counts.after(batch.number, batch.rows.rows, batch.reports.stages, batch.rows.dropped)
    run.counts.save(run.generation)


def move_replay(batch: BatchCommit) -> None:
    run = batch.run
    if run.topic_progress.replayed:
        run.move(ReplayEvent.REPORTED)
    run.release(batch.number)


def update_metrics(batch: BatchCommit) -> None:
    with batch.run.reporter.changing() as metrics:
        catch_up = metrics.catch_up
        catches_up = catch_up is not None and not catch_up.done
        at, view, events_before = Moment.now(), batch.run.reporter.view, metrics.events
        metrics.take_batch(batch.reports, batch.rows.rows, utc_milliseconds_text(at.wall_seconds))
        if view is not None:
            events = metrics.events - events_before
            rows, newest_ticks = batch.rows.rows, batch.rows.newest_ticks
            view.take_batch(batch.number, batch.reports, rows, newest_ticks, events, at)
        if catch_up is not None and catches_up:
            catch_up.advance(batch.run.positions_after(batch.number), metrics.read_now, time.monotonic())


def show_rows(batch: BatchCommit) -> None:
    if batch.run.watch is not None:
        batch.run.watch(batch.number, batch.rows, batch.run.reporter.metrics)


def take_profile(batch: BatchCommit) -> None:
    profile = batch.run.profile
    if profile is not None:
        profile.take_commit(batch.number, time.monotonic() - batch.began_seconds)
        for message in batch.messages:
            if message.kind is Kind.PROFILE:
                profile.take_task(TASK_PROFILE.of_body(message.body))


#: What is done to commit a batch, in order; the module's text says what a crash between two leaves.
COMMIT_STEPS: tuple[Callable[[BatchCommit], None], ...] = (
    record_partition_watermarks,
    publish_rows,
    advance_watermarks,
    journal_idle_periods,
    sync_scan_states,
    save_topic_progress,
    save_counts,
    move_replay,
    update_metrics,
    show_rows,
    take_profile,
)
