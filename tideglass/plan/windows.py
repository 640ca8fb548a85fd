"""Kinds of windows (`asa.md` 3): a class and a row of the table each.

The binder makes windows by the table, placement and `explain` ask them, the window aggregate loads their
kernels. How a kind is written is a row of `lang.windows.FORMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tideglass.core.tags import tag
from tideglass.core.time import TICKS_PER_DAY, duration_text
from tideglass.plan.expressions import Expr

#: No window, session or LIMIT DURATION may be longer (`asa.md` 3.1).
LONGEST_TICKS = 7 * TICKS_PER_DAY


class Window:
    """A window of a GROUP BY; `id` is the one it has inside `Windows()`, None for none."""

    __slots__ = ()
    id: str | None

    @property
    def span_ticks(self) -> int:
        """How long before its end an event may lie that still decides its result."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The window in words, with its lengths."""
        raise NotImplementedError

    @property
    def windows_per_event(self) -> int:
        """How many windows of fixed ends an event is in at most."""
        return 1

    @property
    def scope(self) -> tuple[Expr, ...] | None:
        """What its rows are partitioned by before any grouping; empty for one window over all rows.

        None where rows of different groups have nothing to do with each other.
        """
        return None


@tag("Hopping")
@dataclass(frozen=True, slots=True)
class Hopping(Window):
    """Windows (end - size, end] at every end = k * hop + offset from tick zero; tumbling is hop == size.

    size_ticks: its length
    hop_ticks: from one end to the next
    offset_ticks: the ends are multiples of the hop plus this
    id: of Window('id', ...); None without an id
    """

    size_ticks: int
    hop_ticks: int
    offset_ticks: int = 0
    id: str | None = None

    @property
    def span_ticks(self) -> int:
        return self.size_ticks

    @property
    def text(self) -> str:
        if self.hop_ticks == self.size_ticks:
            return f"tumbling {duration_text(self.size_ticks)}"
        return f"hopping {duration_text(self.size_ticks)} by {duration_text(self.hop_ticks)}"

    @property
    def windows_per_event(self) -> int:
        return -(-self.size_ticks // self.hop_ticks)


@tag("Sliding")
@dataclass(frozen=True, slots=True)
class Sliding(Window):
    """Windows (t - size, t] wherever a row enters or leaves (`asa.md` 3.4)."""

    size_ticks: int
    id: str | None = None

    @property
    def span_ticks(self) -> int:
        return self.size_ticks

    @property
    def text(self) -> str:
        return f"sliding {duration_text(self.size_ticks)}"


@tag("Session")
@dataclass(frozen=True, slots=True)
class Session(Window):
    """A session window.

    timeout_ticks: a session ends when no event follows for so long
    max_duration_ticks: no session is longer
    partition_by: each combination of these values has sessions of its own; None: one session over all rows
        of the step, whatever their group (`asa.md` 3.5)
    id: of Window('id', ...); None without an id
    """

    timeout_ticks: int
    max_duration_ticks: int
    partition_by: tuple[Expr, ...] | None = None
    id: str | None = None

    @property
    def span_ticks(self) -> int:
        """Twice its maximum duration + timeout, capped at 7 days + one checking interval (A-22).

        A session can reach almost twice its maximum duration and depends on the one before it.

        >>> Session(timeout_ticks=5, max_duration_ticks=10).span_ticks
        25
        """
        longest_ticks = 2 * self.max_duration_ticks + self.timeout_ticks
        return min(longest_ticks, LONGEST_TICKS + self.max_duration_ticks)

    @property
    def text(self) -> str:
        longest = duration_text(self.max_duration_ticks)
        return f"session timeout {duration_text(self.timeout_ticks)}, at most {longest}"

    @property
    def scope(self) -> tuple[Expr, ...]:
        return self.partition_by or ()


@tag("Snapshot")
@dataclass(frozen=True, slots=True)
class Snapshot(Window):
    """All rows of one timestamp (`asa.md` 3.6)."""

    id: str | None = None

    @property
    def span_ticks(self) -> int:
        return 0

    @property
    def text(self) -> str:
        return "snapshot"


@dataclass(frozen=True, slots=True)
class WindowKind:
    """A row of the table.

    window: its class
    make: a window of its lengths in ticks by the roles of `lang.windows`, of the expressions of OVER
        (PARTITION BY ...), None for none, and of its id
    kernel: module and class below `tideglass.operators.windows`, loaded when a job runs
    """

    window: type[Window]
    make: Callable[[Mapping[str, int], tuple[Expr, ...] | None, str | None], Window]
    kernel: str


def _hopping(lengths: Mapping[str, int], keys: tuple[Expr, ...] | None, id_: str | None) -> Window:
    size_ticks, offset_ticks = lengths["size"], lengths.get("offset", 0)
    hop_ticks = lengths.get("hop", size_ticks)
    if abs(offset_ticks) > LONGEST_TICKS:  # whole hops do not move the grid, but leave int64
        offset_ticks %= hop_ticks
    return Hopping(size_ticks, hop_ticks, offset_ticks, id_)


#: By the name of `lang.windows.FORMS`; the snapshot is written as System.Timestamp().
WINDOW_KINDS: Mapping[str, WindowKind] = {
    "tumbling": WindowKind(Hopping, _hopping, "hopping.PaneWindow"),
    "hopping": WindowKind(Hopping, _hopping, "hopping.PaneWindow"),
    "sliding": WindowKind(
        Sliding, lambda lengths, keys, id_: Sliding(lengths["size"], id_), "sliding.SlidingWindow"
    ),
    "session": WindowKind(
        Session,
        lambda lengths, keys, id_: Session(lengths["timeout"], lengths["max_duration"], keys, id_),
        "session.SessionWindow",
    ),
    "snapshot": WindowKind(Snapshot, lambda lengths, keys, id_: Snapshot(id_), "hopping.PaneWindow"),
}


def kernel_of(window: Window) -> str:
    """Module and class of the kernel of a window, as in the table."""
    return next(kind.kernel for kind in WINDOW_KINDS.values() if kind.window is type(window))
