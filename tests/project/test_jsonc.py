"""Project files may have comments and trailing commas; anything else that is no JSON is told with the remedy."""

# ruff: noqa: E501 - a row of a table is a line

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tideglass.core.errors import ProjectError
from tideglass.project.jsonc import read_json
from tideglass.project.project import load_project

QUERY = "SELECT * INTO out FROM readings"
INPUT = """// the sample
{
    "InputAlias": "readings", /* as the query
                                 names it */
    "Type": "Data Stream",
    "Format": "Json",
    "FilePath": "../data/readings.json", // below the project
    "ScriptType": "InputMock",
}
"""


def project_with(folder: Path, settings: str, sample: str = INPUT) -> Path:
    for name, text in {
        "query.asaql": QUERY,
        "JobConfig.json": settings,
        "Inputs/Local_readings.json": sample,
        "data/readings.json": "[]",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_comments_and_trailing_commas_are_read_over(tmp_path: Path) -> None:
    settings = """{
        // five seconds
        "EventsLateArrivalMaxDelayInSeconds": 5, /* "EventsOutOfOrderMaxDelayInSeconds": 3, */
        "EventsOutOfOrderPolicy": "Drop", // , }
    }"""
    project = load_project(project_with(tmp_path, settings))
    assert project.settings.late_arrival_ticks == 50_000_000
    assert (project.settings.policy, project.settings.out_of_order_ticks) == ("drop", 0)
    assert project.inputs["readings"].path is not None


@pytest.mark.parametrize(
    "text",
    ['{"a": "http://x/*"}', '{"a": "x // y", "b": "\\\\"}', '["a,]", "\\",}", "/* b */"]', '{"a": [1, 2]}'],
)
def test_what_is_json_stays_what_it_is(text: str) -> None:
    assert read_json(text) == json.loads(text)
    assert read_json(text[:-1] + ", // end\n" + text[-1] + " /* end */") == json.loads(text)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("{'EventsOutOfOrderPolicy': 'Drop'}",
         'line 1, column 2: not JSON: Expecting property name enclosed in double quotes; names stand in double quotes: {"Name": "value"}'),
        ('{EventsOutOfOrderPolicy: "Drop"}',
         'line 1, column 2: not JSON: Expecting property name enclosed in double quotes; names stand in double quotes: {"Name": "value"}'),
        ('{\n  // policy\n  "EventsOutOfOrderPolicy": "Drop"\n  "Locale": "en"\n}',
         "line 4, column 3: not JSON: Expecting ',' delimiter; a comma or a quote is missing before it"),
        ('{"EventsOutOfOrderPolicy" = "Drop"}',
         "line 1, column 27: not JSON: Expecting ':' delimiter; a name and its value are joined by a colon: \"Name\": \"value\""),
        ('{"EventsOutOfOrderPolicy": Drop}',
         'line 1, column 28: not JSON: Expecting value; a value is missing, or a text without double quotes: "text", 1, true, false, null'),
        ('{"EventsOutOfOrderPolicy": "Drop}',
         'line 1, column 28: not JSON: Unterminated string starting at; end the text with "'),
        ('{"Path": "C:\\data"}', "line 1, column 13: not JSON: Invalid \\escape; write a backslash twice, as in C:\\\\data, or use / in paths"),
        ('{"EventsOutOfOrderPolicy": "Drop"}}', "line 1, column 35: not JSON: Extra data; one object {...} is all that a file holds"),
        ("{/* policy", 'line 1, column 2: not JSON: Expecting property name enclosed in double quotes; names stand in double quotes: {"Name": "value"}'),
        ('[{"EventsOutOfOrderPolicy": "Drop"}]', "holds an array where an object {...} is expected"),
    ],
)  # fmt: skip
def test_what_is_no_json_is_told_with_its_place_and_the_remedy(
    tmp_path: Path, settings: str, told: str
) -> None:
    with pytest.raises(ProjectError) as caught:
        load_project(project_with(tmp_path, settings))
    assert f"JobConfig.json: {told}" in str(caught.value)
