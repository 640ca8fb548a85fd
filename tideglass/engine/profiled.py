"""A task that says where its time went: its messages, and after them one of the kind PROFILE."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tideglass.core.profile import WAITING, Recorder, part, recording
from tideglass.engine.messages import Kind, Message, json_body
from tideglass.plan.topology import Topology


def profiled(messages: Iterable[Message], topology: Topology, level: int, sender: str) -> Iterator[Message]:
    """What a task of a level hands on, and at last the message with its profile.

    The time until each message has been taken is a part of its own.
    """
    with recording() as recorder:
        for message in messages:
            with part(WAITING):
                yield message
    yield profile_message(recorder, topology, level, sender)


def profile_message(recorder: Recorder, topology: Topology, level: int, sender: str) -> Message:
    """A recording as a message for the driver."""
    facts: dict[str, Any] = {
        "level": level,
        "cpu_nanoseconds": recorder.cpu_nanoseconds,
        "nanoseconds": recorder.nanoseconds,
        "calls": recorder.calls,
    }
    return Message(0, topology.levels + 1, Kind.PROFILE, level, sender, json_body(facts))
