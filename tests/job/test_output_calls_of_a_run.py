"""What a run calls of its outputs, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.job_in_process import Folder, RunInProcess
from tideglass.connect.output import Batch, OutputConnector
from tideglass.core.ipc import to_bytes
from tideglass.core.time import AFTER_ALL_TICKS, parse_ticks
from tideglass.core.types import SYSTEM_TIMESTAMP
from tideglass.engine.messages import Kind, Message, records_body
from tideglass.job.options import JobPlan
from tideglass.job.outputs import staged_tables
from tideglass.storage import StoragePath

QUERY = """
SELECT COUNT(*) AS n INTO counts FROM events TIMESTAMP BY at GROUP BY TumblingWindow(second, 10)
"""


@dataclass(frozen=True, slots=True)
class RecordingOutput(OutputConnector):
    """Writes down how it is called."""

    calls: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])

    def prepare(self) -> None:
        self.calls.append(("prepare",))

    def clear(self, *, rows: bool) -> None:
        self.calls.append(("clear", rows))

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        self.calls.append(("publish", batch, sum(table.num_rows for table in staged)))
        return ()

    def advance(self, batch: Batch, watermark_ticks: int) -> None:
        self.calls.append(("advance", batch, watermark_ticks))

    def finish(self, batch: Batch) -> None:
        self.calls.append(("finish", batch))

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        return {"path": None}

    def describe(self) -> str:
        return "a list"


def job_of(folder: Folder, output: OutputConnector, **options: Any) -> JobPlan:
    return replace(folder.job(**options), outputs={"counts": output})


def event(second: int) -> dict[str, str]:
    at = f"2026-01-01T00:00:{second:02}Z"
    return {"at": at, "arrived": at}


def ticks_of(second: int) -> int:
    ticks = parse_ticks(event(second)["at"])
    assert ticks is not None
    return ticks


def test_an_output_is_prepared_then_told_of_every_batch_and_of_the_end(tmp_path: Path) -> None:
    folder, output = Folder(tmp_path / "job", QUERY), RecordingOutput()
    folder.put(0, [event(1), event(2)])
    with RunInProcess(job_of(folder, output)) as run:
        run.batch()
        folder.put(0, [event(15)])
        run.batch()
        job_id = run.reporter.setup.job_id
    first, second = Batch(1, 0), Batch(1, 1)
    assert output.calls == [
        ("prepare",),
        ("clear", False),
        ("advance", first, ticks_of(2) - 1),
        ("publish", second, 1),
        ("advance", second, ticks_of(15) - 1),
    ]
    assert job_id
    assert {call[1].job_id for call in output.calls[2:]} == {job_id}


def test_finished_inputs_finish_the_outputs_and_the_id_of_the_job_stays(tmp_path: Path) -> None:
    folder, output = Folder(tmp_path / "job", QUERY), RecordingOutput()
    folder.put(0, [event(1), event(15)])
    with RunInProcess(job_of(folder, output, once=True)) as run:
        run.batches()
        ids = [run.reporter.setup.job_id]
    last = Batch(1, run.number - 1)
    assert output.calls[-2:] == [("advance", last, AFTER_ALL_TICKS), ("finish", last)]
    with RunInProcess(job_of(folder, output, once=True)) as again:
        ids.append(again.reporter.setup.job_id)
    with RunInProcess(job_of(folder, output, once=True, fresh=True)) as fresh:
        ids.append(fresh.reporter.setup.job_id)
    assert ids[0] == ids[1] != ids[2]


def test_what_is_staged_comes_in_the_order_of_the_senders() -> None:
    def message(sender: str, target: int) -> Message:
        table = pa.table({"sender": [sender], SYSTEM_TIMESTAMP: [0]})
        return Message(0, 1, Kind.STAGED, target, sender, records_body(1, 0, to_bytes(table)))

    sent = [message("b", 0), message("a", 1), message("a", 0), message("a columns 2", 0)]
    for messages in (sent, sent[::-1]):
        found = staged_tables(messages, ["x", "y"])
        order = {name: [table["sender"][0].as_py() for table in tables] for name, tables in found.items()}
        assert order == {"x": ["a", "a columns 2", "b"], "y": ["a"]}
