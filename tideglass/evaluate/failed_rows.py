"""Rows left out because they made the query fail, by operator: how many, and why one of them did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Failed:
    """Rows an operator left out since the run began, and what was wrong with the first."""

    count: int
    message: str

    def and_then(self, later: Failed) -> Failed:
        return Failed(self.count + later.count, self.message)


def added(before: Mapping[int, Failed], later: Mapping[int, Failed]) -> dict[int, Failed]:
    """The rows of both, by operator."""
    result = dict(before)
    for op_id, failed in later.items():
        result[op_id] = result[op_id].and_then(failed) if op_id in result else failed
    return result


def to_plain(failed: Mapping[int, Failed]) -> dict[str, Any]:
    """As values JSON can hold."""
    return {str(op_id): [each.count, each.message] for op_id, each in failed.items()}


def of_plain(values: Mapping[str, Any]) -> dict[int, Failed]:
    """What `to_plain` gave."""
    return {int(op_id): Failed(count, message) for op_id, (count, message) in values.items()}
