"""`tideglass simulate`: the way of every event through the time policies (`asa.md` 1.9)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tideglass.temporal.policies import Policies

PICTURE_KINDS = (".svg", ".png")


def simulate(
    example: Annotated[
        bool, typer.Option("--example", help="The twelve events of the worked example of the ASA articles.")
    ] = False,
    late: Annotated[str | None, typer.Option(help="Late tolerance: 5s, 2m, none.")] = None,
    out_of_order: Annotated[str | None, typer.Option(help="Out-of-order tolerance: 0s, 2m.")] = None,
    early: Annotated[str | None, typer.Option(help="Early tolerance: 5m, none.")] = None,
    policy: Annotated[str | None, typer.Option(help="adjust or drop.")] = None,
    over: Annotated[
        bool, typer.Option("--over", help="A watermark for each key: TIMESTAMP BY ... OVER.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Draw it too: a file ending in .svg or .png.")] = None,
) -> None:
    """Show what the time policies do to every event, as a table and as a picture."""
    from rich.console import Console

    from tideglass.core.errors import TideglassError
    from tideglass.job.simulation import EXAMPLE, EXAMPLE_POLICIES, table
    from tideglass.job.simulation import simulate as run

    if not example:
        raise TideglassError("nothing to simulate\n  hint: tideglass simulate --example")
    if out is not None and out.suffix.lower() not in PICTURE_KINDS:
        raise TideglassError(f"{out}: a picture is {' or '.join(PICTURE_KINDS)}")
    options = {"late_arrival": late, "out_of_order": out_of_order, "early_arrival": early, "policy": policy}
    policies = changed(EXAMPLE_POLICIES, {name: text for name, text in options.items() if text is not None})
    simulation = run(EXAMPLE, policies, over)
    Console(highlight=False).print(table(simulation))
    if out is not None:
        from tideglass.job.picture import draw

        draw(simulation, out)
        typer.echo(f"drawn to {out}")


def changed(policies: Policies, options: dict[str, str]) -> Policies:
    """The policies with the given options in place of their own."""
    from dataclasses import replace

    from tideglass.job.settings import from_options

    given = from_options(options).policies()
    fields = {
        "late_arrival": "late_ticks",
        "out_of_order": "out_of_order_ticks",
        "early_arrival": "early_ticks",
        "policy": "drop",
    }
    return replace(policies, **{fields[name]: getattr(given, fields[name]) for name in options})
