"""How a run's profile is shown: the batches' time by phase, the tasks' time by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from tideglass.job.report.profile import Profile


def profile_tables(profile: Profile) -> list[Table]:
    """The phases on the clock, then the parts inside the tasks; parts below half a percent in one line."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from tideglass.job.report.profile import shown_shares

    phases, parts = profile.by_phase(), profile.by_part()
    first, later = profile.first_and_later()
    tables: list[Table] = []
    if phases:
        title = f"{len(profile.phases)} batches, {profile.batch_seconds:,.1f} s on the clock"
        table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
        table.add_column("a batch")
        table.add_column("ms, first", justify="right")
        table.add_column("ms, later", justify="right")
        table.add_column("% of all", justify="right")
        for share in phases:
            name = share.name
            times = (f"{1000 * each.get(name, 0.0):,.0f}" for each in (first, later))
            table.add_row(escape(name), *times, f"{share.percent:.1f}")
        tables.append(table)
    title = f"inside the tasks: {profile.task_seconds:,.1f} s, those side by side added up"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    table.add_column("in")
    table.add_column("part", overflow="fold")
    table.add_column("seconds", justify="right")
    table.add_column("%", justify="right")
    for level, shares in parts.items():
        shown = shown_shares(shares)
        for place, share in enumerate(shown):
            table.add_row(
                level if place == 0 else "",
                escape(share.name),
                f"{share.seconds:,.2f}",
                f"{share.percent:.1f}",
            )
        table.add_section()
    return [*tables, table]
