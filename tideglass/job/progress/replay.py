"""The replay switch: when a generation with topics goes on from what it reads again to what is new.

A generation that goes on after the rows of another one reads again what that one had read, and emits no row
meanwhile. All its inputs go on to new events in one batch. A job without topics needs no such switch: its one
source knows what all inputs have read (`spark.file_source`).

state        what holds                                                         on disk
REPLAYING    events are read again and no row is emitted                        neither of the files below
RELEASED     all of them are read; the sources may read new events, and with    the file `replayed`
             the next batch Spark logs that the ingresses know it
LIVE         new events are read and rows are emitted                           `replayed` in `reached.json`
ENDING       a run that is to end has read everything; its last batch reports   the file `ending`
             the end of the inputs

A generation that reads nothing again is LIVE from its start. The two states the sources must see are files,
since the sources live in other processes. A state is written after what led to it is committed: a run that
was killed between the two finds the earlier state and makes the same move again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from tideglass.job.progress.topic_progress import TopicProgress
from tideglass.storage import AnyPath, StoragePath, storage_path


class ReplayState(Enum):
    """Where a generation is between reading again and its end."""

    REPLAYING = auto()
    RELEASED = auto()
    LIVE = auto()
    ENDING = auto()

    @property
    def emits(self) -> bool:
        """Whether the rows of the last batch were emitted."""
        return self in (ReplayState.LIVE, ReplayState.ENDING)


class ReplayEvent(Enum):
    """What moves a generation on."""

    #: A batch is committed after which everything is read that the generation before had read.
    READ_AGAIN = auto()
    #: A batch is committed in which the ingresses were told so.
    REPORTED = auto()
    #: A run that is to end has read all there was.
    READ_ALL = auto()


#: The next state by state and event; an event that is not here leaves the state as it is.
REPLAY_MOVES: Mapping[tuple[ReplayState, ReplayEvent], ReplayState] = {
    (ReplayState.REPLAYING, ReplayEvent.READ_AGAIN): ReplayState.RELEASED,
    (ReplayState.RELEASED, ReplayEvent.REPORTED): ReplayState.LIVE,
    (ReplayState.LIVE, ReplayEvent.READ_ALL): ReplayState.ENDING,
}

#: The file of a state in the generation's directory. LIVE is written with `TopicProgress`.
_FILES = {ReplayState.RELEASED: "replayed", ReplayState.ENDING: "ending"}


def next_state(state: ReplayState, event: ReplayEvent) -> ReplayState:
    """The state after an event.

    >>> next_state(ReplayState.LIVE, ReplayEvent.READ_ALL)
    <ReplayState.ENDING: 4>
    >>> next_state(ReplayState.REPLAYING, ReplayEvent.READ_ALL)
    <ReplayState.REPLAYING: 1>
    """
    return REPLAY_MOVES.get((state, event), state)


def released_file(generation: AnyPath) -> StoragePath:
    """The file that is there from ReplayState.RELEASED on, for the sources to look at."""
    return storage_path(generation) / _FILES[ReplayState.RELEASED]


def read_replay_state(generation: AnyPath, progress: TopicProgress, *, reads_again: bool) -> ReplayState:
    """The state of a generation on disk.

    progress: what its directory holds of it.
    reads_again: whether it had anything to read again when it started.
    """
    if reads_again and not progress.replayed:
        released = released_file(generation).exists()
        return ReplayState.RELEASED if released else ReplayState.REPLAYING
    ending = (storage_path(generation) / _FILES[ReplayState.ENDING]).exists()
    return ReplayState.ENDING if ending else ReplayState.LIVE


def write_replay_state(generation: AnyPath, state: ReplayState) -> None:
    """Write down a state that `next_state` gave, for the sources and for later runs."""
    if state in _FILES:
        (storage_path(generation) / _FILES[state]).create(b"")
