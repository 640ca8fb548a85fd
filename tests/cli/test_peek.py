"""`tideglass peek`: the newest events of an input and what becomes of them, beside whatever runs."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tideglass.cli.main import main
from tideglass.connect.files.event_id import event_ids
from tideglass.connect.files.input import FileInput
from tideglass.connect.spec import InputSpec
from tideglass.core.events import Fields

SETTINGS = {
    "EventsLateArrivalMaxDelayInSeconds": 5,
    "EventsOutOfOrderMaxDelayInSeconds": 2,
    "EventsOutOfOrderPolicy": "Drop",
    "ScriptType": "JobConfig",
}
QUERY = "SELECT v INTO o FROM entry TIMESTAMP BY at"


def line(v: int, at: str, came: str) -> str:
    return json.dumps({"v": v, "at": f"2026-03-01T08:{at}Z", "came": f"2026-03-01T08:{came}Z"}) + "\n"


def project_in(folder: Path, query: str = QUERY, **more: Any) -> Path:
    (folder / "Inputs").mkdir(parents=True)
    (folder / "job.asaql").write_text(query)
    (folder / "JobConfig.json").write_text(json.dumps(SETTINGS | more))
    return folder


def peeked(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    with pytest.raises(SystemExit) as ended:
        main(["peek", *arguments, "--json"])
    assert not ended.value.code
    return [json.loads(each) for each in capsys.readouterr().out.splitlines()]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    with pytest.raises(SystemExit) as ended:
        main(["peek", *arguments])
    assert not ended.value.code
    return capsys.readouterr().out.splitlines()


def files_below(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(each): (each.stat().st_size, each.stat().st_mtime_ns)
        for each in folder.rglob("*")
        if "__pycache__" not in each.parts
    }


def test_each_event_is_shown_with_what_the_time_policies_do_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    project, events = project_in(tmp_path / "p"), tmp_path / "events.json"
    rows = [
        line(1, "00:10", "00:11"),
        line(2, "00:05", "00:12"),  # late by 7 s, and behind the watermark
        line(3, "00:09", "00:13"),  # within both tolerances
        line(4, "10:00", "00:14"),  # early
        line(5, "00:13", "00:15"),
        line(6, "00:10.5", "00:15") + '{"v": 7, "at": }\n',  # out of order; what cannot be read
    ]
    events.write_text("".join(rows))
    before = files_below(tmp_path)
    found = peeked(capsys, str(project), "entry", "--input", f"entry={events},arrival=came")
    assert files_below(tmp_path) == before
    shown = {each["event"]["v"]: each["decision"] for each in found if "event" in each}
    assert shown == {
        1: "accepted",
        2: "dropped_late",
        3: "accepted",
        4: "dropped_early",
        5: "accepted",
        6: "dropped_out_of_order",
    }
    assert [each["refused"] for each in found if "refused" in each] == ["InputDeserializerError.InvalidData"]
    first = found[0]
    assert first["arrival"] == "2026-03-01T08:00:11.0000000Z"
    assert first["eventTime"] == first["systemTimestamp"] == "2026-03-01T08:00:10.0000000Z"
    assert (first["partition"], first["file"], first["offset"]) == ("0", "events.json", 0)


def test_the_newest_events_are_shown_and_their_ids_are_those_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    project, folder = project_in(tmp_path / "p", "SELECT * INTO o FROM entry"), tmp_path / "events"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number:02d}.json").write_text(
            "".join(f'{{"v": {number * 10 + n}}}\n' for n in range(10))
        )
        os.utime(folder / f"{number:02d}.json", (1_772_000_000 + number, 1_772_000_000 + number))
    found = peeked(capsys, str(project), "entry", "--input", f"entry={folder}", "--events", "15")
    assert [each["event"]["v"] for each in found] == list(range(185, 200))
    source = FileInput(InputSpec(name="entry", path=folder))
    ids: dict[int, str] = {}
    for chunk in source.read("0", [], source.latest({})["0"], Fields((("v",),))):
        values = chunk.table["$payload.v"].to_pylist()
        ids |= dict(zip(values, event_ids("entry", "0", chunk).to_pylist(), strict=True))
    assert [each["eventId"] for each in found] == [ids[v] for v in range(185, 200)]


def test_of_a_large_file_the_end_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    project, events = project_in(tmp_path / "p"), tmp_path / "events.csv"
    count = 700_000
    events.write_text("v,pad\n" + "".join(f"{v},{'x' * 20}\n" for v in range(count)))
    found = peeked(capsys, str(project), "entry", "--input", f"entry={events}", "--events", "2")
    assert [each["event"]["v"] for each in found] == [str(count - 2), str(count - 1)]


@pytest.mark.parametrize("name", ["events.json.gz", "events.json"])
def test_what_is_read_as_a_whole_is_shown_from_its_start(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    body = ("[" + ",".join(f'{{"v": {v}}}' for v in range(50)) + "]").encode()
    (tmp_path / name).write_bytes(gzip.compress(body) if name.endswith(".gz") else body)
    project = project_in(tmp_path / "p")
    found = peeked(capsys, str(project), "entry", "--input", f"entry={tmp_path / name}", "--events", "3")
    assert [each["event"]["v"] for each in found] == [47, 48, 49]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT FROM WHERE", "the query has errors"),
        ("SELECT v INTO o FROM other", "the query does not read this input"),
    ],
)
def test_a_query_that_does_not_help_keeps_nobody_from_looking(
    query: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    project, events = project_in(tmp_path / "p", query), tmp_path / "events.json"
    events.write_text('{"v": 1}\n')
    with pytest.raises(SystemExit) as ended:
        main(["peek", str(project), "entry", "--input", f"entry={events}", "--input", f"other={events}"])
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    assert reason in err
    assert '{"v": 1}' in out


def test_inputs_beside_it_need_not_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    query = "SELECT e.v INTO o FROM entry e JOIN x ON e.v = x.v AND DATEDIFF(minute, e, x) BETWEEN 0 AND 1"
    project, events = project_in(tmp_path / "p", query), tmp_path / "events.json"
    events.write_text('{"v": 1}\n')
    assert len(peeked(capsys, str(project), "entry", "--input", f"entry={events}")) == 1


def test_nothing_in_an_event_steers_the_terminal_and_no_line_is_too_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    project, events = project_in(tmp_path / "p"), tmp_path / "events.json"
    text = "a\x1b[2J\x07\u202e\u009b" + "界" * 200
    events.write_text(
        json.dumps({"v": text, "at": "2026-03-01T08:00:00Z"}, ensure_ascii=False) + "\n\x1b]0;\n"
    )
    lines = printed(capsys, str(project), "entry", "--input", f"entry={events}")
    assert all(each.isprintable() for each in lines), lines
    assert max(sum(2 if ord(c) > 0x2E7F else 1 for c in each) for each in lines) <= 100
    assert any("refused" in each for each in lines)


def test_blobs_are_looked_at_where_a_live_run_reads_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    project, store = project_in(tmp_path / "p"), tmp_path / "store"
    folder = store / "events" / "2026" / "03" / "01"
    folder.mkdir(parents=True)
    (folder / "a").write_text(line(1, "00:10", "00:11"))
    blobs = {
        "Name": "entry",
        "Type": "Data Stream",
        "DataSourceType": "Blob Storage",
        "BlobStorageProperties": {
            "StorageAccounts": [{"AccountName": "tolls"}],
            "Container": "events",
            "PathPattern": "{date}",
        },
        "Serialization": {"Type": "Json"},
        "ScriptType": "Input",
    }
    (project / "Inputs" / "entry.json").write_text(json.dumps(blobs))
    monkeypatch.setenv("TIDEGLASS_ENDPOINTS", "{}")
    endpoint = f"tolls.blob.core.windows.net={store.as_uri()}"
    (found,) = peeked(capsys, str(project), "entry", "--live", "--endpoint", endpoint)
    assert found["file"] == "2026/03/01/a"
    assert found["decision"] in ("adjusted_late", "dropped_late")


def test_reference_data_has_no_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    project = project_in(tmp_path / "p")
    reference = {"InputAlias": "r", "Type": "Reference data", "FilePath": "r.csv", "ScriptType": "InputMock"}
    (project / "Inputs" / "Local_r.json").write_text(json.dumps(reference))
    with pytest.raises(SystemExit) as ended:
        main(["peek", str(project), "r"])
    assert ended.value.code == 1
    assert "reference data" in capsys.readouterr().err
