"""How much work one row may ask for (`docs/limits.md`).

A limit changes no row: a row that reaches it fails, so it stops the job or is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from tideglass.core.tags import tag


@tag("Limits")
@dataclass(frozen=True, slots=True)
class Limits:
    """What a call of JavaScript, or a match of a regular expression, may take.

    javascript_seconds: of one call for one row, or of one method for one event of an aggregate
    javascript_megabytes: of all that JavaScript holds in a process
    """

    javascript_seconds: int = 10
    javascript_megabytes: int = 512
