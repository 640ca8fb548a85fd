"""A function of a project computes: it has no files, no network, no modules, whatever it is called."""

from __future__ import annotations

import pytest

from tideglass.core.errors import EvaluationError
from tideglass.testing import run

NAMES = (
    "require process Deno Bun fetch XMLHttpRequest WebSocket Worker importScripts "
    "load read readFile print os std"
)


def result_of(script: str, name: str = "f") -> object:
    (row,) = run(f"SELECT UDF.[{name}](a) AS x INTO o FROM i", {"i": [{"a": 1}]}, functions={name: script})[
        "o"
    ]
    return row["x"]


@pytest.mark.parametrize("name", NAMES.split())
def test_a_function_knows_nothing_but_the_language(name):
    assert result_of(f"function main(a) {{ return typeof {name}; }}") == "undefined"


def test_a_function_can_reach_no_module():
    """A module is promised at most; what a promise gives never comes."""
    script = "function main(a) { try { import('fs'); return 'promised'; } catch (e) { return 'refused'; } }"
    assert result_of(script) in ("promised", "refused")
    late = "function main(a) { var x = 'nothing'; import('fs').then(m => { x = m; }); return x; }"
    assert result_of(late) == "nothing"
    with pytest.raises(EvaluationError):
        result_of("import fs from 'fs'; function main(a) { return 1; }")


@pytest.mark.parametrize(
    "name", ["__proto__", "constructor", "../../evil", "a'; 1 //", "é", "toString", " x "]
)
def test_the_name_of_a_function_is_a_name(name):
    assert result_of("function main(a) { return a + 1; }", name) == 2


@pytest.mark.parametrize(
    "moment",
    [
        *("Date.now()", "new Date()", "Date()", "new Date().getTime()", "Math.random()"),
        *("new (new Date(0).constructor)()", "new (class extends Date {})()", "Reflect.construct(Date, [])"),
        *("new Intl.DateTimeFormat('en').format()", "new Intl.DateTimeFormat('en').formatToParts()"),
        "Object.getPrototypeOf(new Date(0)).constructor.now()",
    ],
)
def test_a_function_has_no_clock_and_nothing_left_to_chance(moment: str):
    with pytest.raises(EvaluationError, match="is another at every run; pass a time of the query"):
        result_of(f"function main(a) {{ return String({moment}); }}")


def test_a_function_may_be_without_temporal_and_performance_but_not_without_dates():
    assert (
        result_of("function main(a) { return typeof Temporal + typeof performance; }") == "undefinedundefined"
    )
    made = "new Date(2020, 1, 29), new Date('2020-02-29T00:00:00Z'), new Date(Date.UTC(2020, 1, 29))"
    script = (
        f"function main(a) {{ return [{made}].every(d => d instanceof Date && d.getFullYear() === 2020); }}"
    )
    assert result_of(script) is True
    assert result_of("function main(a) { return new Date(Date.parse('2020-02-29T00:00:00Z')); }") == (
        "2020-02-29T00:00:00.0000000Z"
    )
    text = "new Intl.DateTimeFormat('en', {timeZone: 'UTC'}).format(new Date(0))"
    assert result_of(f"function main(a) {{ return {text}; }}") == "1/1/1970"
