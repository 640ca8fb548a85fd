"""A query may be nested so deep and no deeper; what passes the check runs (`bind.depth`)."""

from __future__ import annotations

import pytest

from support.depth import some
from support.nested import FUNCTIONS, LIMITED, ROWS, UNLIMITED
from tideglass.bind.depth import DEEPEST
from tideglass.core.errors import QueryError
from tideglass.testing import run


@pytest.mark.parametrize("shape", some(LIMITED))
def test_what_is_as_deep_as_the_limit_runs(shape: str) -> None:
    query, around = LIMITED[shape]
    assert run(query(DEEPEST - around), {"i": ROWS}, functions=FUNCTIONS).keys() == {"output"}


@pytest.mark.parametrize("shape", some(LIMITED))
@pytest.mark.parametrize("depth", [DEEPEST + 2, 20 * DEEPEST])
def test_what_is_deeper_is_refused_with_the_limit(shape: str, depth: int) -> None:
    query, _ = LIMITED[shape]
    with pytest.raises(QueryError) as caught:
        run(query(depth), {"i": ROWS}, functions=FUNCTIONS)
    told = str(caught.value)
    assert "[TOO_DEEP]" in told
    assert f"levels deep; at most {DEEPEST} are possible" in told
    assert "hint: compute a part of it in a WITH step" in told


@pytest.mark.parametrize("shape", UNLIMITED)
@pytest.mark.parametrize("count", [40, 250])
def test_what_stands_side_by_side_may_be_long(shape: str, count: int) -> None:
    (rows,) = run(UNLIMITED[shape](count), {"i": ROWS}).values()
    assert rows


def test_each_expression_that_is_too_deep_is_told_at_its_place() -> None:
    deep = "+".join(["v"] * 200)
    with pytest.raises(QueryError) as caught:
        run(f"SELECT v, {deep} AS a FROM i WHERE {deep} > 1", {"i": ROWS})
    places = [(found.span.start, found.message) for found in caught.value.diagnostics]
    assert places == [
        (10, "the expression is nested 200 levels deep; at most 100 are possible"),
        (10 + len(deep) + len(" AS a FROM i WHERE "),
         "the expression is nested 201 levels deep; at most 100 are possible"),
    ]  # fmt: skip
