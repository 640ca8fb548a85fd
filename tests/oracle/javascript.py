"""User-defined functions in JavaScript, one call, or one group of events, at a time (`asa.md` 4.11)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from py_mini_racer import JSEvalException, MiniRacer

from .values import LEAST_BIGINT, MOST_BIGINT, Instant, OracleError, Value, plain

#: Milliseconds from 0001-01-01 to 1970-01-01.
UNIX_EPOCH_MS = 62_135_596_800_000


class Functions:
    """The functions of a job by name; each script declares one function."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.sources = sources
        self.context = MiniRacer() if sources else None

    def source(self, name: str) -> str:
        found = next((text for known, text in self.sources.items() if known.lower() == name.lower()), None)
        if found is None:
            raise OracleError(f"no function is named {name}")
        return found

    def call(self, name: str, arguments: Sequence[Value]) -> Value:
        declared = re.search(r"function\s+([\w$]+)", self.source(name))
        if declared is None:
            raise OracleError(f"UDF.{name} has no function")
        passed = ", ".join(map(javascript_of, arguments))
        return self.result(name, f"const r = {declared[1]}({passed});")

    def aggregate(self, name: str, events: Sequence[tuple[Value, Instant]]) -> Value:
        """A new instance of main is given every event of a group."""
        given = "".join(f"m.accumulate({javascript_of(v)}, {javascript_of(t)});" for v, t in events)
        return self.result(name, f"const m = new main(); m.init(); {given} const r = m.computeResult();")

    def result(self, name: str, work: str) -> Value:
        """The value of `r` behind some work with what the script declares."""
        assert self.context is not None
        try:
            text = self.context.eval(
                f"(function () {{ {self.source(name)}; {work}"
                "  if (r === undefined || r === null) return 'null';"
                "  if (typeof r === 'number' && !isFinite(r)) throw new Error('no value');"
                "  if (r instanceof Date) return JSON.stringify({date: r.getTime()});"
                "  return JSON.stringify({value: r, float: typeof r === 'number' && !Number.isInteger(r)});"
                "})()",
                timeout_sec=2,  # what takes longer has no value
            )
        except JSEvalException as error:
            raise OracleError(f"{name}: {error}") from None
        try:
            found = json.dumps(json.loads(str(text)), ensure_ascii=False)
            # half of a surrogate pair is no character
            return value_of(json.loads(found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")))
        except RecursionError:
            raise OracleError(f"{name}: the result is nested too deep") from None


def javascript_of(value: Value) -> str:
    if isinstance(value, Instant):
        return f"new Date({value.ticks // 10_000 - UNIX_EPOCH_MS})"
    return json.dumps(plain(value))


def value_of(result: Any) -> Value:
    """Integral numbers in the range of bigint are bigint, others float; a Date is a datetime."""
    if result is None:
        return None
    if "date" in result:
        return Instant((result["date"] + UNIX_EPOCH_MS) * 10_000)
    value = result.get("value")
    if isinstance(value, int | float) and not isinstance(value, bool):
        whole = value == int(value) and LEAST_BIGINT <= value <= MOST_BIGINT
        return int(value) if whole else float(value)
    return value
