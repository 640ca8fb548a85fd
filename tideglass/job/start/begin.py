"""The beginning of a run: facts are gathered, the start is decided, and only then anything is written."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tideglass.connect.files.output import FileOutput
from tideglass.connect.output import Batch, OutputConnector
from tideglass.connect.reference.journal import JournaledReferences
from tideglass.core.errors import FRESH, OutputError, OutputUnavailable, StateError, damaged
from tideglass.core.time import NANOSECONDS_PER_TICK, format_ticks
from tideglass.job.directory import JobDirectory
from tideglass.job.options import JobPlan
from tideglass.job.output_retries import Retries
from tideglass.job.progress.counts import COUNTS, Counts
from tideglass.job.progress.idle_journal import IdleJournal
from tideglass.job.progress.stop_point import StopPoint, stop_point
from tideglass.job.progress.topic_progress import REACHED, TopicProgress
from tideglass.job.report.run_journal import Ended, Run, RunEnd, RunStart, add, read_runs
from tideglass.job.report.status import read_status
from tideglass.job.start.decision import StartFacts, StartMode, StartPlan, StartRequest, decide_start
from tideglass.job.start.integrity import check_state, has_state
from tideglass.job.start.manifest import (
    STATE_FORMAT,
    Changes,
    Identity,
    Manifest,
    changes_between,
    identity_of,
    read_manifest,
    write_manifest,
)
from tideglass.job.start.read_plan import READ_PLAN, ReadPlan
from tideglass.job.start.read_planner import plan_reading
from tideglass.job.start.topics import TopicLookup
from tideglass.job.work_layout import layout_changes
from tideglass.plan.read_back import read_backs
from tideglass.spark.checkpoint import last_batch, newest_batch
from tideglass.storage import StoragePath

#: Of an output, before a start ends.
PREPARE_TRIES = 4


@dataclass(frozen=True, slots=True)
class RunSetup:
    """How a run starts.

    start: the entry of the run in the journal.
    plan: which generation it belongs to, and how that one started.
    batch: the last one that is wholly done; None before the first.
    read_plan: where the generation began to read.
    job_id: of the job directory, see `Batch`.
    """

    start: RunStart
    plan: StartPlan
    batch: int | None
    read_plan: ReadPlan = field(default_factory=ReadPlan)
    job_id: str = ""


@dataclass(frozen=True, slots=True)
class Previous:
    """The job and what earlier runs of it have left, as far as this one goes on from it.

    identity: what the job is made of now.
    manifest: of the newest generation; None for a first run and for one that forgets the others.
    changes: what has changed since, and whether the state still fits.
    request: what the user asks for, as far as it is not what happens anyway.
    stop: where that generation stopped; of nothing where no start needs it.
    newest_generation: number of the newest one that has a directory; 0 for none.
    runs: the journal.
    job_id: of the job directory; a new one where there is none, or where earlier runs are forgotten.
    """

    identity: Identity
    manifest: Manifest | None
    changes: Changes
    request: StartRequest
    stop: StopPoint
    newest_generation: int
    runs: Sequence[Run]
    job_id: str


def begin(job: JobPlan, directory: JobDirectory, lookup: TopicLookup) -> RunSetup:
    """Decide how the job starts, and write down that it did. The lock of the directory must be held.

    What was there before, and does its state fit? Which generation is it, and from when on does it emit rows?
    Where does each input begin? May the job write to its outputs? Then all of it is written down.

    lookup: asks a broker what a topic holds; called only for a start that depends on it.
    Raises StateError, InputError or OutputError when it cannot start; then nothing has been written but what
    outputs make for themselves (`OutputConnector.prepare`).
    """
    now_ticks = time.time_ns() // NANOSECONDS_PER_TICK
    journal = IdleJournal(directory.idle_journal)
    previous = _previous(job, directory)
    plan = decide_start(previous.request, _facts(job, previous, now_ticks))
    generation = directory.generation(plan.generation)
    read_plan = plan_reading(
        job,
        generation,
        plan,
        previous.stop.of_inputs(previous.changes.same_inputs),
        journal,
        lookup,
        now_ticks,
        as_configured=previous.request.mode is None and plan.mode is StartMode.BEGINNING,
    )
    replaces_rows = job.options.fresh or (job.options.overwrite and not plan.resume)
    if not replaces_rows:
        _check_outputs(job, directory, plan, previous.manifest)
        if not _withdraws(plan):
            _check_age(job, directory, previous)
    for name, output in job.outputs.items():
        if replaces_rows:
            output.check_replaceable()
        _prepare(name, output)

    _clear_outputs(job, directory, plan, previous, replaces_rows=replaces_rows)
    if _withdraws(plan) and not replaces_rows:
        _check_age(job, directory, previous)
    if job.options.fresh:
        journal.forget()
        JournaledReferences(str(directory.reference), ()).forget()
    _write_generation(job, directory, plan, read_plan, previous)
    batch = last_batch(generation / "checkpoint") if plan.resume else None
    start = _journal_start(job, directory, plan, previous, batch)
    return RunSetup(start, plan, batch, read_plan, previous.job_id)


# ---------------------------------------------------------------- what was there before


def _previous(job: JobPlan, directory: JobDirectory) -> Previous:
    """What earlier runs have left. Raises StateError where a start that needs it cannot have it."""
    options = job.options
    identity = identity_of(
        job.compiled,
        job.settings,
        {**job.inputs, **job.references, **job.topics},
        job.outputs,
        directory.path,
        finished_input=options.once,
    )
    manifest = None if options.fresh else read_manifest(directory.manifest)
    changes = changes_between(manifest, identity)
    request, stop = options.start, None
    if job.topics and manifest is not None and request.mode is StartMode.LAST_STOPPED:
        request = replace(request, mode=None)  # of topics, where the last run stopped is in its checkpoint
    if manifest is None:
        if not (options.fresh or options.overwrite) and has_state(directory):
            raise damaged(directory.manifest, "is missing, though there is state of a job", FRESH)
    elif request.mode is None and changes.keeps_state:
        check_state(directory.generation(manifest.start_plan.generation), manifest.kept)
    else:
        try:
            stop = stop_point(directory.generation(manifest.start_plan.generation))
        except StateError:
            if request.mode in (None, StartMode.LAST_STOPPED):
                raise  # any other start needs no run before it
    return Previous(
        identity,
        manifest,
        changes,
        request,
        stop or StopPoint(),
        directory.newest_generation(),
        read_runs(directory.journal),
        (manifest.job_id if manifest is not None else "") or uuid.uuid4().hex,
    )


# ---------------------------------------------------------------- what decides the start


def _facts(job: JobPlan, previous: Previous, now_ticks: int) -> StartFacts:
    manifest, changes = previous.manifest, previous.changes
    start_plan = None if manifest is None else manifest.start_plan
    return StartFacts(
        now_ticks=now_ticks,
        read_backs=read_backs(job.compiled.plan, job.compiled.topology),
        read_backs_after_stop=read_backs(job.compiled.plan, job.compiled.topology, after_watermark=True),
        outputs=tuple(job.outputs),
        generation=max(previous.newest_generation, start_plan.generation if start_plan else 0),
        start_plan=start_plan,
        changes=() if changes.keeps_state else changes.differences,
        stopped_ticks=previous.stop.watermark_ticks,
        ended=previous.stop.ended,
    )


# ---------------------------------------------------------------- outputs


def _check_outputs(job: JobPlan, directory: JobDirectory, plan: StartPlan, manifest: Manifest | None) -> None:
    """Raises OutputError where the run would mix its rows with those of another job."""
    goes_on = plan.resume or plan.mode is not StartMode.BEGINNING
    ours = _written_folders(directory, manifest) if manifest and goes_on else ()
    for output in job.outputs.values():
        output.check(ours)


def _withdraws(plan: StartPlan) -> bool:
    """Whether rows after the last batch that is done are removed, since the run emits them again."""
    return plan.mode is StartMode.LAST_STOPPED and not plan.resume


def _check_age(job: JobPlan, directory: JobDirectory, previous: Previous) -> None:
    """Raises StateError where an output has rows of a batch that was begun after all the directory knows of.

    Then the directory is an older copy. The batches after it would be made anew, with other events in each,
    beside the rows that are there.
    """
    if previous.manifest is None:
        return
    number = previous.manifest.start_plan.generation
    checkpoint = directory.generation(number) / "checkpoint"
    known = Batch(number, newest_batch(checkpoint))
    for name, output in job.outputs.items():
        newest = output.newest_batch(previous.manifest.job_id)
        if newest is not None and newest > known:
            raise StateError(
                f"[OLDER_COPY] {directory.path} is an older copy of the job directory: the output {name!r} "
                f"({output.describe()}) has rows of batch {newest.number} of generation {newest.generation}, "
                f"and the newest it knows is batch {known.number} of generation {known.generation}\n"
                "  hint: put the newest job directory back; --start last removes the rows of later batches "
                "where the output can, and writes them again; --fresh starts anew and replaces all rows"
            )


def _prepare(name: str, output: OutputConnector) -> None:
    """Prepare an output; one that is away for a moment is waited for.

    Raises OutputError where it stays away: a start that waited longer would look like one that hangs.
    """
    for tries in range(1, PREPARE_TRIES + 1):
        try:
            output.prepare()
        except OutputUnavailable as error:
            if tries == PREPARE_TRIES:
                raise OutputError(
                    f"the output {name!r} is not available, so the run does not start: {error}\n"
                    "  hint: start it again once the output is there; nothing has been read or written"
                ) from None
            time.sleep(Retries().pause_seconds(name, tries))
        else:
            return


def _clear_outputs(
    job: JobPlan,
    directory: JobDirectory,
    plan: StartPlan,
    previous: Previous,
    *,
    replaces_rows: bool,
) -> None:
    """Remove what dead attempts left, the rows that the run replaces, and those it emits again."""
    if replaces_rows:  # without its rows no state may be resumed, whatever happens from here on
        directory.manifest.unlink(missing_ok=True)
    for output in job.outputs.values():
        output.clear(rows=replaces_rows)
    manifest, last = previous.manifest, previous.stop.batch
    if manifest is not None and _withdraws(plan):
        # Batches that were killed between their rows and their commit: the run emits their rows again.
        after = Batch(manifest.start_plan.generation, -1 if last is None else last, manifest.job_id)
        for output in _written_outputs(job, directory, manifest, previous.identity):
            output.withdraw(after)


def _written_folders(directory: JobDirectory, manifest: Manifest) -> set[StoragePath]:
    """The folders the job has written to so far."""
    outputs = manifest.identity.outputs.values() if manifest.identity else ()
    paths = [words.get("path") for words in outputs]
    return {(directory.path / path).resolve() for path in paths if path is not None}


def _written_outputs(
    job: JobPlan, directory: JobDirectory, manifest: Manifest, now: Identity
) -> list[OutputConnector]:
    """The outputs the job has written to so far: folders, and of the others those that are still the same."""
    known = manifest.identity.outputs if manifest.identity else {}
    others = {name: words for name, words in now.outputs.items() if words.get("path") is None}
    same = [job.outputs[name] for name, words in others.items() if words == known.get(name)]
    folders = (FileOutput(path.name, path) for path in _written_folders(directory, manifest))
    return [*folders, *same]


# ---------------------------------------------------------------- what is written down


def _write_generation(
    job: JobPlan, directory: JobDirectory, plan: StartPlan, read_plan: ReadPlan, previous: Previous
) -> None:
    """Write what the run and later ones go by. The manifest comes last: before, the earlier one counts."""
    kept = (READ_PLAN, COUNTS, *((REACHED,) if job.topics else ()))
    if plan.resume and previous.manifest is not None:
        kept = previous.manifest.kept
    else:
        generation = directory.generation(plan.generation)
        read_plan.save(generation / READ_PLAN)
        Counts().save(generation)
        if job.topics:
            TopicProgress().save(generation)
    manifest = Manifest(STATE_FORMAT, replace(plan, resume=False), previous.identity, kept, previous.job_id)
    write_manifest(directory.manifest, manifest)
    directory.remove_generations(kept=plan.generation)


def _journal_start(
    job: JobPlan,
    directory: JobDirectory,
    plan: StartPlan,
    previous: Previous,
    batch: int | None,
) -> RunStart:
    """Add the run to the journal, and the end of the one before if that was killed."""
    last = previous.runs[-1] if previous.runs else None
    if last is not None and last.end is None:
        add(directory.journal, _end_of_killed(directory, last.start))
    start = RunStart(
        run=len(previous.runs) + 1,
        started=utc_text(time.time()),
        generation=plan.generation,
        resumed=plan.resume,
        mode=plan.mode.value,
        cause=plan.cause + _end_before(last),
        began_from=_began_from(plan, batch),
        pid=os.getpid(),
        host=socket.gethostname(),
        folder=os.getcwd(),
        changes=(
            *previous.changes.differences,
            *layout_changes(None if last is None else last.start.layout, job.layout),
        ),
        arguments=job.options.arguments,
        query=previous.identity.query,
        plan=previous.identity.plan,
        layout=job.layout,
    )
    add(directory.journal, start)
    return start


def _end_of_killed(directory: JobDirectory, start: RunStart) -> RunEnd:
    """The end of a run that could not write it, from its last status."""
    status = read_status(directory)
    if status is None or status.run != start.run:
        return RunEnd(start.run, start.started, Ended.KILLED)
    return RunEnd(
        start.run, status.updated, Ended.KILLED, status.batches, status.events, status.rows, status.error
    )


def _end_before(last: Run | None) -> str:
    """How the run before ended, where that is a reason to look."""
    if last is None:
        return ""
    how = last.end.how if last.end else Ended.KILLED
    return f"; run {last.start.run} was {how}" if how in (Ended.KILLED, Ended.BROKEN_OFF) else ""


def _began_from(plan: StartPlan, batch: int | None) -> str:
    if plan.resume:
        return "the beginning, no batch was done" if batch is None else f"batch {batch + 1}"
    if not plan.read_from_ticks:
        return "the beginning of the inputs"
    return "arrival time " + format_ticks(min(plan.read_from_ticks.values()))[:19] + "Z"


def utc_text(seconds: float) -> str:
    """ISO text, to the second, of seconds of the epoch."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
