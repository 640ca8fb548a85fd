"""Times of a job directory as a browser can hold them: milliseconds of the epoch in place of ticks.

Ticks of 100 ns exceed 2^53 and would lose digits in JavaScript. This is the one place that converts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from tideglass.core.time import LAST_TICKS, ORIGIN_TICKS, TICKS_PER_MILLISECOND

END_OF_INPUT = "end of input"
_TICKS, _MILLISECONDS = "_ticks", "_ms"


def epoch_ms(ticks: int | None) -> float | str | None:
    """A time in ticks as milliseconds of the epoch; None: no time, a text: past all times.

    >>> epoch_ms(15_000), epoch_ms(None), epoch_ms(2**62), epoch_ms(-(2**62))
    (1.5, None, 'end of input', None)
    """
    if ticks is None or ticks < ORIGIN_TICKS:
        return None
    return END_OF_INPUT if ticks > LAST_TICKS else ticks / TICKS_PER_MILLISECOND


def with_epoch_times(content: Any) -> Any:
    """JSON values of a job directory with every `x_ticks` as `x_ms`, at any depth.

    >>> with_epoch_times({"oldest_ticks": 10_000, "percentiles_ticks": {"95": None}, "rows": [{"n": 1}]})
    {'oldest_ms': 1.0, 'percentiles_ms': {'95': None}, 'rows': [{'n': 1}]}
    """
    match content:
        case dict():
            found: dict[str, Any] = {}
            for key, value in cast("Mapping[str, Any]", content).items():
                if key.endswith(_TICKS):
                    found[key.removesuffix(_TICKS) + _MILLISECONDS] = _times(value)
                elif isinstance(value, (dict, list, tuple)):
                    found[key] = with_epoch_times(value)
                else:
                    found[key] = value
            return found
        case list() | tuple():
            return [with_epoch_times(each) for each in cast("Sequence[Any]", content)]
        case _:
            return content


def _times(value: Any) -> Any:
    """A time, or a list or an object of times."""
    match value:
        case dict():
            return {key: _times(each) for key, each in cast("Mapping[str, Any]", value).items()}
        case list() | tuple():
            return [_times(each) for each in cast("Sequence[Any]", value)]
        case _:
            return epoch_ms(value)
