"""`tideglass why`: what it prints, its exit codes, and that it needs neither a project nor the engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.job_in_process import Folder, RunInProcess
from support.project_on_disk import disordered
from tideglass.cli.main import main

QUERY = """
SELECT device, COUNT(*) AS n INTO counts
FROM events TIMESTAMP BY t GROUP BY device, TumblingWindow(second, 10)
SELECT device, v INTO high FROM events TIMESTAMP BY t WHERE v > 900
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A job that has read its input to the end; no row passed the condition of its second output."""
    project = Folder(tmp_path_factory.mktemp("job"), QUERY, 5, 2)
    project.put(0, disordered(0, 100))
    with RunInProcess(project.job(once=True)) as run:
        run.batches()
    return project


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["why", *map(str, arguments)])
    return int(ended.value.code or 0), capsys.readouterr().out


def test_it_names_the_cause_the_evidence_and_the_remedy(
    finished: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = printed(capsys, finished.path, "high")
    lines = out.splitlines()
    assert code == 1
    assert lines[0] == "job: 1 cause found (Stopped)"
    assert lines[1].startswith(
        "warning: output high has had no row: none of the 100 rows that reach WHERE of high"
    )
    assert "line 4: WHERE v > 900" in lines[1], "the query is that of the run, so it is quoted"
    assert lines[1].endswith("[WHERE_MATCHES_NOTHING]")
    assert "    high, filter" in out
    assert lines[-1].startswith("  remedy: look at the condition of WHERE")


def test_one_output_may_be_asked_about(finished: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, finished.path, "Counts")
    assert (code, out.splitlines()[0]) == (0, "job: healthy, finished")
    assert "output counts: " in out
    assert printed(capsys, finished.path, "high")[0] == 1


def test_a_condition_that_has_passed_no_row_is_a_note_where_other_outputs_have_rows(
    finished: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = printed(capsys, finished.path)
    assert (code, out.splitlines()[0]) == (0, "job: healthy, finished")
    assert out.splitlines()[1].startswith("note: output high has had no row")


def test_an_unknown_output_is_refused(finished: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["why", str(finished.path), "others"])
    assert ended.value.code not in (0, 1)
    assert "counts, high" in " ".join(capsys.readouterr().err.split())


def test_a_directory_needs_no_project(finished: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, "high", "--run-dir", finished.directory.path)
    assert code == 1
    assert "WHERE_MATCHES_NOTHING" in out
    assert printed(capsys, "counts", "--run-dir", finished.directory.path)[0] == 0


def test_a_changed_query_is_not_quoted(finished: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    path = finished.path / "job.asaql"
    path.write_text("\n" + QUERY)
    try:
        _, out = printed(capsys, finished.path)
    finally:
        path.write_text(QUERY)
    assert "reach WHERE of high (line 4) passes it" in out


def test_json_holds_the_same(finished: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, finished.path, "high", "--json")
    found = json.loads(out)
    assert (code, found["healthy"], found["state"]) == (1, False, "Stopped")
    (finding,) = found["findings"]
    assert (finding["cause"], finding["output"], finding["severity"]) == (
        "WHERE_MATCHES_NOTHING",
        "high",
        "warning",
    )
    assert [each["output"] for each in found["next_rows"]] == ["high"]


def test_a_project_that_never_ran_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = printed(capsys, Folder(tmp_path, QUERY).path)
    assert code == 1
    assert "no job has run in" in out


def test_it_answers_without_the_engine(finished: Folder) -> None:
    code = "import sys; from tideglass.cli.main import main\ntry: main()\nfinally: print(*sys.modules, "
    "file=sys.stderr)"
    arguments = ["why", "--run-dir", str(finished.directory.path)]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    loaded = {module.split(".")[0] for module in done.stderr.split()}
    assert not loaded & {"pyspark", "duckdb", "pyarrow", "numpy", "pandas", "lark", "pydantic"}
