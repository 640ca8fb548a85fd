"""What docs/extending.md shows is added to a copy of tideglass as it stands there, and used."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.extensions import ROOT, extended, run_python

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return extended(tmp_path_factory.mktemp("extended"))


#: Runs a query of the test kit, and prints the rows of its one output.
KIT = """
import json
from tideglass.testing import run
rows, = run({query!r}, {inputs!r}).values()
print(json.dumps(rows))
"""


def rows_of(environment: dict[str, str], folder: Path, query: str, events: list[dict[str, object]]) -> object:
    code = KIT.format(query=query, inputs={"x": events})
    return json.loads(run_python(code, folder, environment))


def test_the_scalar_function_is_called(environment: dict[str, str], tmp_path: Path) -> None:
    query = "SELECT CBRT(a) AS b INTO o FROM x TIMESTAMP BY t"
    events = [{"t": "2026-01-01T00:00:00Z", "a": 8}, {"t": "2026-01-01T00:00:01Z", "a": None}]
    assert rows_of(environment, tmp_path, query, events) == [{"b": 2.0}, {"b": None}]


def test_the_window_grows_by_its_step_and_begins_anew(environment: dict[str, str], tmp_path: Path) -> None:
    query = (
        "SELECT COUNT(*) AS n, System.Timestamp() AS at INTO o FROM x TIMESTAMP BY t "
        "GROUP BY CumulativeWindow(second, 6, 2)"
    )
    events = [{"t": f"2026-01-01T00:00:0{second}Z"} for second in (1, 3, 6, 7)]
    rows = rows_of(environment, tmp_path, query, events)
    assert isinstance(rows, list)
    assert [(row["n"], row["at"][17:19]) for row in rows] == [
        *[(1, "02"), (2, "04"), (3, "06")],
        *[(1, "08"), (1, "10"), (1, "12")],
    ]


#: Writes rows in the format, reads them back as a job does, and prints both.
FORMAT = """
from pathlib import Path
import pyarrow as pa
from support.local_run import rows_of_job
from tideglass.connect.files.output import FileOutput
from tideglass.connect.output import Batch
from tideglass.core.types import Type, field
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.project.project import load_project

schema = pa.schema([field("device", Type.NVARCHAR), field("n", Type.BIGINT)])
output = FileOutput("o", Path("rows"), "ltsv")
staged = output.stage(pa.table([["a", None], [1, 2]], schema=schema), "x/0")
output.publish(Batch(1, 0), [staged])
(file,) = Path("rows").glob("part-*.ltsv")
with file.open("a") as lines:
    lines.write("n:3\\n")
print(repr(file.read_text()))
Path("job.asaql").write_text("SELECT device, n INTO o FROM x")
job = plan_job(load_project(Path("job.asaql")), RunOptions(inputs={"x": Path("rows")}, once=True))
print(rows_of_job(job)["o"])
"""


def test_the_format_is_written_and_read(environment: dict[str, str], tmp_path: Path) -> None:
    path = os.pathsep.join((environment["PYTHONPATH"], str(ROOT / "tests")))
    written, read = run_python(FORMAT, tmp_path, environment | {"PYTHONPATH": path}).splitlines()
    assert written == repr("device:a\tn:1\nn:2\nn:3\n")
    assert read == str([{"device": d, "n": n} for d, n in (("a", "1"), (None, "2"), (None, "3"))])


def test_the_input_goes_on_where_it_was_and_the_output_has_each_row_once(
    environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = Path(environment["PYTHONPATH"].split(os.pathsep)[0])
    printed = run_python((ROOT / "tests/support/sqlite_job.py").read_text(), folder, environment).splitlines()
    rows = [f'{{"device":"a","temperature":{each}}}' for each in (31, 32, 33, 34)]
    assert printed == [str(rows[:2]), str(rows), str(rows[:2])]
