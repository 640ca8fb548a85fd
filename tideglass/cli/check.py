"""`tideglass check PROJECT`: everything that can be known before running."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tideglass.cli.job import AllowOutsideOption

if TYPE_CHECKING:
    from rich.table import Table

    from tideglass.bind.catalog import InputInfo
    from tideglass.plan.nodes import Plan
    from tideglass.project.project import Project
    from tideglass.storage import StoragePath


def check(
    project: Annotated[
        Path, typer.Argument(help="A project's folder, its asaproj.json, or a query file.")
    ] = Path("."),
    allow_outside: AllowOutsideOption = False,
) -> None:
    """Read a project and its query; report every error, or what the job consists of."""
    from tideglass.project.project import load_project

    loaded = load_project(project, allow_outside=allow_outside)
    from rich.console import Console

    from tideglass.compile import bind_query
    from tideglass.project.time_texts import time_warnings

    console = Console(highlight=False, soft_wrap=True)
    # Before the query is bound: what is noted is often why that fails.
    for warning in loaded.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False)
    for notice in loaded.unsupported:
        console.print(f"note: {notice}", style="dim", markup=False)
    bound = bind_query(
        loaded.query,
        loaded.settings,
        inputs=known_inputs(loaded),
        functions=loaded.scripts,
        outputs=known_outputs(loaded),
    )
    if loaded.settings.watermarks or loaded.settings.early_panes:
        bound.place(loaded.settings, key_groups=1)  # says what of these does not fit the query
    of_query = (*bound.warnings, *time_warnings(bound.plan, loaded))
    for warning in of_query:
        console.print(warning.render(loaded.query), style="yellow", markup=False)
    Console(highlight=False).print(summary(loaded, bound.plan))
    warnings = len(of_query) + len(loaded.warnings)
    console.print(f"{loaded.name}: no errors, {warnings} warnings", style="green", markup=False)


def known_inputs(project: Project) -> dict[str, InputInfo] | None:
    """What the binder may know of the project's inputs; None when it names none, so that any name is one."""
    from tideglass.bind.catalog import InputInfo

    return {
        name: InputInfo(name, each.kind, metadata=each.metadata(live=False))
        for name, each in project.inputs.items()
    } or None


def known_outputs(project: Project) -> tuple[str, ...] | None:
    """The outputs of the project; None when it describes none, so that any name is one."""
    return tuple(project.outputs) or None


def summary(project: Project, plan: Plan) -> Table:
    """Inputs, steps, outputs and settings of a job, a line each."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("")
    shown.add_column("name", overflow="fold", style="bold")
    shown.add_column("", overflow="fold")

    def add(kind: str, name: str, what: str) -> None:
        shown.add_row(kind, escape(name), escape(what))

    read = (*plan.inputs, *plan.references)
    for name in read:
        add("input", name, _input_words(project, name))
    for name in project.inputs:
        if name.casefold() not in {used.casefold() for used in read}:
            add("input", name, "not used by the query")
    for name, node in plan.steps:
        add("step", name, ", ".join(node.columns) + (", *" if node.open else ""))
    for output in plan.outputs:
        columns = ", ".join(output.node.columns) + (", *" if output.node.open else "")
        add("output", output.name, columns + guarantee_words(project, output.name))
    for function in project.functions.values():
        add("function", function.called, "JavaScript")
    add("settings", "", _settings_words(project))
    return shown


def guarantee_words(project: Project, name: str) -> str:
    """What a reader of a live output can rely on; "" for one that files stand in for."""
    found = next((each for key, each in project.outputs.items() if key.casefold() == name.casefold()), None)
    if found is None or found.connector is None:
        return ""
    return f" (with --live: {found.origin}, {found.connector.guarantee})"


def _input_words(project: Project, name: str) -> str:
    found = next((each for key, each in project.inputs.items() if key.casefold() == name.casefold()), None)
    if found is not None and found.sql is not None and found.sql.connection is not None:
        return f"reference data of a database, {found.sql.refresh}"
    if found is None or found.path is None:
        origin = found.origin if found else "not in the project"
        live = ", or run it with --live" if found is not None and found.live is not None else ""
        return f"{origin}: name files with --input {name}=PATH{live}"
    if found.unreadable is not None:
        return f"cannot be read: name files with --input {name}=PATH"
    words = f"{found.file_format or 'json'} {project_relative(found.path, project.folder)}"
    words += ", sub-folders are partitions" if found.partitions == "folders" else ""
    if found.kind == "reference":
        return f"reference data, {words}"
    return f"{words}, arrival time in {found.arrival!r}" if found.arrival else words


def project_relative(path: Path | StoragePath, folder: Path) -> str:
    """The path as seen from the project, where it lies inside."""
    if not isinstance(path, Path):
        return str(path)
    whole = path.resolve()
    inside = whole.is_relative_to(folder.resolve())
    return whole.relative_to(folder.resolve()).as_posix() if inside else str(path)


def _settings_words(project: Project) -> str:
    from tideglass.project.settings import format_duration

    settings = project.settings
    late = (
        "unlimited" if settings.late_arrival_ticks is None else format_duration(settings.late_arrival_ticks)
    )
    watermarks = "".join(f", watermark of {name}: {text}" for name, text in settings.watermarks)
    chosen = "".join(f", time of {name}: {text}" for name, text in settings.output_timestamps)
    for name, percents in settings.early_panes:
        chosen += f", early panes of {name}: {', '.join(f'{percent} %' for percent in percents)}"
    return (
        f"late {late}, out of order {format_duration(settings.out_of_order_ticks)}, {settings.policy}, "
        f"compatibility level {settings.compatibility_level}{watermarks}{chosen}"
    )
