"""The outputs of a job: files are written inside the tasks and committed here, rows go to the console.

Rows for a topic become messages inside the tasks, and Spark's connector writes them from there before the
driver hears of the batch; one that runs again is written again (at least once, `asa.md` 6.4).

The driver hears of a batch once all its tasks are done. It then renames what they staged, which is
what makes the rows of the batch visible; a batch that runs again replaces its own files.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from tideglass.connect.files.output import STAGING, Staged, commit, file_prefix, stage
from tideglass.connect.kafka.records import records
from tideglass.connect.kafka.topic import TopicOutput
from tideglass.connect.spec import OutputSpec
from tideglass.core.errors import OutputError
from tideglass.engine.ipc import from_bytes, to_bytes
from tideglass.engine.messages import OUTPUT_KINDS, Kind, Message, json_body, records_body, records_count

#: Of a sender in the name of a file: batch, generation, digest and attempt stand beside it.
_MOST_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class TaskSink:
    """Where rows go from inside a task: into staged files, or on to the driver. Picklable."""

    specs: Mapping[str, OutputSpec | TopicOutput]

    def put(self, output: str, table: pa.Table, sender: str) -> tuple[Kind, bytes]:
        spec = self.specs[output]
        if isinstance(spec, TopicOutput):
            made = records(table, spec)
            return Kind.RECORDS, records_body(made.num_rows, to_bytes(made))
        if spec.path is None:
            return Kind.ROWS, to_bytes(table)
        # The number of the batch is the driver's to say; a task only tells its parts apart.
        staged = stage(table, spec, 0, part_name(sender), uuid.uuid4().hex[:8])
        return Kind.STAGED, json_body(staged.to_json())


@dataclass(frozen=True, slots=True)
class BatchRows:
    """What a batch gave: rows per output, and those for the console."""

    rows: Mapping[str, int]
    shown: Sequence[tuple[OutputSpec, pa.Table]]


def commit_batch(
    batch_id: int,
    messages: Sequence[Message],
    outputs: Sequence[str],
    specs: Mapping[str, OutputSpec | TopicOutput],
    generation: int = 1,
) -> BatchRows:
    """Make the batch's files visible. May be repeated for the same batch of the same generation.

    outputs: names by ordinal, as messages refer to them.
    """
    staged: list[Staged] = []
    rows = dict.fromkeys(outputs, 0)
    shown: list[tuple[OutputSpec, pa.Table]] = []
    for message in messages:
        if message.kind not in OUTPUT_KINDS:
            continue
        output = outputs[message.target]
        if message.kind is Kind.STAGED:
            part = Staged(**json.loads(message.body))
            name = f"{file_prefix(batch_id, generation)}{part_name(message.sender)}{Path(part.final).suffix}"
            staged.append(replace(part, batch_id=batch_id, final=name, generation=generation))
            rows[output] += part.rows
        elif message.kind is Kind.RECORDS:  # which the broker has by now
            rows[output] += records_count(message.body)
        else:
            table, spec = from_bytes(message.body), specs[output]
            assert isinstance(spec, OutputSpec)
            rows[output] += table.num_rows
            shown.append((spec, table))
    commit(staged)
    return BatchRows(rows, shown)


def part_name(sender: str) -> str:
    """A sender's name as part of a file name, another for each sender.

    >>> part_name("toll/3"), part_name("stage 1 key group 0"), part_name("toll/gate 3")
    ('toll-3', 'stage-1-key-group-0', 'toll-gate-3-d1ba67be46482b3b')
    """
    plain = re.sub(r"[^A-Za-z0-9]+", "-", sender)
    known = re.fullmatch(r"[A-Za-z0-9]+/[A-Za-z0-9]+|stage \d+ key group \d+", sender)
    if known and len(plain) <= _MOST_CHARACTERS:
        return plain
    digest = hashlib.sha256(sender.encode(errors="surrogatepass")).hexdigest()
    return f"{plain[:_MOST_CHARACTERS]}-{digest[:16]}"


def check_outputs(specs: Mapping[str, OutputSpec | TopicOutput], ours: Collection[Path]) -> None:
    """See that a run does not mix its rows with those of another; changes nothing.

    ours: the directories whose rows those of the run go on from. A topic takes the rows of many runs.
    Raises OutputError when another directory holds rows already.
    """
    for spec in specs.values():
        if isinstance(spec, TopicOutput):
            continue
        if spec.path is not None and spec.path not in ours and any(spec.path.glob("part-*")):
            raise OutputError(
                f"the output {spec.name!r} already holds files of another run in {spec.path}\n"
                "  hint: name another directory with --output, or replace them with --overwrite"
            )


def withdraw(directories: Iterable[Path], generation: int, last_batch: int | None) -> None:
    """Remove the files of batches a generation was killed in once their rows were there.

    Whoever goes on behind `last_batch` (None: the beginning) gives these rows again.
    """
    first = 0 if last_batch is None else last_batch + 1
    named = re.compile(re.escape(file_prefix(0, generation)).replace("00000000", r"(\d{8,})"))
    for directory in directories:
        for file in directory.glob("part-*"):
            found = named.match(file.name)
            if found is not None and int(found[1]) >= first:
                file.unlink()


def clear_outputs(specs: Mapping[str, OutputSpec | TopicOutput], *, rows: bool) -> None:
    """Clear away what dead attempts staged; with `rows`, all rows too."""
    for spec in specs.values():
        if isinstance(spec, TopicOutput) or spec.path is None or not spec.path.is_dir():
            continue
        for file in [*spec.path.glob("part-*")] if rows else []:
            file.unlink()
        if (spec.path / STAGING).is_symlink():  # files it leads to are not ours to remove
            (spec.path / STAGING).unlink()
        for leftover in (spec.path / STAGING).glob("*"):
            leftover.unlink()
