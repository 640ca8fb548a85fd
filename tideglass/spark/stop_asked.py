"""How a batch says that it does not go on because the run is to stop; light, since Spark is not imported."""

from __future__ import annotations


class StopAsked(Exception):
    """Raised by a batch that is not to run, or not to go on waiting; a restart runs it first."""


def is_stop(text: str) -> bool:
    """Whether Spark's text of a failure tells of a StopAsked."""
    return f"{StopAsked.__module__}.{StopAsked.__name__}" in text
