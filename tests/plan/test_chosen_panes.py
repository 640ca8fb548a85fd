"""Early panes chosen in settings: which windows take them, and what the others say."""

from __future__ import annotations

import pytest

from tideglass.compile import compile_query
from tideglass.core.errors import ProjectError, Source
from tideglass.plan.explain import explain_stages
from tideglass.plan.fingerprint import state_parts
from tideglass.plan.topology import Topology
from tideglass.project.settings import from_job_config, from_options

QUERY = """
WITH plain AS (SELECT k, v FROM e TIMESTAMP BY t WHERE v > 1),
perMinute AS (SELECT k, COUNT(*) AS n FROM plain GROUP BY k, TumblingWindow(minute, 1)),
many AS (SELECT n FROM perMinute WHERE n > 1),
shared AS (SELECT k, COUNT(*) AS n FROM plain GROUP BY k, TumblingWindow(minute, 1)),
above AS (SELECT SUM(n) AS n FROM shared GROUP BY TumblingWindow(minute, 5)),
sessions AS (SELECT COUNT(*) AS n FROM plain GROUP BY SessionWindow(second, 5, 60)),
arrivals AS (SELECT COUNT(*) AS n FROM f GROUP BY TumblingWindow(minute, 1)),
joined AS (SELECT a.k FROM plain a JOIN plain b ON DATEDIFF(second, a, b) BETWEEN 0 AND 5),
pairs AS (SELECT COUNT(*) AS n FROM joined GROUP BY TumblingWindow(minute, 1))
SELECT n INTO o FROM many UNION SELECT n FROM above UNION SELECT n FROM sessions
UNION SELECT n FROM arrivals UNION SELECT n FROM pairs
SELECT k, COUNT(*) AS n INTO direct FROM e TIMESTAMP BY t GROUP BY k, HoppingWindow(minute, 2, 1)
"""


def topology(panes: dict[str, list[int]]) -> Topology:
    return compile_query(Source(QUERY), from_options({"early_panes": panes}), key_groups=2).topology


def test_panes_are_ascending_and_the_reader_makes_what_all_windows_of_it_need() -> None:
    made = topology({"perMinute": [66, 33, 66], "direct": [50]})
    assert made.readers[0].policies.early_percents == (33, 50, 66)
    assert made.readers[1].policies.early_percents == ()
    texts = [text for stage in explain_stages(made) for text in stage.operators]
    assert any("with early panes at 33 %, 66 % of the events in flight" in text for text in texts)


def test_a_job_without_early_panes_has_the_state_it_had() -> None:
    assert state_parts(topology({})) != state_parts(topology({"direct": [50]}))
    query = QUERY.replace("AS n INTO direct", "AS n, System.Pane() AS p INTO direct")
    named = compile_query(Source(query), from_options({}), key_groups=2).topology
    assert state_parts(named) == state_parts(topology({}))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("perMinit", "no step or output of the query has this name; did you mean 'perMinute'?"),
        ("plain", "the step has no window that could have early panes"),
        ("shared", "a later step computes with its rows, of which each window then has several"),
        ("above", "early panes of a window that reads anything but inputs, such as another window"),
        ("sessions", "early panes of windows that are neither tumbling nor hopping are understood, not yet"),
        ("arrivals", "'f' is read without TIMESTAMP BY: its events are in order"),
        ("joined", "early panes of a step other than a plain GROUP BY are understood, not yet supported"),
        ("pairs", "early panes of a window that reads anything but inputs"),
    ],
)
def test_what_cannot_have_early_panes_says_why(name: str, reason: str) -> None:
    with pytest.raises(ProjectError) as raised:
        topology({name: [33]})
    assert f"settings: early panes of {name!r}: " in str(raised.value)
    assert reason in str(raised.value)


def test_substreams_have_no_early_panes_yet() -> None:
    query = "SELECT k, COUNT(*) AS n FROM e TIMESTAMP BY t OVER k GROUP BY k, TumblingWindow(second, 5)"
    with pytest.raises(ProjectError, match=r"early panes with substreams \(OVER\) are understood"):
        compile_query(Source(query), from_options({"early_panes": {"output": [33]}}), key_groups=2)


def test_settings_take_percentages_by_step() -> None:
    config = from_job_config({"earlyPanes": {"perMinute": [33, 66]}})
    assert config.early_panes == (("perMinute", (33, 66)),)
    assert config.of_rows()["early_panes"] == {"perMinute": [33, 66]}
    assert "early_panes" not in from_job_config({}).of_rows()
    for wrong in (33, {"a": 33}, {"a": []}, {"a": [0]}, {"a": [100]}, {"a": [33.5]}, {"a": [True]}):
        with pytest.raises(ProjectError, match=r"JobConfig.json: EarlyPanes is .* percentages from 1 to 99"):
            from_job_config({"EarlyPanes": wrong})
