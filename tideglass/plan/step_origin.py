"""Which step of the query an operator was placed for: nothing that is computed depends on it."""

from __future__ import annotations

from dataclasses import dataclass

from tideglass.core.errors import Span


@dataclass(frozen=True, slots=True)
class StepOrigin:
    """The part of the query an operator was placed for.

    step: a step of WITH, an output, or for a scan the input
    span: where it stands in the text: the name of a step, the statement of an output, the source of FROM
    """

    step: str
    span: Span
