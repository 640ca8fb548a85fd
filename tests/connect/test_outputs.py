"""Output directories: staged, committed once, read back; and the console."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from tideglass.connect.console import show
from tideglass.connect.files.output import FileOutput
from tideglass.connect.files.written_rows import read_rows
from tideglass.connect.output import Batch
from tideglass.core.errors import OutputError
from tideglass.core.time import parse_ticks
from tideglass.core.types import Type, field
from tideglass.storage import StoragePath, storage_path


def a_table(**columns: tuple[list[Any], Type]) -> pa.Table:
    fields = [field(name.replace("payload", "$payload"), type_) for name, (_, type_) in columns.items()]
    return pa.table(
        [pa.array(values, f.type) for (values, _), f in zip(columns.values(), fields, strict=True)],
        schema=pa.schema(fields),
    )


MOMENT = parse_ticks("2019-10-07T00:03:55.1234567Z")
ROWS = a_table(
    i=([2**63 - 1, None], Type.BIGINT),
    f=([0.1, float("nan")], Type.FLOAT),
    s=(['a,"b"\n', "é"], Type.NVARCHAR),
    t=([MOMENT, None], Type.DATETIME),
    b=([True, False], Type.BIT),
    r=(['{"x":[1,2.5]}', None], Type.RECORD),
    l=(["[1]", "[]"], Type.ARRAY),
    v=(["i1", "sone"], Type.VARIANT),
    n=([None, None], Type.NULL),
    payload=(['{"i":5,"z":1}', '{"y":"q","z":"2"}'], Type.RECORD),
)


def an_output(path: Path | StoragePath, form: str = "json", **more: Any) -> FileOutput:
    return FileOutput("out", path, form, **more)


def write(output: FileOutput, *parts: pa.Table, batch: int = 0) -> None:
    output.publish(Batch(1, batch), [output.stage(rows, str(part)) for part, rows in enumerate(parts)])


def numbers(*values: int) -> pa.Table:
    return a_table(n=(list(values), Type.BIGINT))


def visible(path: Path | StoragePath) -> list[int]:
    return [row["n"] for row in read_rows(path)] if path.exists() else []


def test_json_rows_hold_listed_columns_then_the_rest_of_the_event(tmp_path: Path):
    write(an_output(tmp_path), ROWS)
    first, second = next(tmp_path.glob("part-00000000-0-*.json")).read_text().splitlines()
    assert first == (
        '{"i":9223372036854775807,"f":0.1,"s":"a,\\"b\\"\\n","t":"2019-10-07T00:03:55.1234567Z","b":true,'
        '"r":{"x":[1,2.5]},"l":[1],"v":1,"n":null,"z":1}'
    )
    assert json.loads(second) == {
        "i": None, "f": None, "s": "é", "t": None, "b": False, "r": None, "l": [], "v": "one",
        "n": None, "y": "q", "z": "2",
    }  # fmt: skip
    assert read_rows(tmp_path) == [json.loads(first), json.loads(second)]


def test_csv_writes_records_as_their_types_name(tmp_path: Path):
    write(an_output(tmp_path, "csv", delimiter=";"), ROWS)
    first, second = read_rows(tmp_path, ";")
    assert first == {
        "i": "9223372036854775807", "f": "0.1", "s": 'a,"b"\n', "t": "2019-10-07T00:03:55.1234567Z",
        "b": "true",
        "r": "Record", "l": "Array", "v": "1", "n": "", "z": "1", "y": "",
    }  # fmt: skip
    assert second == {
        "i": "", "f": "NaN", "s": "é", "t": "", "b": "false", "r": "", "l": "Array",
        "v": "one", "n": "", "z": "2", "y": "q",
    }  # fmt: skip


def test_parquet_keeps_types_and_all_seven_digits(tmp_path: Path):
    write(an_output(tmp_path, "parquet"), ROWS)
    table = pq.read_table(next(tmp_path.glob("part-00000000-0-*.parquet")))
    types = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert types == {
        "i": "int64", "f": "double", "s": "string", "t": "timestamp[ns, tz=UTC]", "b": "bool", "r": "string",
        "l": "string", "v": "string", "n": "string", "z": "string", "y": "string",
    }  # fmt: skip
    assert table["t"].cast(pa.int64()).to_pylist() == [MOMENT * 100, None]
    assert table["v"].to_pylist() == ["1", '"one"']
    assert [row["t"] for row in read_rows(tmp_path)] == ["2019-10-07T00:03:55.1234567Z", None]


def test_avro_is_read_back_with_the_types_of_its_values(tmp_path: Path):
    write(an_output(tmp_path, "avro"), numbers(1, 2))
    write(an_output(tmp_path, "avro"), a_table(v=(["i1", "sone"], Type.VARIANT)), batch=1)
    assert read_rows(tmp_path) == [{"n": 1}, {"n": 2}, {"v": 1}, {"v": "one"}]


def test_parquet_writes_instants_outside_nanoseconds_as_text(tmp_path: Path):
    table = a_table(t=([parse_ticks("1600-01-01T00:00:00Z"), MOMENT], Type.DATETIME))
    write(an_output(tmp_path, "parquet"), table)
    assert [row["t"] for row in read_rows(tmp_path)] == [
        "1600-01-01T00:00:00.0000000Z",
        "2019-10-07T00:03:55.1234567Z",
    ]


def test_staged_rows_are_not_visible_before_they_are_published(place: StoragePath):
    output = an_output(place)
    staged = output.stage(numbers(1), "i/0")
    assert visible(place) == []
    output.publish(Batch(1, 0), [staged])
    assert visible(place) == [1]


def test_a_batch_run_again_replaces_what_it_wrote(place: StoragePath):
    output = an_output(place)
    write(output, numbers(1), numbers(2))
    write(output, numbers(3), batch=1)
    write(output, numbers(1, 2))
    assert visible(place) == [1, 2, 3]


def test_a_batch_can_be_published_again_after_a_crash_in_its_middle(place: StoragePath):
    output = an_output(place)
    staged = [output.stage(numbers(n), f"i/{n}") for n in range(3)]
    staged_file = place / "_staging" / staged[0]["temporary"][0].as_py()
    staged_file.move(place / "part-00000000-i-0.json")
    for _ in range(2):
        output.publish(Batch(1, 0), staged)
        assert visible(place) == [0, 1, 2]


def test_what_dead_attempts_left_is_removed(place: StoragePath):
    output = an_output(place)
    output.stage(numbers(9), "i/0")
    write(output, numbers(1))
    assert not [*(place / "_staging").iterdir()]


def test_rows_of_batches_after_the_last_one_are_withdrawn(place: StoragePath):
    output = an_output(place)
    for number in range(3):
        write(output, numbers(number), batch=number)
    output.publish(Batch(2, 5), [output.stage(numbers(5), "i/0")])
    output.withdraw(Batch(1, 0))
    assert visible(place) == [0, 5]
    output.withdraw(Batch(1, -1))
    assert visible(place) == [5]


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "avro"])
def test_each_format_is_the_same_wherever_it_is_written(tmp_path: Path, place: StoragePath, form: str):
    plain = ROWS.drop_columns(["payload"]) if "payload" in ROWS.column_names else ROWS
    for folder in (tmp_path / "beside", place):
        write(an_output(folder, form), plain)
    (one,), (other,) = ([*storage_path(each).glob("part-*")] for each in (tmp_path / "beside", place))
    assert (one.name, one.read_bytes()) == (other.name, other.read_bytes())


def test_a_batch_without_rows_writes_no_file(place: StoragePath):
    write(an_output(place / "out"), numbers())
    assert not (place / "out").exists()


def test_a_staged_file_that_is_gone_is_an_error(place: StoragePath):
    output = an_output(place)
    staged = output.stage(numbers(1), "i/0")
    output.clear(rows=False)
    with pytest.raises(OutputError, match="is gone"):
        output.publish(Batch(1, 0), [staged])


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        an_output(tmp_path / "file").stage(numbers(1), "i/0")


@pytest.mark.parametrize(
    "text", ['[{"n":1},{"n":2}]', '{"n":1}\n{"n":2}\n', '{"n":1},{"n":2}', '\ufeff{"n":1},\r\n{"n":2},\n']
)
def test_result_files_of_other_tools_are_read(tmp_path: Path, text: str):
    (tmp_path / "out.json").write_text(text, newline="")
    assert visible(tmp_path / "out.json") == [1, 2]


def test_results_that_are_not_there_or_no_json_are_errors(tmp_path: Path):
    with pytest.raises(OutputError, match="no results"):
        read_rows(tmp_path / "x")
    (tmp_path / "x.json").write_text('{"a":')
    with pytest.raises(OutputError, match="holds no JSON rows"):
        read_rows(tmp_path / "x.json")


def test_the_console_shows_the_first_rows_and_how_many_there_are():
    out = io.StringIO()
    table = a_table(n=([1, None, 3], Type.BIGINT), payload=(['{"deep":{"a":1}}'] * 3, Type.RECORD))
    show(table, "out", 7, Console(file=out, width=100), rows_shown=2)
    text = out.getvalue()
    assert "out, batch 7: 3 rows" in text
    assert '{"a": 1}' in text
    assert "NULL" in text
    assert "3 │" not in text
    show(table.slice(0, 0), "out", 8, Console(file=out, width=100))
    assert out.getvalue() == text
