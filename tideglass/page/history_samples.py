"""The history of a job as the page sends it: bounded, with the times of its samples as milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideglass.core.documents import to_plain
from tideglass.job.directory import JobDirectory
from tideglass.job.report.history import HistorySample, read_history
from tideglass.page.answers import now_ms
from tideglass.page.epoch_times import epoch_ms, with_epoch_times


def history_answer(directory: JobDirectory, *, after_ms: int | None, most: int) -> dict[str, Any]:
    """About `most` samples later than `after_ms`, oldest first."""
    samples = thinned(read_history(directory, after_ms), most)
    return {"samples": [_shown_sample(each) for each in samples], "now_ms": now_ms()}


def thinned(samples: Sequence[HistorySample], most: int) -> list[HistorySample]:
    """At most about `most` samples: the newer half of them whole, of the older ones evenly many.

    The first and last ones of runs stay.

    >>> found = thinned([HistorySample(at_ms, 1, "Running") for at_ms in range(12)], 6)
    >>> [each.at_ms for each in found]
    [0, 3, 6, 9, 10, 11]
    """
    if len(samples) <= most:
        return list(samples)
    newest = samples[len(samples) - most // 2 :]
    older = samples[: len(samples) - len(newest)]
    step = -(-len(older) // max(1, most - len(newest)))
    return [
        *(each for place, each in enumerate(older) if place % step == 0 or each.mark is not None),
        *newest,
    ]


def _shown_sample(sample: HistorySample) -> dict[str, Any]:
    """A sample as JSON; the times inside its arrays have no names to be known by."""
    return {
        **with_epoch_times(to_plain(sample)),
        "partitions": [
            (
                each.input,
                each.reader,
                each.partition,
                epoch_ms(each.watermark_ticks),
                epoch_ms(each.event_time_ticks),
                epoch_ms(each.last_arrival_ticks),
                each.events,
            )
            for each in sample.partitions
        ],
        "steps": [
            (
                each.operator,
                epoch_ms(each.input_watermark_ticks),
                epoch_ms(each.output_watermark_ticks),
                each.rows_in,
                each.rows_out,
            )
            for each in sample.steps
        ],
        "early_panes": [
            (each.operator, each.percent, epoch_ms(each.watermark_ticks), each.rows_out)
            for each in sample.early_panes
        ],
    }
