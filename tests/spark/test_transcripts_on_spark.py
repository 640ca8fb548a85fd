"""Transcripts hold on Spark, of every kind one; a query each, so not all of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.cases import FOLDER, load
from support.spark_player import SparkPlayer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "name",
    [
        "partitions/one_that_appears_holds_back_the_others",
        "partitions/appear_event_by_event",
        "restarts/in_the_middle_of_a_window",
        "restarts/a_join_over_a_restart",
        "metrics/counts_go_on_after_a_restart",
        "time/watermark_after_each_batch",
        "time/substreams_close_their_windows_apart",
        "watermarks/percentile_66_of_the_books_example",
        "early_panes/a_window_at_33_66_and_100_percent",
        "output_timestamps/sessions_stamped_with_their_start",
        "output_timestamps/overlapping_windows_stamped_after_the_window_before",
    ],
)
def test_the_transcript_holds_on_spark(name: str, spark: SparkSession, tmp_path: Path) -> None:
    case = load(FOLDER / f"{name}.case")
    assert case.transcript is not None
    assert SparkPlayer(case, spark, tmp_path).play(case.transcript.steps) == []
