"""The beginning of a run: facts are gathered, the start is decided, and only then anything is written."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from tideglass.connect.inputs.files import FileInput
from tideglass.connect.reference.journal import JournaledReferences
from tideglass.core.time import BEFORE_ALL_TICKS, NANOSECONDS_PER_TICK, format_ticks
from tideglass.job.changes import Changes, changes_between
from tideglass.job.directory import JobDirectory
from tideglass.job.journal import Ended, Run, RunEnd, RunStart, add, read_runs
from tideglass.job.manifest import (
    STATE_FORMAT,
    Identity,
    Manifest,
    identity_of,
    read_manifest,
    write_manifest,
)
from tideglass.job.options import Job
from tideglass.job.outputs import check_outputs, clear_outputs
from tideglass.job.recovery import last_batch
from tideglass.job.replay import BEGUN, Begun, Left, Stopped, stopped
from tideglass.job.replay import begin as begin_reading
from tideglass.job.silences import SilenceJournal
from tideglass.job.start import StartFacts, StartMode, StartPlan, decide_start
from tideglass.job.status import read_status
from tideglass.job.topic_start import Look, begin_topics
from tideglass.plan.replay import read_backs

#: One tick is 100 ns.


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a run has begun with.

    batch: the last one that is wholly done; None before the first. begun: where its generation began to read.
    """

    start: RunStart
    plan: StartPlan
    batch: int | None
    begun: Begun = field(default_factory=Begun)


def begin(job: Job, directory: JobDirectory, look: Look) -> Beginning:
    """Decide how the job starts, and write down that it did. The lock of the directory must be held.

    look: asks a broker what a topic holds; called only for a start that depends on it.
    Raises StateError, InputError or OutputError when it cannot start; then nothing has been written.
    """
    before = None if job.options.fresh else read_manifest(directory.manifest)
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
    last = Stopped()
    if not job.topics and before is not None and not resumes:
        last = stopped(directory.generation(before.begun.generation))
    now_ticks = time.time_ns() // NANOSECONDS_PER_TICK
    plan = decide_start(request, _facts(job, directory, before, changes, last, now_ticks))
    begun = _begun(job, directory, plan, _same_inputs(last, before, identity))
    # The first run of a topic begins as the project says, unless it is asked to begin elsewhere.
    if job.topics and request.mode is not None:
        offsets = begin_topics(
            job.topics,
            plan.read_from_ticks,
            look,
            now_ticks,
            accept_partial=plan.accept_partial or plan.mode is StartMode.BEGINNING,
        )
        begun = replace(begun, offsets=offsets)
    replaces_rows = job.options.fresh or (job.options.overwrite and not plan.resume)
    if not replaces_rows:
        goes_on = plan.resume or plan.mode is not StartMode.BEGINNING
        check_outputs(job.outputs, _written(directory, before) if before and goes_on else ())
    runs = read_runs(directory.journal)

    if replaces_rows:  # without its rows no state may be resumed, whatever happens from here on
        directory.manifest.unlink(missing_ok=True)
    clear_outputs(job.outputs, rows=replaces_rows)
    if job.options.fresh:
        SilenceJournal(directory.silences).forget()
        JournaledReferences(str(directory.reference), ()).forget()
    if not plan.resume:  # before anything says that there is such a generation
        begun.save(directory.generation(plan.generation) / BEGUN)
    write_manifest(directory.manifest, Manifest(STATE_FORMAT, replace(plan, resume=False), identity))
    directory.remove_generations(kept=plan.generation)
    _end_the_killed(directory, runs)
    batch = last_batch(directory.generation(plan.generation) / "checkpoint") if plan.resume else None
    start = RunStart(
        run=len(runs) + 1,
        started=utc_text(time.time()),
        generation=plan.generation,
        resumed=plan.resume,
        mode=plan.mode.value,
        cause=plan.cause + _behind(runs),
        began_from=_began_from(plan, batch),
        pid=os.getpid(),
        host=socket.gethostname(),
        folder=os.getcwd(),
        changes=changes.told,
        arguments=job.options.arguments,
        query=identity.query,
        plan=identity.plan,
    )
    add(directory.journal, start)
    return Beginning(start, plan, batch, begun)


def _same_inputs(last: Stopped, before: Manifest | None, now: Identity) -> Left:
    """What was left of the inputs that are still read in the same way."""
    known = before.identity.inputs if before and before.identity else {}
    return {name: left for name, left in last.left.items() if known.get(name) == now.inputs.get(name)}


def _begun(job: Job, directory: JobDirectory, plan: StartPlan, left: Left) -> Begun:
    """Where the files are to be read from. Raises InputError when they no longer hold what is needed."""
    if plan.resume:
        return Begun.load(directory.generation(plan.generation) / BEGUN)
    if not left and plan.mode is StartMode.BEGINNING:
        return Begun()
    from_ticks = next(iter(plan.emit_from_ticks.values()), None)
    backs = read_backs(job.compiled.plan, job.compiled.topology)
    behind_ticks = None
    if plan.mode is StartMode.LAST_STOPPED:
        reached = [each.watermark_ticks for partitions in left.values() for each in partitions.values()]
        behind_ticks = min(reached, default=BEFORE_ALL_TICKS)
        from_ticks = behind_ticks if behind_ticks > BEFORE_ALL_TICKS else None
        backs = read_backs(job.compiled.plan, job.compiled.topology, behind_watermark=True)
    return begin_reading(
        {name: FileInput(spec) for name, spec in job.inputs.items()},
        backs,
        from_ticks,
        left,
        SilenceJournal(directory.silences),
        behind_ticks=behind_ticks,
        # From the beginning means: of what is there.
        accept_partial=plan.accept_partial or plan.mode is StartMode.BEGINNING,
    )


def utc_text(seconds: float) -> str:
    """ISO text, to the second, of seconds of the epoch."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _facts(
    job: Job,
    directory: JobDirectory,
    before: Manifest | None,
    changes: Changes,
    last: Stopped,
    now_ticks: int,
) -> StartFacts:
    begun = before.begun if before else None
    return StartFacts(
        now_ticks=now_ticks,
        read_backs=read_backs(job.compiled.plan, job.compiled.topology),
        read_backs_behind=read_backs(job.compiled.plan, job.compiled.topology, behind_watermark=True),
        inputs=(*job.inputs, *job.topics),
        outputs=tuple(job.outputs),
        generation=max(directory.newest_generation(), begun.generation if begun else 0),
        begun=begun,
        changes=() if changes.keeps_state else changes.told,
        stopped_ticks=last.watermark_ticks,
        ended=last.ended,
    )


def _written(directory: JobDirectory, before: Manifest) -> set[Path]:
    """The directories the job has written to so far."""
    outputs = before.identity.outputs.values() if before.identity else ()
    paths = [words["path"] for words in outputs]
    return {(directory.path / path).resolve() for path in paths if path is not None}


def _began_from(plan: StartPlan, batch: int | None) -> str:
    if plan.resume:
        return "the beginning, no batch was done" if batch is None else f"batch {batch + 1}"
    if not plan.read_from_ticks:
        return "the beginning of the inputs"
    return "arrival time " + format_ticks(min(plan.read_from_ticks.values()))


def _behind(runs: list[Run]) -> str:
    """How the run before ended, where that is a reason to look."""
    how = runs[-1].end.how if runs and runs[-1].end else Ended.KILLED
    return f"; run {runs[-1].start.run} was {how}" if runs and how in (Ended.KILLED, Ended.BROKEN_OFF) else ""


def _end_the_killed(directory: JobDirectory, runs: list[Run]) -> None:
    """A run that could not write its own end gets one, by what it last said of itself."""
    if not runs or runs[-1].end is not None:
        return
    run = runs[-1].start.run
    said = read_status(directory)
    if said is None or said.run != run:
        add(directory.journal, RunEnd(run, runs[-1].start.started, Ended.KILLED))
        return
    end = RunEnd(run, said.updated, Ended.KILLED, said.batches, said.events, said.rows, said.error)
    add(directory.journal, end)
