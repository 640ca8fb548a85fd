"""Every case file holds on the in-process driver."""

from __future__ import annotations

import pytest

from support.cases import Case, case_paths, compare_outputs, load, parameters
from tideglass.core.errors import EvaluationError, InputError, QueryError
from tideglass.testing import run

CASES = [load(path) for path in case_paths()]


def named(case: Case) -> str:
    return case.name


def rows(case: Case) -> dict[str, list[dict[str, object]]]:
    return run(case.query, case.inputs, case.reference, case.settings, case.functions)


@pytest.mark.parametrize("case", parameters(c for c in CASES if c.expected))
def test_the_engine_gives_the_rows_of_the_case(case: Case) -> None:
    assert compare_outputs(rows(case), case.expected) == []


@pytest.mark.parametrize("case", parameters(c for c in CASES if c.runtime_error))
def test_the_engine_stops_where_the_case_says_so(case: Case) -> None:
    with pytest.raises((EvaluationError, InputError)) as raised:
        rows(case)
    assert case.place_and_code in str(raised.value)
    assert [part for part in case.told if part not in str(raised.value)] == []


@pytest.mark.parametrize("case", [c for c in CASES if c.fails_to_compile], ids=named)
def test_the_compiler_refuses_what_the_case_says(case: Case) -> None:
    with pytest.raises(QueryError) as raised:
        rows(case)
    found = [(d.code, raised.value.source.line_column(d.span.start)) for d in raised.value.diagnostics]
    assert case.error_code in [code for code, _ in found]
    if case.error_place is not None:
        assert (case.error_code, case.error_place) in found
    assert [part for part in case.told if part not in str(raised.value)] == []


def test_substreams_of_several_partitions_need_the_partition_among_their_keys() -> None:
    given = [{"t": "2026-01-01T00:00:01Z", "k": 1, "_partition": n} for n in (0, 1)]
    query = "SELECT k, COUNT(*) AS n FROM i TIMESTAMP BY t OVER {} GROUP BY {}, TumblingWindow(second, 5)"
    with pytest.raises(InputError, match="SUBSTREAMS_NEED_PARTITION"):
        run(query.format("k", "k"), {"i": given})
    assert len(run(query.format("k, PartitionId", "k, PartitionId"), {"i": given})["output"]) == 2
