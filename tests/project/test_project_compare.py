"""Test cases of a project, their rows and the comparison (asa.md 10.2, A-24)."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideglass.core.errors import ProjectError
from tideglass.project.compare import Difference, differences, same_value
from tideglass.project.test_cases import case_inputs, case_reference, judge, load_test_config, summary
from tideglass.project.test_rows import parse_csv_rows, parse_json_rows

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 1.0]), st.text("ab", max_size=2)
)
ROWS = st.lists(st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3), max_size=6)


@given(ROWS, st.randoms())
def test_order_does_not_count(rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert differences(rows, shuffled) == []


@given(ROWS, st.data())
def test_a_row_too_few_or_too_many_is_seen(rows, data):
    extra = data.draw(st.dictionaries(st.sampled_from("xyz"), VALUES))
    assert len(differences(rows, [*rows, extra])) == 1
    assert len(differences([*rows, extra], rows)) == 1


def test_numbers_are_equal_within_a_billionth_and_whole_numbers_exactly():
    assert differences([{"a": 1.0}], [{"a": 1.0 + 1e-12}]) == []
    assert len(differences([{"a": 1.0}], [{"a": 1.0 + 1e-6}])) == 1
    assert len(differences([{"a": 10**15}], [{"a": 10**15 + 1}])) == 1


def test_datetimes_differ_in_zeros_only():
    assert same_value("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.0000000Z")
    assert not same_value("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.0000001Z")


def test_ignored_fields_are_left_out_on_both_sides():
    assert differences([{"n": 1, "id": "a"}], [{"n": 1}], ["id"]) == []


def test_a_wrong_row_stands_beside_the_row_most_like_it():
    expected = [{"k": "a", "n": 1}, {"k": "b", "n": 2}]
    found = [{"k": "b", "n": 3}, {"k": "a", "n": 1}]
    assert differences(expected, found) == [Difference({"k": "b", "n": 2}, {"k": "b", "n": 3})]


@pytest.mark.parametrize(
    "text",
    [
        '[{"a":1},{"a":2}]',
        '{"a":1}\n{"a":2}\n',
        '{"a":1},\r\n{"a":2}',
        '[{"a":1}]\n[{"a":2}]',
        ' {"a":1} {"a":2} ',
    ],
)
def test_every_shape_of_a_result_file_is_read(text):
    assert parse_json_rows(text) == [{"a": 1}, {"a": 2}]


def test_a_damaged_row_is_named_by_its_place():
    with pytest.raises(ProjectError, match=r"out\.json: line 2, column 6: not JSON"):
        parse_json_rows('{"a": 1}\n{"a":}', "out.json")
    with pytest.raises(ProjectError, match="holds a number where a row"):
        parse_json_rows("[1]")


def test_csv_values_are_texts_and_a_ragged_row_is_an_error():
    assert parse_csv_rows('a;b\n1;"x;y"\n', delimiter=";") == [{"a": "1", "b": "x;y"}]
    with pytest.raises(ProjectError, match="row 2 has 1 values"):
        parse_csv_rows("a,b\n1\n")
    with pytest.raises(ProjectError, match="names 'a' twice"):
        parse_csv_rows("a,a\n1,2\n")


def write_case(folder: Path, expected: object, name: str = "out.json", **more: object) -> Path:
    (folder / "in.json").write_text('{"t": "2026-01-01T00:00:00Z", "v": 1}\n')
    (folder / name).write_text(expected if isinstance(expected, str) else json.dumps(expected))
    path = folder / "testConfig.json"
    content = {
        "Script": "",
        "TestCases": [
            {
                "Name": "one",
                "Inputs": [
                    {"InputAlias": "in", "Type": "Data Stream", "Format": "Json", "FilePath": "in.json"}
                    | {"ArrivalTimeField": "t", "ScriptType": "InputMock"}
                ],
                "ExpectedOutputs": [{"OutputAlias": "out", "FilePath": name, **more}],
            }
        ],
    }
    path.write_text(json.dumps(content))
    return path


def test_a_case_reads_its_inputs_with_their_arrival_times(tmp_path):
    case = load_test_config(write_case(tmp_path, [])).cases[0]
    instant = "2026-01-01T00:00:00Z"
    assert case_inputs(case) == {"in": [{"t": instant, "v": 1, "_arrival": instant}]}
    assert case_reference(case) == {}


def test_an_arrival_time_may_lie_in_a_record_and_be_missing(tmp_path):
    path = write_case(tmp_path, [])
    path.write_text(path.read_text().replace('"ArrivalTimeField": "t"', '"ArrivalTimeField": "meta.at"'))
    (tmp_path / "in.json").write_text('{"meta": {"at": "2026-01-01"}}\n{"meta": 1}\n')
    rows = case_inputs(load_test_config(path).cases[0])["in"]
    assert [row.get("_arrival") for row in rows] == ["2026-01-01", None]


def test_each_folder_of_an_input_is_a_partition_when_the_case_says_so(tmp_path):
    """Folders that are numbers keep them, others get what is left, as in a run."""
    path = write_case(tmp_path, [])
    for folder, file, value in (("7", "a", 1), ("JFK", "b", 3), ("JFK", "a", 2), ("LGA", "a", 4)):
        (tmp_path / "in" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / folder / f"{file}.json").write_text(json.dumps([{"v": value}]))
    by_folders = path.read_text().replace("in.json", "in")
    path.write_text(by_folders.replace('"ScriptType"', '"Partitions": "folders", "ScriptType"'))
    assert case_inputs(load_test_config(path).cases[0])["in"] == [
        {"v": 1, "_partition": 7},
        {"v": 2, "_partition": 0},
        {"v": 3, "_partition": 0},
        {"v": 4, "_partition": 1},
    ]
    path.write_text(by_folders)
    rows = case_inputs(load_test_config(path).cases[0])["in"]
    assert rows == [{"v": 1}, {"v": 2}, {"v": 3}, {"v": 4}]


@pytest.mark.parametrize(
    ("found", "more", "verdict", "passed"),
    [
        ({"out": [{"n": 1}]}, {}, "OutputMatched", True),
        ({"out": [{"n": 2}]}, {}, "OutputNotEqual", False),
        ({"out": [{"n": 2}]}, {"IgnoreFields": ["n"]}, "OutputMatched", True),
        ({}, {}, "OutputMissing", False),
        ({"out": [{"n": 2}]}, {"Required": False}, "OutputUnrequired", True),
    ],
)
def test_the_verdict_on_an_output(tmp_path, found, more, verdict, passed):
    case = load_test_config(write_case(tmp_path, [{"n": 1}], **more)).cases[0]
    result = judge(case, found)
    assert ([each.verdict for each in result.outputs], result.passed) == ([verdict], passed)


def test_an_output_nothing_is_expected_of_is_shown_and_fails_nothing(tmp_path):
    case = load_test_config(write_case(tmp_path, [])).cases[0]
    result = judge(case, {"out": [], "other": [{"a": 1}]})
    assert [each.verdict for each in result.outputs] == ["OutputMatched", "OutputUnexpected"]
    assert result.passed


def test_an_expected_output_may_be_csv(tmp_path):
    case = load_test_config(write_case(tmp_path, "n,k,flag\n0.30000000000001,a,true\n", "out.csv")).cases[0]
    assert judge(case, {"out": [{"n": 0.3, "k": "a", "flag": True}]}).passed
    assert not judge(case, {"out": [{"n": 0.4, "k": "a", "flag": True}]}).passed


def test_the_summary_has_the_fields_the_services_tools_write(tmp_path):
    case = load_test_config(write_case(tmp_path, [{"n": 1}])).cases[0]
    results = [judge(case, {"out": [{"n": 1}]}), judge(case, {"out": []})]
    written = summary(results, "q.asaql", "2026-01-01T00:00:00Z")
    assert (written["Total"], written["Passed"], written["Failed"], written["Script"]) == (2, 1, 1, "q.asaql")
    assert [result["Status"] for result in written["Results"]] == [0, 1]
    assert written["Results"][1]["OutputNotEqual"] == [
        {"OutputAlias": "out", "ExpectedOutput": [{"n": 1}], "Output": []}
    ]
    assert written["Results"][0]["OutputMissing"] == []


def test_all_problems_of_a_test_config_are_reported_at_once(tmp_path):
    path = tmp_path / "testConfig.json"
    case = {"Name": "a", "Inputs": [{"InputAlias": "in", "FilePath": "none.json"}], "ExpectedOutputs": 3}
    path.write_text(json.dumps({"Script": "none.asaql", "TestCases": [case, case, 5]}))
    with pytest.raises(ProjectError) as caught:
        load_test_config(path)
    message = str(caught.value)
    assert message.count("none.json, which does not exist") == 2
    assert '"Script" names none.asaql, which does not exist' in message
    assert message.count('"ExpectedOutputs" must be an array, is a number') == 2
    assert '"TestCases" holds a number where an object is expected' in message
    assert "two test cases are named 'a'" in message
