"""Output timestamps chosen in settings: which steps take which, what the plan and its fingerprints become."""

from __future__ import annotations

import pytest

from tideglass.compile import compile_query
from tideglass.core.errors import ProjectError, Source
from tideglass.plan.explain import explain_stages
from tideglass.plan.fingerprint import state_parts
from tideglass.plan.spans import hold_ticks
from tideglass.plan.topology import Topology
from tideglass.project.settings import from_job_config, from_options

QUERY = """
WITH perUser AS (SELECT u, COUNT(*) AS n FROM e TIMESTAMP BY t GROUP BY u, HoppingWindow(second, 30, 10)),
moving AS (SELECT u, COUNT(*) AS n FROM e TIMESTAMP BY t GROUP BY u, SlidingWindow(second, 5)),
clicked AS (SELECT q.u FROM q TIMESTAMP BY t JOIN c TIMESTAMP BY t
            ON q.u = c.u AND DATEDIFF(second, q, c) BETWEEN 0 AND 20),
tried AS (SELECT q.u FROM q TIMESTAMP BY t LEFT JOIN c TIMESTAMP BY t
          ON q.u = c.u AND DATEDIFF(second, q, c) BETWEEN 0 AND 20),
three AS (SELECT q.u FROM q TIMESTAMP BY t JOIN c TIMESTAMP BY t ON DATEDIFF(second, q, c) BETWEEN 0 AND 20
          JOIN e TIMESTAMP BY t ON DATEDIFF(second, q, e) BETWEEN 0 AND 20)
SELECT u, n INTO out FROM perUser
SELECT u INTO o2 FROM clicked UNION SELECT u FROM tried UNION SELECT u FROM three UNION SELECT u FROM moving
"""


def topology(stamps: dict[str, str]) -> Topology:
    return compile_query(Source(QUERY), from_options({"output_timestamps": stamps}), key_groups=2).topology


def test_a_choice_that_is_the_services_changes_nothing() -> None:
    assert topology({"perUser": "end of window"}) == topology({})


def test_another_choice_is_another_state_for_its_step_alone() -> None:
    plain, stamped = (set(state_parts(topology(s))) for s in ({}, {"PERUSER": "first element"}))
    assert len(plain - stamped) == len(stamped - plain) == 1
    assert stamped != set(state_parts(topology({"perUser": "first element after the window before"})))


def test_explain_names_the_choice() -> None:
    texts = [
        operator
        for stage in explain_stages(topology({"perUser": "first element", "clicked": "element of c"}))
        for operator in stage.operators
    ]
    assert sum("$k0, stamped with the first element" in text for text in texts) == 2
    assert any(text.endswith("; stamped with the element of the right source") for text in texts)


def test_a_start_reads_back_what_a_held_result_needs() -> None:
    settings = from_options({"output_timestamps": {"perUser": "first element", "clicked": "element of q"}})
    plan = compile_query(Source(QUERY), settings, key_groups=2).plan
    steps = {name: node.child for name, node in plan.steps}  # type: ignore[union-attr]
    assert hold_ticks(steps["perUser"]) == 300_000_000
    assert hold_ticks(steps["clicked"]) == 21 * 10_000_000 - 1
    assert hold_ticks(steps["moving"]) == 0


@pytest.mark.parametrize(
    ("name", "choice", "reason"),
    [
        ("perUsr", "first element", "no step or output of the query has this name; did you mean 'perUser'?"),
        (
            "perUser",
            "last element",
            "'last element' is no time of a window; known are 'end of window', 'first",
        ),
        (
            "perUser",
            "element of e",
            "is for a join; this step has a window, put the join into a step of its own",
        ),
        ("out", "first element", "the step has neither a window nor a join of streams"),
        (
            "moving",
            "first element",
            "a sliding window stamped with an element is understood, not yet supported",
        ),
        ("clicked", "first element", "is no time of a join; write 'element of' and the name of a source"),
        ("clicked", "element of d", "'d' is no source of the join; its sources are q and c"),
        ("tried", "element of c", "a row of a LEFT JOIN without a match has no element of 'c'"),
        (
            "three",
            "element of q",
            "a join of more than two streams stamped with an element is understood, not",
        ),
    ],
)
def test_what_no_step_can_be_stamped_with_is_refused(name: str, choice: str, reason: str) -> None:
    with pytest.raises(ProjectError) as raised:
        topology({name: choice})
    assert f"output timestamp of {name!r}: " in str(raised.value)
    assert reason in str(raised.value)


def test_all_wrong_choices_are_named_at_once() -> None:
    with pytest.raises(ProjectError) as raised:
        topology({"a": "first element", "out": "first element"})
    assert len(str(raised.value).splitlines()) == 2


def test_settings_take_an_object_of_texts() -> None:
    config = from_job_config({"outputTimestamps": {"perUser": "first element"}})
    assert config.output_timestamps == (("perUser", "first element"),)
    assert config.of_rows()["output_timestamps"] == {"perUser": "first element"}
    assert "output_timestamps" not in from_job_config({}).of_rows()
    for wrong in ("first element", {"perUser": 1}, ["perUser"]):
        with pytest.raises(ProjectError, match=r"JobConfig.json: OutputTimestamps is .* an object"):
            from_job_config({"OutputTimestamps": wrong})
        with pytest.raises(ProjectError, match=r"settings: output_timestamps is .* an object"):
            from_options({"output_timestamps": wrong})
