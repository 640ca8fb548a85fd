"""A task that reports where its time went: its messages, and after them one of the kind PROFILE."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tideglass.core.documents import Plain
from tideglass.core.profile import WAITING, Recorder, part, recording
from tideglass.engine.messages import Kind, Message
from tideglass.plan.topology import Topology


@dataclass(frozen=True, slots=True)
class TaskProfile:
    """Where the time of a task went.

    level: of the task; 0 is the scan.
    cpu_nanoseconds: what its process used of a core.
    nanoseconds: of the clock, by part.
    calls: how often each part was entered.
    """

    level: int
    cpu_nanoseconds: int
    nanoseconds: Mapping[str, int]
    calls: Mapping[str, int]


TASK_PROFILE: Plain[TaskProfile] = Plain(TaskProfile)


def profiled(messages: Iterable[Message], topology: Topology, level: int, sender: str) -> Iterator[Message]:
    """What a task of a level sends, and at last the message with its profile.

    The time until Spark takes each message is a part of its own.
    """
    with recording() as recorder:
        for message in messages:
            with part(WAITING):
                yield message
    yield profile_message(recorder, topology, level, sender)


def profile_message(recorder: Recorder, topology: Topology, level: int, sender: str) -> Message:
    """A recording as a message for the driver."""
    profile = TaskProfile(level, recorder.cpu_nanoseconds, recorder.nanoseconds, recorder.calls)
    body = TASK_PROFILE.body(profile)
    return Message(0, topology.levels + 1, Kind.PROFILE, level, sender, body)
