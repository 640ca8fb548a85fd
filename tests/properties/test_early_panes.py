"""Early panes have the rows the oracle says, whatever the batches are (`asa.md` 11.6, decision 32)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from oracle import run as oracle_run
from oracle.strategies import Trial, filters, grid_windows, havings, iso, selections, settings
from support.against_oracle import check_rows, reproducible, the_oracle
from support.depth import depth
from support.harness import Manner, manners

PANE = "System.Pane() AS pane, System.Timestamp() AS at"


@st.composite
def crowded_events(draw: st.DrawFn, partitions: int) -> list[dict[str, Any]]:
    """So many events a second that percentiles are known, some of them far behind."""
    rows: list[dict[str, Any]] = []
    arrival = 0.0
    for _ in range(draw(st.sampled_from([12, 20, 30, 40]))):
        arrival += draw(st.sampled_from([0, 0, 0, 0, 0.5, 1, 3]))
        ahead = draw(st.sampled_from([0, 0, 0.5, 1, 3, -0.5, -1, -2, -6, -20, 400]))
        time = iso(arrival + ahead, draw(st.sampled_from([0, 0, 0, 1, -1])))
        rows.append(
            {
                "_arrival": iso(arrival),
                "_partition": draw(st.integers(0, partitions - 1)),
                "t": draw(st.sampled_from([time] * 15 + [None])),
                "k": draw(st.sampled_from(["a", "a", "b", None])),
                "v": draw(st.sampled_from([0, 1, 2.5, -3, None])),
                "s": draw(st.sampled_from(["", "alpha", None])),
                "m": draw(st.sampled_from([1, 7])),
                "b": True,
            }
        )
    return rows


@st.composite
def trials(draw: st.DrawFn) -> Trial:
    """A window with early panes over one input or two, or over a step that only selects; and one without."""
    percents = draw(st.sampled_from([[33, 66], [66, 33, 33], [50], [1, 99]]))
    window = draw(grid_windows())
    if draw(st.booleans()):
        window = f"Windows(Window('one', {window}), Window('two', {draw(grid_windows())}))"
    source = draw(st.sampled_from(["e TIMESTAMP BY t", "step", "both"]))
    key = draw(st.sampled_from(["", "k, "]))
    stamps = draw(st.sampled_from([{}, {}, {"early": "first element"}]))
    query = (
        f"WITH step AS (SELECT * FROM e TIMESTAMP BY t{draw(filters())}), "
        "both AS (SELECT k, v, s, m FROM e TIMESTAMP BY t UNION SELECT k, v, s, m FROM f TIMESTAMP BY t) "
        f"SELECT {key}{draw(selections(ordered=False))}, System.Window().Id AS w, {PANE} INTO early "
        f"FROM {source}{'' if source == 'both' else draw(filters())} GROUP BY {key}{window}{draw(havings())} "
        f"SELECT COUNT(*) AS n, {PANE} INTO plain FROM e TIMESTAMP BY t GROUP BY {draw(grid_windows())}"
    )
    inputs = {name: draw(crowded_events(partitions=draw(st.sampled_from([1, 1, 3])))) for name in "ef"}
    chosen = {**draw(settings()), "early_panes": {"early": percents}}
    return Trial(query, inputs, chosen | ({"output_timestamps": stamps} if stamps else {}))


@given(trials(), manners())
@examples(reproducible, max_examples=depth(60))
def test_early_panes_are_the_oracles_in_any_batches_and_restarts(trial: Trial, manner: Manner) -> None:
    check_rows(trial, manner)


@given(trials())
@examples(reproducible, max_examples=depth(30))
def test_final_results_are_those_of_a_job_without_early_panes(trial: Trial) -> None:
    early = the_oracle(trial)
    plain = {name: value for name, value in trial.settings.items() if name != "early_panes"}
    if early is not None:
        expected = oracle_run(trial.query, trial.inputs, settings=plain)
        final = [row for row in early["early"] if row["pane"] == "final"]
        assert final == expected["early"]
        check_rows(Trial(trial.query, trial.inputs, plain), Manner())
