"""Case files that tell what happens in time hold on every driver, whatever must change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle import run as oracle_run
from support.cases import Case, case_paths, compare_outputs, load
from support.depth import some
from support.players import PLAYERS, Manner, play
from support.transcript import End, parse

CASES = [case for path in case_paths() if (case := load(path)).transcript is not None]


def named(case: Case) -> str:
    return case.name


def played_on(driver: str) -> list[Case]:
    return [case for case in CASES if case.transcript is not None and driver in case.transcript.drivers]


@pytest.mark.parametrize("case", some(played_on("topics"), 2), ids=named)
def test_the_transcript_holds_on_topics_with_a_restart_after_every_step(case: Case, tmp_path: Path) -> None:
    player = PLAYERS["topics"](case, Manner(key_groups=3, shares=2), tmp_path)
    assert play(case, player, tmp_path, restarts=True) == []


@pytest.mark.parametrize("case", some(played_on("dataframes"), 2), ids=named)
def test_the_transcript_holds_on_dataframes(case: Case, tmp_path: Path) -> None:
    assert play(case, PLAYERS["dataframes"](case, Manner(), tmp_path), tmp_path, restarts=False) == []


@pytest.mark.parametrize("case", played_on("files"), ids=named)
@pytest.mark.parametrize(
    ("manner", "restarts"),
    some([(Manner(), True), (Manner(key_groups=1), False)], 2),
    ids=some(["with a restart after every step", "in one go"], 2),
)
def test_the_transcript_holds_on_files(case: Case, manner: Manner, restarts: bool, tmp_path: Path) -> None:
    assert play(case, PLAYERS["files"](case, manner, tmp_path), tmp_path, restarts=restarts) == []


def is_timeless(case: Case) -> bool:
    """Whether all its rows follow from its events, whatever the batches and the clock were."""
    transcript = case.transcript
    assert transcript is not None
    return transcript.does(End) and not transcript.idles and not transcript.partition_appears


@pytest.mark.parametrize("case", [case for case in CASES if is_timeless(case)], ids=named)
def test_the_oracle_gives_all_rows_of_a_transcript(case: Case) -> None:
    assert case.transcript is not None
    found = oracle_run(case.query, case.inputs, settings=case.settings)
    assert compare_outputs(found, case.transcript.rows) == []


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["batch @1"], "line 1 of the transcript: 'batch @1' is no step"),
        (["batch 1", 'a/0 {"v": 1}'], "'1' is no time"),
        (['a/0 {"v": 1}'], "belongs to no step"),
        (["idle @2", '{"v": 1}'], "nothing belongs below"),
        (["idle @2", "idle @1"], "line 2 of the transcript: the clock runs backwards"),
        (["batch @2", 'a/0 @3 {"v": 1}'], "arrives after its batch"),
        (["batch @2", '{"v": 1}'], "is no event"),
        (["watermark a = @1"], "'a' is neither an input partition nor a stage"),
        (["sleep @2"], "'sleep @2' is no step"),
    ],
)
def test_what_is_no_transcript_is_refused(lines: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("(", r"\(")):
        parse("", lines)


def test_a_row_nobody_asked_for_and_one_that_is_missing_are_differences(tmp_path: Path) -> None:
    path = tmp_path / "wrong.case"
    path.write_text(
        "It is wrong.\n--- query\nSELECT v FROM a TIMESTAMP BY t\n--- transcript\n"
        'batch @1\na/0 {"t": "@1", "v": 1}\nrows output\n{"v": 2}\nwatermark a/0 = @2\n'
        "metric InputEvents = 2\n"
        'batch @2\na/0 {"t": "@2", "v": 3}\nend\n'
    )
    case = load(path)
    found = play(case, PLAYERS["topics"](case, Manner(), tmp_path), tmp_path)
    assert [each.split(",")[0] for each in found] == [
        'step 3: unexpected {"v": 1}',
        'step 3: missing    {"v": 2}',
        "step 5: watermark is 2026-01-01T00:00:01.0000000Z",
        "step 6: InputEvents is 1",
        "nobody asked for {'v': 3} of output",
    ]
