"""Runs a job on Spark, from its plan to committed rows.

project + options ──plan_job──▶ JobPlan ──run──▶ Metrics

    lock the directory ─▶ decide the start ─▶ recover what is known ─▶ run the query ─▶ wait ─▶ end
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tideglass.core.errors import StorageError, TideglassError
from tideglass.job.commit import Committer, Watch
from tideglass.job.directory import JobDirectory
from tideglass.job.lock import RunLock
from tideglass.job.options import JobPlan
from tideglass.job.progress.replay import ReplayEvent
from tideglass.job.progress.restore import restore
from tideglass.job.query import SparkHost, reference_status, start_query, wait_for_end
from tideglass.job.report.metrics import Metrics
from tideglass.job.report.profile import Profile
from tideglass.job.report.query_outline import outline_of, write_outline
from tideglass.job.report.reporter import Reporter, StatusObserver, signals
from tideglass.job.report.run_journal import RunStart
from tideglass.job.report.run_view import RunView
from tideglass.job.start.begin import begin
from tideglass.job.start.integrity import state_problem
from tideglass.spark.session.session_kind import refuse_connect
from tideglass.storage import StoragePath

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Called once the start is decided and written down, before the first batch.
OnStart = Callable[[RunStart], None]


def run(
    job: JobPlan,
    watch: Watch | None = None,
    spark: SparkSession | None = None,
    on_start: OnStart | None = None,
    profile: Profile | None = None,
    observers: Sequence[StatusObserver] = (),
) -> Metrics:
    """Run the job until its input is finished (`once`) or the process gets a signal to stop.

    watch: called with the rows of every batch.
    spark: a session with other work to do, too; None for one of the job's own. Not one of Spark Connect.
    on_start: called once the start is decided and written down.
    profile: filled with where the time of the batches went; None measures nothing.
    observers: called with every status of the run.

    The first SIGINT or SIGTERM stops after the batch under way; a second stops at once.
    Raises StateError when a run is under way already or the state of the last one does not fit,
    EvaluationError when a row fails the query, and TideglassError for whatever else goes wrong. What was
    committed before stays, and the next run goes on after it.
    """
    if spark is not None:
        refuse_connect(spark, "a project")
    directory = JobDirectory.at(job.run_directory)
    host, metrics = SparkHost(job, directory, spark), Metrics()
    with naming_disk(), RunLock(directory) as lock:
        directory.stop.unlink(missing_ok=True)  # it was for another run
        setup = begin(job, directory, host.held_partitions)
        write_outline(directory, outline_of(job))
        if on_start is not None:
            on_start(setup.start)
        view = RunView.of(job, setup.plan.generation)
        reporting = Reporter(job.name, directory, setup, metrics, view, observers=observers, lock=lock)
        with reporting as reporter, signals(reporter) as take_signals:
            held = {name: host.held_partitions(topic, None) for name, topic in job.topics.items()}
            committer = Committer.of(job, reporter, watch, profile)
            with reporter.changing():
                restore(
                    metrics,
                    setup,
                    committer.generation,
                    committer.inputs,
                    held,
                    job.compiled.topology.readers,
                )
                view.restored(metrics)
            view.gauges.backlog_of = committer.backlog
            view.gauges.references_of = partial(reference_status, job, directory)
            with view.gauges, _naming_damage(committer.checkpoint):
                query = start_query(host, committer)
                take_signals()  # Spark has taken them for itself
                wait_for_end(query, committer)
                to_end = job.topics and job.options.once and not reporter.stop_requested.is_set()
                if to_end and committer.move(ReplayEvent.READ_ALL):
                    wait_for_end(start_query(host, committer), committer)  # reports the end of the inputs
                if job.options.once and not reporter.stop_requested.is_set():
                    committer.finish()
    return metrics


#: Of a disk, not of a path that is wrong.
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


@contextmanager
def naming_disk() -> Generator[None]:
    """Raise the StorageError that names the file where a disk cannot be written, and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
        file = error.filename or "a file of the job"
        raise StorageError(
            f"[DISK] {file}: {error.strerror}\n"
            "  hint: make room, or mend the disk; `tideglass start` goes on from the last whole batch"
        ) from error


@contextmanager
def _naming_damage(checkpoint: StoragePath) -> Generator[None]:
    """Where Spark stops for damaged state, raise the StateError that names the file."""
    try:
        yield
    except TideglassError as error:
        if type(error) is not TideglassError:  # an error of a kind of its own names its cause
            raise
        problem = state_problem(checkpoint, f"{error}\n{error.__cause__}")
        if problem is None:
            raise
        raise problem from error
