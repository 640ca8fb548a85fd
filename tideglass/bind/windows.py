"""The window of a GROUP BY: exactly one, which may be several under `Windows()` (`asa.md` 2.7, 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tideglass.bind.amounts import positive_ticks, signed_ticks
from tideglass.core.errors import Diagnostics, Span
from tideglass.core.time import TICKS_PER_SECOND
from tideglass.lang import nodes as tree
from tideglass.plan.expressions import Expr
from tideglass.plan.nodes import Hopping, Session, Sliding, Snapshot, Window
from tideglass.plan.spans import LONGEST_TICKS

BindExpr = Callable[[tree.Expr], Expr]

_WINDOW_HINT = (
    "add one to GROUP BY, such as TumblingWindow(minute, 1); "
    "System.Timestamp() alone groups rows of the same timestamp"
)


@dataclass(frozen=True, slots=True)
class SplitGroupBy:
    """GROUP BY taken apart: the member windows and the key expressions, as written."""

    windows: tuple[tree.WindowCall, ...]
    keys: tuple[tree.Expr, ...]


#: An event is in one window per hop. The longest window, seven days, may hop by the second.
MOST_WINDOWS_PER_EVENT = 1_000_000


def is_system_timestamp(node: tree.GroupItem) -> bool:
    """Whether `node` is `System.Timestamp()`."""
    if not isinstance(node, tree.Call):
        return False
    prefix = [name.text.casefold() for name in node.prefix]
    return prefix == ["system"] and node.name.text.casefold() == "timestamp"


def split_group_by(items: Sequence[tree.GroupItem], place: Span, diagnostics: Diagnostics) -> SplitGroupBy:
    """The window and the keys of GROUP BY; reports a missing or a second window.

    A bare System.Timestamp() is the window when there is no other, and a key beside another one.
    """
    windows: list[tree.WindowCall | tree.WindowsCall] = []
    stamps: list[tree.GroupItem] = []
    keys: list[tree.Expr] = []
    for item in items:
        if is_system_timestamp(item) or (isinstance(item, tree.WindowCall) and item.kind == "snapshot"):
            stamps.append(item)
        elif isinstance(item, tree.WindowCall | tree.WindowsCall):
            windows.append(item)
        else:
            keys.append(item)
    for second in windows[1:]:
        diagnostics.error(
            "TWO_WINDOWS",
            "GROUP BY has more than one window",
            second.span,
            "keep one, or compute several with Windows(...)",
        )
    if windows:
        if stamps:
            keys.append(tree.Call((tree.Name("System"),), tree.Name("Timestamp"), (), span=stamps[0].span))
        first = windows[0]
        members = first.members if isinstance(first, tree.WindowsCall) else (first,)
        return SplitGroupBy(members, tuple(keys))
    if stamps:
        return SplitGroupBy((tree.WindowCall("snapshot", (), span=stamps[0].span),), tuple(keys))
    diagnostics.error("WINDOW_MISSING", "a window must be specified", place, _WINDOW_HINT)
    return SplitGroupBy((), tuple(keys))


def bind_windows(
    members: Sequence[tree.WindowCall], bind_key: BindExpr, diagnostics: Diagnostics
) -> tuple[Window, ...]:
    """The members as windows in ticks; checks that ids are given to all or none and are unique."""
    _check_ids(members, diagnostics)
    bound = [_bind_window(member, bind_key, diagnostics) for member in members]
    return tuple(window for window in bound if window is not None)


def _check_ids(members: Sequence[tree.WindowCall], diagnostics: Diagnostics) -> None:
    seen: set[str] = set()
    with_id = [member for member in members if member.id is not None]
    for member in members:
        if member.id is None:
            if with_id:
                diagnostics.error(
                    "WINDOW_ID_MISSING",
                    "either every window has an id or none",
                    member.span,
                    "wrap this one as well: Window('id', ...)",
                )
        elif not isinstance(member.id.value, str):
            diagnostics.error("WINDOW_ID", "the id of a window must be a string", member.id.span)
        elif member.id.value.casefold() in seen:
            diagnostics.error(
                "WINDOW_ID_TWICE",
                f"another window has the id {member.id.value!r} (ids are compared without regard to case)",
                member.id.span,
                "give every window an id of its own",
            )
        else:
            seen.add(member.id.value.casefold())


def _check_count(member: tree.WindowCall, size_ticks: int, hop_ticks: int, diagnostics: Diagnostics) -> None:
    """An event is counted once in every window it is in, and each gives a row."""
    windows = -(-size_ticks // hop_ticks)
    if windows <= MOST_WINDOWS_PER_EVENT:
        return
    least_ticks = -(-size_ticks // MOST_WINDOWS_PER_EVENT)
    diagnostics.error(
        "TOO_MANY_WINDOWS",
        f"every event would be in {windows} windows; at most {MOST_WINDOWS_PER_EVENT} are possible",
        member.span,
        f"make the hop at least {least_ticks / TICKS_PER_SECOND:g} seconds long, or the window shorter",
    )


def _bind_window(member: tree.WindowCall, bind_key: BindExpr, diagnostics: Diagnostics) -> Window | None:
    amounts = dict(member.args)
    window_id = member.id.value if member.id is not None and isinstance(member.id.value, str) else None

    def positive(key: str, what: str) -> int | None:
        return positive_ticks(amounts[key], what, diagnostics)

    match member.kind:
        case "snapshot":
            return Snapshot(window_id)
        case "sliding":
            size_ticks = positive("size", "window size")
            return None if size_ticks is None else Sliding(size_ticks, window_id)
        case "session":
            timeout_ticks = positive("timeout", "timeout")
            longest_ticks = positive("max_duration", "maximum duration")
            keys = tuple(bind_key(key) for key in member.over)
            if timeout_ticks is None or longest_ticks is None:
                return None
            return Session(timeout_ticks, longest_ticks, keys or None, window_id)
        case _:
            size_ticks = positive("size", "window size")
            hop_ticks = positive("hop", "hop") if "hop" in amounts else size_ticks
            offset = amounts.get("offset")
            offset_ticks = 0 if offset is None else signed_ticks(offset, "offset", diagnostics)
            if size_ticks is None or hop_ticks is None or offset_ticks is None:
                return None
            _check_count(member, size_ticks, hop_ticks, diagnostics)
            if abs(offset_ticks) > LONGEST_TICKS:  # whole hops do not move the grid, but leave int64
                offset_ticks %= hop_ticks
            return Hopping(size_ticks, hop_ticks, offset_ticks, window_id)
