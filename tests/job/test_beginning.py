"""How a run begins: decided before anything is written, told piece by piece, kept in the journal."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.begun import QUERY, Bench, no_broker
from tideglass.connect.files.output import FileOutput
from tideglass.core.durable import sealed, unsealed
from tideglass.core.errors import OutputError, StateError
from tideglass.job.directory import JobDirectory
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.job.progress.counts import Counts
from tideglass.job.report.run_journal import Ended, read_runs
from tideglass.job.start.begin import begin
from tideglass.job.start.manifest import STATE_FORMAT, read_manifest
from tideglass.project.project import load_project


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "heat")


def told(bench: Bench, **options: Any) -> tuple[str, ...]:
    return bench.begin(**options).start.changes


def test_the_first_run_begins_at_the_beginning_and_the_second_goes_on(bench: Bench):
    first = bench.begin()
    assert (first.plan.generation, first.plan.resume, first.start.run) == (1, False, 1)
    assert first.start.began_from == "the beginning of the inputs"
    bench.leave_state(1)
    second = bench.begin()
    assert (second.plan.generation, second.plan.resume, second.batch) == (1, True, 4)
    assert (second.start.run, second.start.began_from, second.start.changes) == (2, "batch 5", ())


def test_a_run_without_an_end_is_written_down_as_killed_by_the_next(bench: Bench):
    bench.begin()
    second = bench.begin()
    runs = read_runs(bench.directory.journal)
    assert runs[0].end is not None
    assert runs[0].end.how is Ended.KILLED
    assert runs[1].end is None
    assert second.start.cause == "resumed from the checkpoint; run 1 was killed"


def test_a_change_behind_all_state_keeps_it_and_is_told_step_by_step(bench: Bench):
    bench.begin()
    bench.query(QUERY.replace("n < 3", "n < 4").replace("INTO many", "INTO most"))
    second = bench.begin()
    assert second.plan.resume
    assert set(second.start.changes) == {
        "the statement that writes to 'few' is another",
        "the statement that writes to 'most' is new",
        "the statement that writes to 'many' is gone",
        "the output 'most' is new",
        "the output 'many' is gone",
    }
    assert told(bench) == ()


def test_moving_the_text_of_a_query_changes_nothing(bench: Bench):
    bench.begin()
    bench.query("-- the same\n" + QUERY.replace("    ", "  "))
    assert told(bench) == ()


def test_a_change_of_state_is_refused_with_every_change_and_nothing_is_written(bench: Bench):
    bench.begin()
    bench.leave_state(1)
    bench.query(QUERY.replace("minute, 1", "minute, 2"))
    bench.settings(EventsLateArrivalMaxDelayInSeconds=30)
    before = bench.everything()
    with pytest.raises(StateError) as refused:
        bench.begin()
    assert str(refused.value).splitlines()[1:-1] == [
        "  the step 'minutes' is another",
        "  the statement that writes to 'many' is the same, but what it reads is not",
        "  the statement that writes to 'few' is the same, but what it reads is not",
        "  the setting late_arrival was 20s and is 30s",
    ]
    assert bench.everything() == before


def test_another_place_of_an_input_is_another_input(bench: Bench, tmp_path: Path):
    bench.begin()
    other = tmp_path / "other.json"
    other.write_text("{}\n")
    with pytest.raises(
        StateError, match=r"the input 'sensor': path was .*sensor\.json' and is .*other\.json'"
    ):
        bench.begin(inputs={"sensor": other})


def test_a_project_that_moves_as_a_whole_is_the_same(bench: Bench, tmp_path: Path):
    bench.begin()
    bench.folder.rename(tmp_path / "moved")
    moved = plan_job(load_project(tmp_path / "moved"), RunOptions(once=True, cores=2))
    again = begin(moved, JobDirectory.of_project(tmp_path / "moved"), no_broker)
    assert (again.plan.resume, again.start.changes) == (True, ())


def test_the_number_of_key_groups_stays_unless_it_is_said(bench: Bench):
    bench.begin(cores=3)
    assert bench.begin(cores=1).plan.resume
    with pytest.raises(StateError, match="the key groups were 3 and are 2"):
        bench.begin(key_groups=2)


def test_inputs_may_come_to_an_end_but_not_go_on_behind_it(bench: Bench):
    bench.begin(once=False)
    assert bench.begin(once=True).plan.resume
    with pytest.raises(StateError, match=r"the inputs were finished \(--once\) and now go on"):
        bench.begin(once=False)


def test_a_fresh_start_is_a_generation_of_its_own_and_the_old_one_is_removed(bench: Bench):
    bench.begin()
    old = bench.leave_state(1)
    bench.query(QUERY.replace("minute, 1", "minute, 2"))
    fresh = bench.begin(fresh=True)
    assert (fresh.plan.generation, fresh.plan.resume, fresh.batch) == (2, False, None)
    assert not old.exists()
    assert bench.begin().plan.resume


def test_rows_of_others_are_not_mixed_in_and_the_refusal_leaves_nothing(bench: Bench):
    many = bench.folder / "LocalRunOutputs" / "many"
    many.mkdir(parents=True)
    (many / "part-00000000-x.json").write_text("{}\n")
    for _ in range(2):
        before = bench.everything()
        with pytest.raises(OutputError, match="already holds files of another run"):
            bench.begin()
        assert bench.everything() == before
    assert not bench.begin(overwrite=True).plan.resume
    assert list(many.glob("part-*")) == []


def test_a_start_that_cannot_replace_the_rows_of_one_output_leaves_those_of_all(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    bench.begin()
    many = bench.folder / "LocalRunOutputs" / "many"
    many.mkdir(parents=True)
    (many / "part-00000000-x.json").write_text("{}\n")
    before = bench.everything()

    def refuse(output: FileOutput) -> None:
        if output.name == "few":
            raise OutputError("rows of others")

    monkeypatch.setattr(FileOutput, "check_replaceable", refuse)
    with pytest.raises(OutputError, match="rows of others"):
        bench.begin(fresh=True)
    assert bench.everything() == before


def test_an_output_that_moves_is_told_and_its_earlier_rows_stay(bench: Bench, tmp_path: Path):
    bench.begin()
    many = bench.folder / "LocalRunOutputs" / "many"
    many.mkdir(parents=True)
    (many / "part-x.json").write_text("{}\n")
    assert bench.begin().plan.resume
    (change,) = told(bench, outputs={"many": str(tmp_path / "elsewhere")})
    assert change.startswith("the output 'many': path was '../../LocalRunOutputs/many' and is")
    assert len(list(many.glob("part-*"))) == 1


def test_state_of_another_format_is_recognised_before_anything_is_written(bench: Bench):
    old = {"state_format": 1, "plan": "x", "settings": "{}", "key_groups": 2, "inputs": ["sensor"]}
    bench.directory.manifest.write_text(json.dumps(old))
    before = bench.everything()
    with pytest.raises(StateError, match=rf"format 1, this version's is {STATE_FORMAT}(?s:.*)--fresh"):
        bench.begin()
    assert bench.everything() == before
    bench.begin(fresh=True)
    manifest = read_manifest(bench.directory.manifest)
    assert manifest is not None
    assert manifest.state_format == STATE_FORMAT


def test_a_manifest_that_is_none_is_named(bench: Bench):
    bench.directory.manifest.write_text("{")
    with pytest.raises(StateError, match=r"\[STATE_DAMAGED\] .*manifest\.json does not say"):
        bench.begin()


def test_the_manifest_comes_back_as_it_was_written(bench: Bench):
    began = bench.begin()
    manifest = read_manifest(bench.directory.manifest)
    assert manifest is not None
    assert manifest.start_plan == replace(began.plan, resume=False)
    assert manifest.identity is not None
    assert manifest.identity.schemas == {"sensor": {"deviceId": "", "readAt": ""}}
    assert os.path.isabs(manifest.identity.inputs["sensor"]["path"]) is False


def test_a_manifest_of_another_version_is_told_apart(bench: Bench):
    bench.begin()
    content = unsealed(json.loads(bench.directory.manifest.read_text()))
    content["identity"]["steps"] = 7
    bench.directory.manifest.write_text(json.dumps(sealed(content)))
    found = read_manifest(bench.directory.manifest)
    assert found is not None
    assert (found.identity, found.start_plan.generation) == (None, 1)
    assert told(bench, fresh=True) == ()
    bench.directory.manifest.write_text(json.dumps(sealed(content | {"begun": []})))
    with pytest.raises(StateError, match=r"\[STATE_DAMAGED\] .*manifest\.json does not say"):
        bench.begin()


LAST = "generation-0001/checkpoint"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        (f"{LAST}/offsets/4", None),
        (f"{LAST}/offsets/4", ""),
        (f"{LAST}/offsets/4", "v1\n{}\n{"),
        (f"{LAST}/offsets/3", None),
        (f"{LAST}/commits/4", "v1"),
        (f"{LAST}/metadata", "{"),
        ("generation-0001/begun.json", None),
        ("generation-0001/begun.json", "{}"),
        ("generation-0001/counts.json", None),
        ("generation-0001/counts.json", "\x00"),
        ("manifest.json", None),
        ("manifest.json", ""),
    ],
)
def test_a_run_does_not_go_on_from_damaged_state_and_changes_nothing(
    bench: Bench, name: str, body: str | None
):
    bench.begin()
    bench.leave_state(1)
    path = bench.directory.path / name
    if body is None:
        path.unlink()
    else:
        path.write_text(body)
    before = bench.everything()
    with pytest.raises(StateError) as refused:
        bench.begin()
    told, hint = str(refused.value).split("\n")
    assert told.startswith(f"[STATE_DAMAGED] {path} ")
    assert hint.startswith("  hint: --")
    assert bench.everything() == before
    assert bench.begin(fresh=True).plan.generation == 2, "what every hint names"


def test_a_log_of_commits_that_lacks_a_batch_whose_rows_were_given_is_refused(bench: Bench):
    bench.begin()
    checkpoint = bench.leave_state(1)
    for batch in (3, 4):
        (checkpoint / "commits" / str(batch)).unlink()
    with pytest.raises(StateError, match=r"\[STATE_DAMAGED\] .*commits ends before batch 3"):
        bench.begin()
    for name in ("commits", "offsets"):
        shutil.rmtree(checkpoint / name)
    Counts().after(4, {}, []).save(bench.directory.generation(1))
    with pytest.raises(StateError, match=r"\[STATE_DAMAGED\] .*offsets ends before batch 4"):
        bench.begin()


def test_a_start_that_was_killed_before_it_was_written_down_leaves_nothing_to_go_on_with(bench: Bench):
    bench.begin()
    bench.leave_state(1)
    left = bench.directory.generation(2)
    left.mkdir()
    for name in ("begun.json", "counts.json"):  # a start from the beginning has come so far
        shutil.copy(bench.directory.generation(1) / name, left)
    again = bench.begin()
    assert (again.plan.generation, again.plan.resume, again.batch) == (1, True, 4)
    assert not left.exists()
