"""The names others may use: one that comes, goes or is renamed is a choice, seen in review."""

from __future__ import annotations

from pathlib import Path

import tideglass
from tideglass import testing


def test_the_package_offers_these_names_and_each_can_be_loaded() -> None:
    assert tideglass.__all__ == [
        "FrameInput",
        "Job",
        "await_termination",
        "configure",
        "explained",
        "kafka",
        "metrics",
        "query",
        "start",
        "write",
    ]
    assert all(callable(getattr(tideglass, name)) for name in tideglass.__all__)


def test_the_test_kit_offers_these_names_and_each_is_there() -> None:
    assert testing.__all__ == [
        "ARRIVAL_FIELD",
        "PARTITION_FIELD",
        "chunk_of_rows",
        "compile_rows",
        "input_infos",
        "partition_batches",
        "rows_in_order",
        "run",
    ]
    assert all(hasattr(testing, name) for name in testing.__all__)


def test_the_metrics_of_a_query_stay_what_they_are_when_a_module_of_a_job_is_loaded() -> None:
    """A package of that name would take the place of the function once it is imported."""
    import tideglass.telemetry.prometheus

    assert tideglass.telemetry.prometheus.exposition
    assert callable(tideglass.metrics)
    assert not [name for name in tideglass.__all__ if (Path(tideglass.__file__).parent / name).is_dir()]
