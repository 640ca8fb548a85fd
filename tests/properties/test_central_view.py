"""The central view of watermarks over random runs: it shows what the ranges report (`asa.md` 11.8)."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from oracle.strategies import Trial, trials
from support.against_oracle import reproducible
from support.depth import depth
from support.generated import chains_of_steps
from support.harness import Manner, manners, play
from support.watermark_laws import reported
from tideglass.core.errors import EvaluationError, QueryError
from tideglass.core.time import BEFORE_ALL_TICKS
from tideglass.ingress.reports import BatchReports
from tideglass.job.report.status import StepStatus
from tideglass.job.report.watermark_view import Lease, WatermarkView
from tideglass.plan.topology import Topology


@given(st.one_of(trials(), chains_of_steps()), manners(), st.lists(st.integers(0, 99), min_size=1))
@examples(reproducible, max_examples=depth(40))
def test_each_step_is_where_its_slowest_range_is_whatever_else_is_reported_late(
    trial: Trial, manner: Manner, stale: list[int]
) -> None:
    try:
        played = play(
            trial.query,
            trial.inputs,
            trial.settings,
            manner,
            partitions=trial.partitions,
            reference=trial.reference,
            functions=trial.functions,
        )
    except (EvaluationError, QueryError):
        return
    topology, reports = played.compiled.topology, played.reports
    view = WatermarkView(topology)
    before: Sequence[StepStatus] = view.steps()
    for number, batch in enumerate(reports):
        view.take(batch, Lease(1, number))
        now = view.steps()
        assert [each.output_watermark_ticks for each in now] == least_of_ranges(topology, batch)
        for step, earlier in zip(now, before, strict=True):
            check_laws(step, earlier, now)
        # Another attempt at this batch, and a batch before it, which have lost their leases.
        earlier_batch = stale[number % len(stale)] % (number + 1)
        view.take(reports[earlier_batch], Lease(1, earlier_batch))
        view.take(reports[-1], Lease(0, len(reports)))
        assert view.steps() == now
        before = now


def least_of_ranges(topology: Topology, batch: BatchReports) -> list[int | None]:
    """By operator the least output watermark of its ranges, all of which report in a batch of this driver."""
    found: list[int | None] = []
    for op in topology.ops:
        ticks = [
            operators[op.id].output_watermark_ticks
            for (level, _), operators in reported(batch).items()
            if level == op.level and op.id in operators
        ]
        found.append(None if BEFORE_ALL_TICKS in ticks or not ticks else min(ticks))
    return found


def check_laws(step: StepStatus, earlier: StepStatus, steps: Sequence[StepStatus]) -> None:
    """Rows are never ahead of what they are made of, and no watermark goes back or becomes unknown again."""
    output_ticks, input_ticks = step.output_watermark_ticks, step.input_watermark_ticks
    if earlier.output_watermark_ticks is not None:
        assert output_ticks is not None
        assert output_ticks >= earlier.output_watermark_ticks
    if output_ticks is not None:
        assert input_ticks is not None
        assert output_ticks <= input_ticks
        assert (step.latency_seconds or 0) >= 0
        for source in step.sources:
            source_ticks = steps[source].output_watermark_ticks
            assert source_ticks is not None
            assert input_ticks <= source_ticks
    assert step.rows_in >= earlier.rows_in
    assert step.rows_out >= earlier.rows_out
    assert len(step.holders) <= 5
