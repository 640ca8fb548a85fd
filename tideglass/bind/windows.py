"""The window of a GROUP BY: exactly one, which may be several under `Windows()` (`asa.md` 2.7, 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tideglass.bind.advice import function_names
from tideglass.bind.durations import positive_ticks, signed_ticks
from tideglass.core.errors import Diagnostics, Span
from tideglass.core.time import TICKS_PER_SECOND
from tideglass.lang import nodes as tree
from tideglass.plan.expressions import Expr
from tideglass.plan.windows import WINDOW_KINDS, Window

BindExpr = Callable[[tree.Expr], Expr]

_WINDOW_HINT = (
    "add one to GROUP BY, such as TumblingWindow(minute, 1); "
    "System.Timestamp() alone groups rows of the same timestamp"
)


#: How an error calls the arguments of a window.
_ROLE_TEXTS = {"size": "window size", "max_duration": "maximum duration"}


@dataclass(frozen=True, slots=True)
class SplitGroupBy:
    """GROUP BY taken apart: the member windows and the key expressions, as written."""

    windows: tuple[tree.WindowCall, ...]
    keys: tuple[tree.Expr, ...]


#: An event is in one window per hop. The longest window, seven days, may hop by the second.
MOST_WINDOWS_PER_EVENT = 1_000_000


def is_system_timestamp(node: tree.GroupItem) -> bool:
    """Whether `node` is `System.Timestamp()`."""
    if not isinstance(node, tree.CallExpr):
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
    _warn_of_positions(keys, diagnostics)
    for second in windows[1:]:
        diagnostics.error(
            "TWO_WINDOWS",
            "GROUP BY has more than one window",
            second.span,
            "keep one, or compute several with Windows(...)",
        )
    if windows:
        if stamps:
            keys.append(
                tree.CallExpr((tree.Name("System"),), tree.Name("Timestamp"), (), span=stamps[0].span)
            )
        first = windows[0]
        members = first.members if isinstance(first, tree.WindowsCall) else (first,)
        return SplitGroupBy(members, tuple(keys))
    if stamps:
        return SplitGroupBy((tree.WindowCall("snapshot", (), span=stamps[0].span),), tuple(keys))
    if not any(_is_unknown_function(key) for key in keys):  # an error of its own; perhaps a window misspelt
        diagnostics.error("WINDOW_MISSING", "a window must be specified", place, _WINDOW_HINT)
    return SplitGroupBy((), tuple(keys))


def _is_unknown_function(key: tree.Expr) -> bool:
    if not isinstance(key, tree.CallExpr) or key.prefix:
        return False
    return key.name.text.casefold() not in {name.casefold() for name in function_names(with_windows=True)}


def _warn_of_positions(keys: Sequence[tree.Expr], diagnostics: Diagnostics) -> None:
    """Warns of GROUP BY 1, which elsewhere means the first column."""
    for key in keys:
        if isinstance(key, tree.LiteralExpr):
            diagnostics.warn(
                "CONSTANT_KEY",
                f"GROUP BY {key.value} groups by a constant, not by a column of that place",
                key.span,
                "write the column itself",
            )


def bind_windows(
    members: Sequence[tree.WindowCall], bind_key: BindExpr, diagnostics: Diagnostics
) -> tuple[Window, ...]:
    """The members as windows in ticks; checks that all or none have ids, and that ids are unique."""
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


def _check_count(window: Window, place: Span, diagnostics: Diagnostics) -> None:
    """An event is counted once in every window it is in, and each emits a row."""
    windows = window.windows_per_event
    if windows <= MOST_WINDOWS_PER_EVENT:
        return
    least_ticks = -(-window.span_ticks // MOST_WINDOWS_PER_EVENT)
    diagnostics.error(
        "TOO_MANY_WINDOWS",
        f"every event would be in {windows} windows; at most {MOST_WINDOWS_PER_EVENT} are possible",
        place,
        f"make the hop at least {least_ticks / TICKS_PER_SECOND:g} seconds long, or the window shorter",
    )


def _bind_window(member: tree.WindowCall, bind_key: BindExpr, diagnostics: Diagnostics) -> Window | None:
    amounts = dict(member.args)
    window_id = member.id.value if member.id is not None and isinstance(member.id.value, str) else None
    lengths = {role: _length_ticks(role, written, diagnostics) for role, written in amounts.items()}
    keys = tuple(bind_key(key) for key in member.over)
    known = {role: ticks for role, ticks in lengths.items() if ticks is not None}
    if len(known) < len(lengths):
        return None
    window = WINDOW_KINDS[member.kind].make(known, keys or None, window_id)
    _check_count(window, member.span, diagnostics)
    return window


def _length_ticks(role: str, written: tree.Duration, diagnostics: Diagnostics) -> int | None:
    what = _ROLE_TEXTS.get(role, role)
    return (
        signed_ticks(written, what, diagnostics)
        if role == "offset"
        else positive_ticks(written, what, diagnostics)
    )
