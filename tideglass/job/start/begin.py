"""The beginning of a run: facts are gathered, the start is decided, and only then anything is written."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tideglass.connect.files.output import FileOutput
from tideglass.connect.output import Batch, OutputConnector
from tideglass.connect.reference.journal import JournaledReferences
from tideglass.core.errors import FRESH, StateError, damaged
from tideglass.core.time import BEFORE_ALL_TICKS, NANOSECONDS_PER_TICK, format_ticks
from tideglass.job.directory import JobDirectory
from tideglass.job.options import JobPlan
from tideglass.job.progress.counts import COUNTS, Counts
from tideglass.job.progress.idle_journal import IdleJournal
from tideglass.job.progress.stop_point import StopPoint, stop_point
from tideglass.job.progress.topic_progress import REACHED, TopicProgress
from tideglass.job.report.run_journal import Ended, Run, RunEnd, RunStart, add, read_runs
from tideglass.job.report.status import read_status
from tideglass.job.start.changes import Changes, changes_between
from tideglass.job.start.decision import StartFacts, StartMode, StartPlan, decide_start
from tideglass.job.start.files import begin as begin_reading
from tideglass.job.start.integrity import check_state, has_state
from tideglass.job.start.manifest import (
    STATE_FORMAT,
    Identity,
    Manifest,
    identity_of,
    read_manifest,
    write_manifest,
)
from tideglass.job.start.read_plan import READ_PLAN, ReadPlan
from tideglass.job.start.topics import TopicLookup, begin_as_configured, begin_topics
from tideglass.plan.read_back import ReadBack, read_backs
from tideglass.spark.checkpoint import last_batch


@dataclass(frozen=True, slots=True)
class RunSetup:
    """What a run has begun with.

    batch: the last one that is wholly done; None before the first. begun: where its generation began to read.
    """

    start: RunStart
    plan: StartPlan
    batch: int | None
    read_plan: ReadPlan = field(default_factory=ReadPlan)


def begin(job: JobPlan, directory: JobDirectory, lookup: TopicLookup) -> RunSetup:
    """Decide how the job starts, and write down that it did. The lock of the directory must be held.

    lookup: asks a broker what a topic holds; called only for a start that depends on it.
    Raises StateError, InputError or OutputError when it cannot start; then nothing has been written.
    """
    before = None if job.options.fresh else read_manifest(directory.manifest)
    if before is None and not (job.options.fresh or job.options.overwrite) and has_state(directory):
        raise damaged(directory.manifest, "is missing, though there is state of a job", FRESH)
    identity = identity_of(
        job.compiled,
        job.settings,
        {**job.inputs, **job.references, **job.topics},
        job.outputs,
        directory.path,
        finished_input=job.options.once,
    )
    changes = Changes((), keeps_state=True) if before is None else changes_between(before, identity)
    request = job.options.start
    if job.topics and before is not None and request.mode is StartMode.LAST_STOPPED:
        request = replace(request, mode=None)  # of topics, where the last run stopped is in its checkpoint
    resumes = request.mode is None and changes.keeps_state
    last = StopPoint()
    if before is not None and not resumes:
        try:
            last = stop_point(directory.generation(before.start_plan.generation))
        except StateError:
            if request.mode in (None, StartMode.LAST_STOPPED):
                raise  # any other start needs no run before it
    now_ticks = time.time_ns() // NANOSECONDS_PER_TICK
    plan = decide_start(request, _facts(job, directory, before, changes, last, now_ticks))
    kept = (READ_PLAN, COUNTS, *((REACHED,) if job.topics else ()))
    if plan.resume and before is not None:
        kept = before.kept
        check_state(directory.generation(plan.generation), kept)
    last = _of_same_inputs(last, before, identity)
    read_plan = _read_plan(job, directory, plan, last)
    if job.topics and not plan.resume:
        read_plan = _with_topics(
            job, directory, plan, read_plan, last, lookup, now_ticks, start_chosen=request.mode is not None
        )
    replaces_rows = job.options.fresh or (job.options.overwrite and not plan.resume)
    if not replaces_rows:
        goes_on = plan.resume or plan.mode is not StartMode.BEGINNING
        ours = _written(directory, before) if before and goes_on else ()
        for output in job.outputs.values():
            output.check(ours)
    runs = read_runs(directory.journal)

    if replaces_rows:  # without its rows no state may be resumed, whatever happens from here on
        directory.manifest.unlink(missing_ok=True)
    for output in job.outputs.values():
        output.clear(rows=replaces_rows)
    if before is not None and plan.mode is StartMode.LAST_STOPPED and not plan.resume:
        # Rows of batches that were killed once their rows were there: the run gives them again.
        after = Batch(before.start_plan.generation, -1 if last.batch is None else last.batch)
        for output in _outputs_before(job, directory, before, identity):
            output.withdraw(after)
    if job.options.fresh:
        IdleJournal(directory.idle_journal).forget()
        JournaledReferences(str(directory.reference), ()).forget()
    if not plan.resume:  # before anything says that there is such a generation
        state = directory.generation(plan.generation)
        read_plan.save(state / READ_PLAN)
        Counts().save(state)
        if job.topics:
            TopicProgress().save(state)
    write_manifest(directory.manifest, Manifest(STATE_FORMAT, replace(plan, resume=False), identity, kept))
    directory.remove_generations(kept=plan.generation)
    _end_the_killed(directory, runs)
    batch = last_batch(directory.generation(plan.generation) / "checkpoint") if plan.resume else None
    start = RunStart(
        run=len(runs) + 1,
        started=utc_text(time.time()),
        generation=plan.generation,
        resumed=plan.resume,
        mode=plan.mode.value,
        cause=plan.cause + _end_before(runs),
        began_from=_began_from(plan, batch),
        pid=os.getpid(),
        host=socket.gethostname(),
        folder=os.getcwd(),
        changes=changes.differences,
        arguments=job.options.arguments,
        query=identity.query,
        plan=identity.plan,
    )
    add(directory.journal, start)
    return RunSetup(start, plan, batch, read_plan)


def _of_same_inputs(last: StopPoint, before: Manifest | None, now: Identity) -> StopPoint:
    """What was left of the inputs that are still read in the same way."""
    known = before.identity.inputs if before and before.identity else {}
    same = {name for name, words in known.items() if words == now.inputs.get(name)}
    return replace(
        last,
        stop_points={name: stop_points for name, stop_points in last.stop_points.items() if name in same},
        topics={name: stop_points for name, stop_points in last.topics.items() if name in same},
    )


def _from_ticks(job: JobPlan, plan: StartPlan, last: StopPoint) -> tuple[int | None, Mapping[str, ReadBack]]:
    """The time from which on rows must be complete, None for no such time, and how far it reads back."""
    after_stop = plan.mode is StartMode.LAST_STOPPED
    backs = read_backs(job.compiled.plan, job.compiled.topology, after_watermark=after_stop)
    if not after_stop:
        return next(iter(plan.emit_from_ticks.values()), None), backs
    reached_ticks = last.watermark_ticks
    return None if reached_ticks in (None, BEFORE_ALL_TICKS) else reached_ticks, backs


def _after_ticks(plan: StartPlan, last: StopPoint) -> int | None:
    """The watermark behind which the run gives rows; None if it does not go on with another's."""
    if plan.mode is not StartMode.LAST_STOPPED:
        return None
    return BEFORE_ALL_TICKS if last.watermark_ticks is None else last.watermark_ticks


def _with_topics(
    job: JobPlan,
    directory: JobDirectory,
    plan: StartPlan,
    read_plan: ReadPlan,
    last: StopPoint,
    lookup: TopicLookup,
    now_ticks: int,
    *,
    start_chosen: bool,
) -> ReadPlan:
    """Where the topics are to be read from, too. Raises InputError when they no longer hold what is needed.

    start_chosen: where to begin was; else a first run begins as the project says.
    """
    if not start_chosen and plan.mode is StartMode.BEGINNING:
        first = begin_as_configured(job.topics, lookup, finished=job.options.once)
        return replace(read_plan, begins={**read_plan.begins, **first.begins}, offsets=first.offsets)
    from_ticks, backs = _from_ticks(job, plan, last)
    needed, raised = {}, {}
    if from_ticks is not None:
        needed = {name: back.read_from_ticks(from_ticks) for name, back in backs.items()}
        raised = {name: back.raised_from_ticks(from_ticks) for name, back in backs.items()}
    after_ticks = _after_ticks(plan, last)
    first = begin_topics(
        job.topics,
        needed,
        lookup,
        now_ticks,
        IdleJournal(directory.idle_journal),
        raised_from_ticks=raised,
        stop_points=last.topics if after_ticks is not None else None,
        after_ticks=after_ticks,
        accept_partial=plan.accept_partial or plan.mode is StartMode.BEGINNING,
    )
    return replace(
        read_plan,
        begins={**read_plan.begins, **first.begins},
        offsets=first.offsets,
        places=first.places,
        after_ticks=after_ticks,
    )


def _read_plan(job: JobPlan, directory: JobDirectory, plan: StartPlan, last: StopPoint) -> ReadPlan:
    """Where the files are to be read from. Raises InputError when they no longer hold what is needed."""
    if plan.resume:
        return ReadPlan.load(directory.generation(plan.generation) / READ_PLAN)
    stop_points = last.stop_points
    if not job.inputs or (not stop_points and plan.mode is StartMode.BEGINNING):
        return ReadPlan()
    from_ticks, backs = _from_ticks(job, plan, last)
    after_ticks = _after_ticks(plan, last)
    return begin_reading(
        job.inputs,
        backs,
        from_ticks,
        stop_points,
        IdleJournal(directory.idle_journal),
        after_ticks=after_ticks,
        # From the beginning means: of what is there.
        accept_partial=plan.accept_partial or plan.mode is StartMode.BEGINNING,
    )


def utc_text(seconds: float) -> str:
    """ISO text, to the second, of seconds of the epoch."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _facts(
    job: JobPlan,
    directory: JobDirectory,
    before: Manifest | None,
    changes: Changes,
    last: StopPoint,
    now_ticks: int,
) -> StartFacts:
    start_plan = before.start_plan if before else None
    return StartFacts(
        now_ticks=now_ticks,
        read_backs=read_backs(job.compiled.plan, job.compiled.topology),
        read_backs_after_stop=read_backs(job.compiled.plan, job.compiled.topology, after_watermark=True),
        inputs=(*job.inputs, *job.topics),
        outputs=tuple(job.outputs),
        generation=max(directory.newest_generation(), start_plan.generation if start_plan else 0),
        start_plan=start_plan,
        changes=() if changes.keeps_state else changes.differences,
        stopped_ticks=last.watermark_ticks,
        ended=last.ended,
    )


def _written(directory: JobDirectory, before: Manifest) -> set[Path]:
    """The directories the job has written to so far."""
    outputs = before.identity.outputs.values() if before.identity else ()
    paths = [words.get("path") for words in outputs]
    return {(directory.path / path).resolve() for path in paths if path is not None}


def _outputs_before(
    job: JobPlan, directory: JobDirectory, before: Manifest, now: Identity
) -> list[OutputConnector]:
    """The outputs the job has written to so far: folders, and of the others those that are still the same."""
    known = before.identity.outputs if before.identity else {}
    others = {name: words for name, words in now.outputs.items() if words.get("path") is None}
    same = [job.outputs[name] for name, words in others.items() if words == known.get(name)]
    folders = (FileOutput(path.name, path) for path in _written(directory, before))
    return [*folders, *same]


def _began_from(plan: StartPlan, batch: int | None) -> str:
    if plan.resume:
        return "the beginning, no batch was done" if batch is None else f"batch {batch + 1}"
    if not plan.read_from_ticks:
        return "the beginning of the inputs"
    return "arrival time " + format_ticks(min(plan.read_from_ticks.values()))[:19] + "Z"


def _end_before(runs: list[Run]) -> str:
    """How the run before ended, where that is a reason to look."""
    how = runs[-1].end.how if runs and runs[-1].end else Ended.KILLED
    return f"; run {runs[-1].start.run} was {how}" if runs and how in (Ended.KILLED, Ended.BROKEN_OFF) else ""


def _end_the_killed(directory: JobDirectory, runs: list[Run]) -> None:
    """A run that could not write its own end gets one, by what it last said of itself."""
    if not runs or runs[-1].end is not None:
        return
    run = runs[-1].start.run
    status = read_status(directory)
    if status is None or status.run != run:
        add(directory.journal, RunEnd(run, runs[-1].start.started, Ended.KILLED))
        return
    end = RunEnd(run, status.updated, Ended.KILLED, status.batches, status.events, status.rows, status.error)
    add(directory.journal, end)
