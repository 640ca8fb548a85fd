"""Damaged files of a job directory: each is read as far as it is whole, or refused with its name."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from random import Random

from fuzz.mutation import mutate_bytes, mutate_json
from fuzz.trial import Trial, holds
from tideglass.compile import compile_query
from tideglass.connect.files.output import FileOutput
from tideglass.connect.spec import InputSpec
from tideglass.core.errors import Source, StateError
from tideglass.core.positions import Piece
from tideglass.ingress.idle_periods import IdlePeriod
from tideglass.ingress.read_from import PartitionBegin
from tideglass.ingress.reports import PartitionReport
from tideglass.job.directory import JobDirectory
from tideglass.job.progress.idle_journal import IdleJournal
from tideglass.job.report import run_journal
from tideglass.job.report.run_journal import Ended, RunEnd, RunStart, read_runs
from tideglass.job.report.status import JobState, Status, read_status, write_status
from tideglass.job.start.decision import StartMode, StartPlan
from tideglass.job.start.manifest import STATE_FORMAT, Manifest, identity_of, read_manifest, write_manifest
from tideglass.job.start.read_plan import ReadPlan
from tideglass.project.settings import from_options


def make(rng: Random) -> Trial:
    """One file of a job, damaged, or cut as a crash cuts it."""
    name = rng.choice(sorted(whole()))
    content = whole()[name]
    match rng.randrange(4):
        case 0:
            content = content[: rng.randrange(len(content) + 1)]
        case 1 if name.endswith(".json"):
            content = json.dumps(mutate_json(rng, json.loads(content))).encode()
        case 2 if name.endswith(".jsonl"):
            lines = content.splitlines()
            at = rng.randrange(len(lines))
            lines[at] = json.dumps(mutate_json(rng, json.loads(lines[at]))).encode()
            content = b"\n".join(lines) + b"\n"
        case _:
            content = mutate_bytes(rng, content)
    return Trial("job", {name: content})


@cache
def whole() -> dict[str, bytes]:
    """Every file, as a job writes it."""
    with tempfile.TemporaryDirectory() as folder:
        directory = JobDirectory(Path(folder))
        source = Source(
            "SELECT k, COUNT(*) AS n INTO o FROM i TIMESTAMP BY t GROUP BY k, TumblingWindow(second, 5)"
        )
        settings = from_options({"late_arrival": "5s"})
        compiled = compile_query(source, settings, key_groups=2)
        identity = identity_of(
            compiled,
            settings,
            {"i": InputSpec(name="i", path=Path(folder) / "in.json")},
            {"o": FileOutput("o", Path(folder) / "out")},
            directory.path,
            finished_input=True,
        )
        begun = StartPlan(1, False, StartMode.BEGINNING, "first run")
        write_manifest(directory.manifest, Manifest(STATE_FORMAT, begun, identity))
        for run in (1, 2):
            start = RunStart(
                run, "2026-01-01T00:00:00Z", 1, run > 1, "beginning", "asked", "the beginning", 7, "host"
            )
            run_journal.add(directory.journal, start)
            end = RunEnd(run, "2026-01-01T00:01:00Z", Ended.FINISHED, 3, 10, {"o": 4})
            run_journal.add(directory.journal, end)
        idle_journal = IdleJournal(directory.idle_journal)
        for offset in range(5):
            idle_journal.take(_idle_time("0", offset))
        write_status(
            directory,
            Status(
                "j",
                2,
                JobState.STOPPED,
                "2026-01-01T00:00:00Z",
                "2026-01-01T00:01:00Z",
                7,
                "host",
                1,
                "m",
                "c",
            ),
        )
        place = directory.generation(1) / "begun.json"
        part = PartitionBegin(0, [Piece("in.json", 0, 10, 5)], 3, (IdlePeriod(1, 2),))
        ReadPlan({"i": {"0": part}}, {"i": {"0": [Piece("in.json", 0, 10, 5)]}}, 9).save(place)
        names = ["manifest.json", "runs.jsonl", "silences.jsonl", "status.json", "generation-0001/begun.json"]
        return {name: (directory.path / name).read_bytes() for name in names}


def _idle_time(partition: str, offset: int) -> PartitionReport:
    return PartitionReport(
        "i", partition, next_offset=offset, quiet_until_ticks=1000 + offset, idle_held=False
    )


def check(trial: Trial) -> None:
    """Raises for any error that is not a StateError, or does not name the file."""
    ((name, content),) = trial.files.items()
    with tempfile.TemporaryDirectory() as folder:
        directory = JobDirectory(Path(folder))
        path = directory.path.local / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        try:
            READERS[name](directory)
        except StateError as error:
            holds(path.name in str(error), "an error names no file", error)


def _manifest(directory: JobDirectory) -> None:
    read_manifest(directory.manifest)


def _runs(directory: JobDirectory) -> None:
    """What is added to a journal that was cut is there at the next look."""
    before = read_runs(directory.journal)
    start = RunStart(99, "2026-01-02T00:00:00Z", 1, True, "m", "c", "b", 7, "host")
    run_journal.add(directory.journal, start)
    after = read_runs(directory.journal)
    holds(after[-1].start == start or any(run.start.run == 99 for run in before), "an entry is lost", after)


def _silences(directory: JobDirectory) -> None:
    """The whole lines count, and so does what is added behind a torn one."""
    lines = directory.idle_journal.read_bytes().split(b"\n")[:-1]
    known = [line for line in lines if line in whole()["silences.jsonl"].split(b"\n")]
    read = IdleJournal(directory.idle_journal)
    came = read.of(("i", "0"))
    expected = {json.loads(line)["offset"] for line in known if line}
    holds(
        expected <= {each.offset for each in came}, "a whole line of the silences is lost", (expected, came)
    )
    read.take(_idle_time("new", 77))
    again = IdleJournal(directory.idle_journal).of(("i", "new"))
    holds(IdlePeriod(77, 1077) in again, "a silence behind a torn line is lost", again)


def _status(directory: JobDirectory) -> None:
    found = read_status(directory)
    if found is not None:
        json.dumps(asdict(found))


def _begun(directory: JobDirectory) -> None:
    begun = ReadPlan.load(directory.generation(1) / "begun.json")
    _ = begun.reads_again, begun.positions


READERS: dict[str, Callable[[JobDirectory], None]] = {
    "manifest.json": _manifest,
    "runs.jsonl": _runs,
    "silences.jsonl": _silences,
    "status.json": _status,
    "generation-0001/begun.json": _begun,
}
