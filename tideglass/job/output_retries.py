"""How often and how long an output that does not take its rows is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

#: Of a run to the end of its inputs, which somebody waits for.
ONCE_TIMEOUT_SECONDS = 300.0
#: The longest time an output may ask to be left alone.
_MOST_RETRY_AFTER_SECONDS = 900.0
#: Up to so much of a pause is left out, by output and try, so that many outputs do not come at one moment.
_SPREAD = 0.2


@dataclass(frozen=True, slots=True)
class Retries:
    """Pauses that double from `first_seconds` to `most_seconds`.

    timeout_seconds: after so long without success the run ends; None: only a stop ends it.
    """

    first_seconds: float = 0.5
    most_seconds: float = 60.0
    timeout_seconds: float | None = None

    def pause_seconds(self, output: str, tries: int, asked_seconds: float | None = None) -> float:
        """How long to wait after so many tries that failed, from 1; the same whenever it is asked.

        asked_seconds: what the output asks for.

        >>> [round(Retries().pause_seconds("o", tries), 2) for tries in (1, 2, 3, 20)]
        [0.42, 0.94, 1.94, 52.48]
        """
        pause = min(self.most_seconds, self.first_seconds * 2.0 ** min(tries - 1, 60))
        pause *= 1 - _SPREAD * crc32(f"{output}:{tries}".encode()) / 2**32
        return max(pause, min(asked_seconds or 0.0, _MOST_RETRY_AFTER_SECONDS))
