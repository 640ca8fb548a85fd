"""Job settings from JobConfig.json and from the test kit's options (asa.md 1.4)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideglass.core.errors import ProjectError
from tideglass.core.limits import Limits
from tideglass.core.time import TICKS_PER_MILLISECOND, TICKS_PER_MINUTE, TICKS_PER_SECOND
from tideglass.project.settings import (
    JobSettings,
    format_duration,
    from_job_config,
    from_options,
    parse_duration_ticks,
)


def test_without_options_late_is_unlimited_and_the_rest_is_as_in_the_service():
    assert from_options(None) == JobSettings(
        late_arrival_ticks=None,
        out_of_order_ticks=0,
        policy="adjust",
        early_arrival_ticks=5 * TICKS_PER_MINUTE,
        compatibility_level="1.2",
    )


def test_options_are_durations_and_words():
    settings = from_options(
        {"late_arrival": "5s", "out_of_order": "1m", "policy": "drop", "early_arrival": "none"}
    )
    assert settings.late_arrival_ticks == 5 * TICKS_PER_SECOND
    assert settings.out_of_order_ticks == TICKS_PER_MINUTE
    assert settings.policy == "drop"
    assert settings.early_arrival_ticks is None


def test_everything_wrong_with_the_options_is_said_at_once():
    with pytest.raises(ProjectError) as caught:
        from_options(
            {
                "late_arival": "5s",
                "out_of_order": "10m",
                "policy": "ignore",
                "early_arrival": "soon",
                "late_arrival": "21d",
                "compatibility_level": "2",
            }
        )
    lines = str(caught.value).splitlines()
    assert len(lines) == 6
    assert "did you mean 'late_arrival'?" in lines[0]
    assert all(line.startswith("settings: ") for line in lines)


@pytest.mark.parametrize(
    ("text", "ticks"),
    [
        ("0s", 0),
        ("5s", 5 * TICKS_PER_SECOND),
        ("1h30m", 90 * TICKS_PER_MINUTE),
        ("250ms", 250 * TICKS_PER_MILLISECOND),
        ("1.5s", 1500 * TICKS_PER_MILLISECOND),
        ("none", None),
    ],
)
def test_durations(text, ticks):
    assert parse_duration_ticks(text) == ticks


@pytest.mark.parametrize("text", ["", "5", "5 s", "s", "-5s", "5s!", "5x", "1e3s"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration_ticks(text)


@given(st.integers(0, 10**15))
def test_a_duration_reads_back_as_it_was_written(milliseconds):
    ticks = milliseconds * TICKS_PER_MILLISECOND
    assert parse_duration_ticks(format_duration(ticks)) == ticks


def test_an_absent_late_tolerance_and_minus_one_are_no_limit():
    assert from_job_config({}).late_arrival_ticks is None
    assert from_job_config({"EventsLateArrivalMaxDelayInSeconds": -1}).late_arrival_ticks is None


def test_the_largest_tolerances_are_accepted_and_one_second_more_is_not():
    largest = {
        "EventsLateArrivalMaxDelayInSeconds": 1_814_399,
        "EventsOutOfOrderMaxDelayInSeconds": 599,
    }
    assert from_job_config(largest).out_of_order_ticks == 599 * TICKS_PER_SECOND
    for key, value in largest.items():
        with pytest.raises(ProjectError, match=f"JobConfig.json: {key} is {value + 1}, it must be"):
            from_job_config({key: value + 1})


@pytest.mark.parametrize("value", [True, 1.5, "x", [], -2])
def test_a_tolerance_that_is_no_whole_number_of_seconds_is_refused(value):
    with pytest.raises(ProjectError, match="whole number of seconds"):
        from_job_config({"EventsLateArrivalMaxDelayInSeconds": value})


def test_the_limits_of_javascript_are_settings():
    limited = from_job_config({"JavaScriptTimeoutInSeconds": 3, "JavaScriptMemoryInMB": "100"})
    assert limited.limits == Limits(3, 100)
    assert limited.to_json() == from_job_config({}).to_json()  # a job goes on with its state
    assert from_options({"javascript_seconds": "3", "javascript_megabytes": "100"}).limits == Limits(3, 100)
    with pytest.raises(ProjectError) as caught:
        from_job_config({"JavaScriptTimeoutInSeconds": 0, "JavaScriptMemoryInMB": "much"})
    assert str(caught.value).splitlines() == [
        "JobConfig.json: JavaScriptTimeoutInSeconds is 0, "
        "it must be a whole number of seconds from 1 to 3600",
        "JobConfig.json: JavaScriptMemoryInMB is 'much', it must be a whole number of MB from 32 to 65536",
    ]
    with pytest.raises(ProjectError, match="javascript_seconds is '0', it must be a whole number, 1 to 3600"):
        from_options({"javascript_seconds": "0"})
