"""`tideglass simulate`: the way of every event through the time policies (`asa.md` 1.9)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tideglass.cli.job import AllowOutsideOption
from tideglass.cli.notes import INPUT_HELP, report_warnings, reporting_notes

if TYPE_CHECKING:
    from tideglass.plan.policy_settings import Policies
    from tideglass.simulate.simulation import Simulation

PICTURE_KINDS = (".svg", ".png")
#: The picture shows many more events than one wants to read in a table.
PICTURED_EVENTS = 20_000


def simulate(
    project: Annotated[
        Path | None, typer.Argument(help="A project: the events of its local input are simulated.")
    ] = None,
    example: Annotated[
        bool, typer.Option("--example", help="The twelve events of the worked example of the ASA articles.")
    ] = False,
    of: Annotated[str | None, typer.Option(help="Which input of the project.")] = None,
    partition: Annotated[str | None, typer.Option(help="Which partition of the input.")] = None,
    files: Annotated[list[str] | None, typer.Option("--input", metavar="NAME=PATH", help=INPUT_HELP)] = None,
    late: Annotated[str | None, typer.Option(help="Late tolerance: 5s, 2m, none.")] = None,
    out_of_order: Annotated[str | None, typer.Option(help="Out-of-order tolerance: 0s, 2m.")] = None,
    early: Annotated[str | None, typer.Option(help="Early tolerance: 5m, none.")] = None,
    policy: Annotated[str | None, typer.Option(help="adjust or drop.")] = None,
    watermark: Annotated[
        str | None, typer.Option(help="Watermark policy of the source: 'at percentile 95', 'ingress time', …")
    ] = None,
    over: Annotated[
        bool, typer.Option("--over", help="The example with a watermark for each key: OVER.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="Events shown in the table.")] = 50,
    allow_outside: AllowOutsideOption = False,
    out: Annotated[Path | None, typer.Option(help="Draw it too: a file ending in .svg or .png.")] = None,
) -> None:
    """Show what the time policies do to every event, as a table and as a picture."""
    from rich.console import Console

    from tideglass.core.errors import TideglassError
    from tideglass.simulate.simulation import EXAMPLE, EXAMPLE_POLICIES, table
    from tideglass.simulate.simulation import simulate as run

    if example == (project is not None):
        raise TideglassError("name one thing to simulate: a project, or --example")
    if out is not None and out.suffix.lower() not in PICTURE_KINDS:
        raise TideglassError(f"{out}: a picture is {' or '.join(PICTURE_KINDS)}")
    options = {"late_arrival": late, "out_of_order": out_of_order, "early_arrival": early, "policy": policy}
    chosen = {name: text for name, text in options.items() if text is not None}
    pictured: Simulation | None = None
    if project is None:
        shown = run(EXAMPLE, changed(EXAMPLE_POLICIES, chosen, watermark), over)
    else:
        shown, pictured = _of_project(
            project, of, partition, files or [], chosen, watermark, limit, allow_outside, out is not None
        )
    Console(highlight=False).print(table(shown))
    if out is not None:
        from tideglass.simulate.picture.skew import draw

        draw(pictured or shown, out)
        typer.echo(f"drawn to {out}")


def changed(policies: Policies, options: dict[str, str], watermark: str | None = None) -> Policies:
    """The policies with these options in place of their own, then under a watermark policy (`docs/time.md`).

    Raises ProjectError for what is no such policy or does not fit.
    """
    from dataclasses import replace

    from tideglass.core.errors import ProjectError
    from tideglass.plan.source_watermarks import SourceWatermark
    from tideglass.project.settings import from_options

    chosen = from_options(options).policies()
    fields = {
        "late_arrival": "late_ticks",
        "out_of_order": "out_of_order_ticks",
        "early_arrival": "early_ticks",
        "policy": "drop",
    }
    result = replace(policies, **{fields[name]: getattr(chosen, fields[name]) for name in options})
    if watermark is None:
        return result
    try:
        return SourceWatermark.parse(watermark).applied(replace(result, source=None, percentile=None))
    except ValueError as error:
        raise ProjectError(f"--watermark: {error}") from None


def _of_project(
    path: Path,
    of: str | None,
    partition: str | None,
    files: list[str],
    options: dict[str, str],
    watermark: str | None,
    limit: int,
    allow_outside: bool,
    pictured: bool,
) -> tuple[Simulation, Simulation | None]:
    """The simulation to be shown as a table, and one of more events for the picture."""
    from tideglass.core.errors import ProjectError
    from tideglass.job.options import RunOptions
    from tideglass.job.plan import plan_job
    from tideglass.project.input_option import input_options
    from tideglass.project.project import load_project
    from tideglass.simulate.events import partitions_of, reader_of, recorded_events
    from tideglass.simulate.simulation import simulate as run

    options_of_run = RunOptions(inputs=input_options(files), once=True, key_groups=1)
    loaded = load_project(path, allow_outside=allow_outside)
    with reporting_notes(loaded.unsupported):
        job = plan_job(loaded, options_of_run)
    report_warnings(*loaded.warnings, *job.warnings)
    reader = reader_of(job, of)
    known = partitions_of(job, reader)
    chosen = partition if partition is not None else (known or [""])[0]
    if chosen not in known:
        raise ProjectError(
            f"the input {reader.input!r} has no partition {chosen!r}; it has {', '.join(known)}"
        )
    policies = changed(reader.policies, options, watermark)
    events = recorded_events(job, reader, chosen, max(limit, PICTURED_EVENTS) if pictured else limit)
    if not events:
        raise ProjectError(f"partition {chosen!r} of the input {reader.input!r} holds no events")
    typer.echo(f"input {reader.input}, partition {chosen}: the first {min(limit, len(events))} events")
    substreams = bool(reader.over)
    shown = run(events[:limit], policies, substreams)
    return shown, run(events, policies, substreams) if len(events) > limit else None
