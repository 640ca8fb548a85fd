"""Places where a test lets the process die, as a machine would: without a word.

`TIDEGLASS_DIE_AT=<place>:<batch>` kills the process with SIGKILL when it comes to that place in that batch. A
place is `before-<step>` or `after-<step>` of a step of the commit or of `finish` (`job.commit`),
`before-publish-<output>` or `after-publish-<output>`, or `inside-publish-<output>` where an output has one.
For tests only; nothing else reads the variable.
"""

from __future__ import annotations

import os
import signal

DIE_AT = "TIDEGLASS_DIE_AT"


def failpoint(place: str, batch: int) -> None:
    """The process is at a place of a batch, by Spark's number."""
    asked = os.environ.get(DIE_AT)
    if asked is not None and asked == f"{place}:{batch}":
        die()


def die() -> None:
    """End this process at once; nothing of it is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)
