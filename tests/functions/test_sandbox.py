"""What a script does wrong costs its own process, and a named row; the process of the job goes on."""

from __future__ import annotations

import time

import pytest

from support.depth import some
from tideglass.core.errors import EvaluationError
from tideglass.core.limits import Limits
from tideglass.functions.sandbox import Exceeded, Sandbox, ScriptError, sandbox
from tideglass.testing import run

pytestmark = pytest.mark.long

LIMITS = {"javascript_seconds": "1", "javascript_megabytes": "64"}
ROWS = [{"_arrival": "2026-01-01T00:00:01Z", "n": n} for n in range(1, 6)]

TOO_MUCH_MEMORY = {
    "texts": "const a = []; for (;;) a.push('x'.repeat(1 << 20).split(''));",
    "a text": "return 'x'.repeat((1 << 29) - 100).split('').length;",
    "typed arrays": "const a = []; for (;;) a.push(new Uint8Array(1 << 26).fill(1));",
    "one array": "return new Array(1 << 27).fill(1.5).map(x => x + 1).length;",
}


def f(body: str) -> dict[str, str]:
    return {"f": f"function f(n) {{ if (n === 3) {{ {body} }} return n; }}"}


def called(body: str, on_error: str = "stop") -> list[object]:
    settings = {**LIMITS, "on_error": on_error}
    return [
        row["n"] for row in run("SELECT UDF.f(n) AS n FROM i", {"i": ROWS}, None, settings, f(body))["output"]
    ]


@pytest.mark.parametrize("name", some(TOO_MUCH_MEMORY, 2))
def test_memory_without_bound_stops_the_job_at_its_row_and_not_the_process(name: str) -> None:
    with pytest.raises(
        EvaluationError, match=r"UDF\.f (took more than 64 MB|did not end within 1 s)"
    ) as raised:
        called(TOO_MUCH_MEMORY[name])
    assert 'the row has {"n":3}' in str(raised.value)
    assert "JavaScriptMemoryInMB" in str(raised.value) or "JavaScriptTimeoutInSeconds" in str(raised.value)
    assert called("return 7;") == [1, 2, 7, 4, 5]


def test_a_row_that_takes_too_much_can_be_left_out() -> None:
    assert called(TOO_MUCH_MEMORY["typed arrays"], "drop") == [1, 2, 4, 5]


@pytest.mark.parametrize(
    "body",
    some(
        [
            "for (;;);",
            "return /(a+)+$/.test('a'.repeat(60) + 'b');",
            "Promise.resolve().then(() => { for (;;); }); return 1;",
        ],
        3,
    ),
)
def test_a_call_that_does_not_end_is_told_in_time(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tideglass.functions.sandbox._GRACE_SECONDS", 3)  # the last one takes all of it
    began = time.monotonic()
    with pytest.raises(EvaluationError, match=r"UDF\.f did not end within 1 s"):
        called(body)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("function g() { return 1 + g(); } return g();", "Maximum call stack size exceeded"),
        ("const a = []; a.push(a); return a;", "circular"),
        ("return {toJSON() { return undefined; }};", "cannot be written as JSON"),
        ("throw {toString() { throw 1; }};", "an error without a text"),
        ("let a = {}; for (let i = 0; i < 600; i++) a = {a}; return a;", "nested more than 500 deep"),
    ],
)
def test_what_a_script_does_wrong_is_told_with_its_row(body: str, said: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        called(body)
    assert said in str(raised.value)
    assert 'the row has {"n":3}' in str(raised.value)


def test_many_slow_calls_are_no_call_that_does_not_end() -> None:
    rows = [{"_arrival": "2026-01-01T00:00:01Z", "n": n} for n in range(40)]
    script = {
        "f": "function f(n) { let x = 1; for (let i = 0; i < 4e7; i++) x = x * 31 | 0; return n + x - x; }"
    }
    found = run("SELECT UDF.f(n) AS n FROM i", {"i": rows}, None, {"javascript_seconds": "1"}, script)
    assert len(found["output"]) == 40


def test_an_aggregate_names_method_window_and_event() -> None:
    script = (
        "function main() { this.init = () => {}; this.computeResult = () => 1;"
        " this.accumulate = n => { if (n === 3) for (;;); }; }"
    )
    with pytest.raises(EvaluationError) as raised:
        run(
            "SELECT uda.f(n) AS n FROM i GROUP BY TumblingWindow(minute, 1)",
            {"i": ROWS},
            None,
            LIMITS,
            {"f": script},
        )
    assert "uda.f failed in accumulate, in the window that ends at 2026-01-01T00:01:00" in str(raised.value)
    assert "did not end within 1 s" in str(raised.value)
    assert "it is event 2 of partition 0" in str(raised.value)


def test_a_regular_expression_that_tries_too_many_ways_names_its_row() -> None:
    rows = [{**ROWS[0], "s": "a" * length + "b"} for length in (3, 60)]
    with pytest.raises(EvaluationError, match="REGEXMATCH did not end within 1 s") as raised:
        run("SELECT REGEXMATCH(s, '^(a+)+$') AS at FROM i", {"i": rows}, None, LIMITS)
    assert "aaaab" in str(raised.value)


def test_a_script_that_does_not_end_when_it_is_defined_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tideglass.functions.sandbox._GRACE_SECONDS", 2)
    with pytest.raises(EvaluationError, match=r"The script of UDF\.f did not end"):
        run("SELECT UDF.f(n) AS n FROM i", {"i": ROWS}, None, LIMITS, {"f": "for (;;); function f() {}"})


def test_a_process_that_has_ended_is_replaced() -> None:
    made = Sandbox(Limits(1, 64), lambda: ["var tideglass = {at: null, slice: 0}; 0"])
    assert made.run("'[1]'") == [1]
    made.close()
    assert made.run("'[2]'") == [2]
    with pytest.raises(ScriptError, match="SyntaxError"):
        made.define("function (")
    with pytest.raises(Exceeded) as exceeded:
        made.run("for (;;);")
    assert exceeded.value.limit == "time"
    made.close()


def test_other_limits_have_another_process_and_the_same_limits_the_same() -> None:
    first = sandbox(Limits(3, 64), list)
    assert sandbox(Limits(3, 64), list) is first
    assert sandbox(Limits(4, 64), list) is not first
