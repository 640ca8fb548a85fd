"""Where a generation that begins anew starts to read each input, and after what it emits rows.

StartPlan + StopPoint ──plan_reading──▶ ReadPlan ──▶ sources, and runs that go on with the generation
"""

from __future__ import annotations

from collections.abc import Mapping

from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.job.options import JobPlan
from tideglass.job.progress.idle_journal import IdleJournal
from tideglass.job.progress.stop_point import StopPoint
from tideglass.job.start.decision import StartMode, StartPlan
from tideglass.job.start.files import begin_files
from tideglass.job.start.read_plan import READ_PLAN, ReadPlan
from tideglass.job.start.topics import TopicLookup, begin_as_configured, begin_topics
from tideglass.plan.read_back import ReadBack, read_backs
from tideglass.storage import StoragePath


def plan_reading(
    job: JobPlan,
    generation: StoragePath,
    plan: StartPlan,
    stop: StopPoint,
    journal: IdleJournal,
    lookup: TopicLookup,
    now_ticks: int,
    *,
    as_configured: bool,
) -> ReadPlan:
    """Where to begin so that the rows the start plan emits are complete; a run that resumes begins as before.

    generation: the directory of the plan's generation.
    stop: where the generation before stopped, of the inputs that are still read in the same way.
    journal: idle periods of the job so far.
    lookup: asks a broker what a topic holds.
    now_ticks: the clock.
    as_configured: nobody has chosen a start; topics begin as the project says.
    Raises InputError when an input no longer holds what is needed.
    """
    if plan.resume:
        return ReadPlan.load(generation / READ_PLAN)
    files = ReadPlan()
    after_ticks = _after_ticks(plan, stop)
    complete_from_ticks, backs = _complete_from(job, plan, stop)
    # From the beginning means: of what is there.
    accept_partial = plan.accept_partial or plan.mode is StartMode.BEGINNING
    if job.inputs and (stop.stop_points or plan.mode is not StartMode.BEGINNING):
        files = begin_files(
            job.inputs,
            backs,
            complete_from_ticks,
            stop.stop_points,
            journal,
            after_ticks=after_ticks,
            accept_partial=accept_partial,
        )
    if as_configured:
        topics = begin_as_configured(job.topics, lookup, finished=job.options.once)
    else:
        needed, raised = {}, {}
        if complete_from_ticks is not None:
            needed = {name: back.read_from_ticks(complete_from_ticks) for name, back in backs.items()}
            raised = {name: back.raised_from_ticks(complete_from_ticks) for name, back in backs.items()}
        topics = begin_topics(
            job.topics,
            needed,
            lookup,
            now_ticks,
            journal,
            raised_from_ticks=raised,
            stop_points=None if after_ticks is None else stop.topics,
            after_ticks=after_ticks,
            accept_partial=accept_partial,
        )
    return ReadPlan(
        begins={**files.begins, **topics.begins},
        recorded=files.recorded,
        after_ticks=after_ticks,
        offsets=topics.offsets,
        stop_offsets=topics.stop_offsets,
    )


def _after_ticks(plan: StartPlan, stop: StopPoint) -> int | None:
    """The watermark after which the run emits rows; None if it goes on after no other generation."""
    if plan.mode is not StartMode.LAST_STOPPED:
        return None
    return BEFORE_ALL_TICKS if stop.watermark_ticks is None else stop.watermark_ticks


def _complete_from(
    job: JobPlan, plan: StartPlan, stop: StopPoint
) -> tuple[int | None, Mapping[str, ReadBack]]:
    """The time from which on rows must be complete, None for no such time, and how far inputs read back."""
    after_stop = plan.mode is StartMode.LAST_STOPPED
    backs = read_backs(job.compiled.plan, job.compiled.topology, after_watermark=after_stop)
    if not after_stop:
        return next(iter(plan.emit_from_ticks.values()), None), backs
    return None if stop.watermark_ticks in (None, BEFORE_ALL_TICKS) else stop.watermark_ticks, backs
