"""`tideglass explain PROJECT`: what a job will do, before it does it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tideglass.cli.job import AllowOutsideOption


def explain(
    project: Annotated[
        Path, typer.Argument(help="A project's folder, its asaproj.json, or a query file.")
    ] = Path("."),
    key_groups: Annotated[int, typer.Option(min=1, help="Key groups to plan for.")] = 2,
    sql: Annotated[bool, typer.Option("--sql/--no-sql", help="Show the SQL of each row program.")] = True,
    allow_outside: AllowOutsideOption = False,
) -> None:
    """Show the steps with their time spans, the stages, what crosses between them, and their SQL."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from tideglass.cli.check import guarantee_words, known_inputs
    from tideglass.cli.notes import report_warnings, reporting_notes
    from tideglass.compile import compile_query
    from tideglass.evaluate.program_sql import program_sql
    from tideglass.plan.explain import explain_crossings, explain_stages, explain_steps
    from tideglass.project.project import load_project

    loaded = load_project(project, allow_outside=allow_outside)
    report_warnings(*loaded.warnings)
    with reporting_notes(loaded.unsupported):
        compiled = compile_query(
            loaded.query,
            loaded.settings,
            key_groups=key_groups,
            inputs=known_inputs(loaded),
            functions=loaded.scripts,
        )
    console = Console(highlight=False)
    steps = Table(box=box.SIMPLE_HEAD, title="steps", title_justify="left", pad_edge=False)
    steps.add_column("step")
    steps.add_column("looks back", justify="right")
    for step in explain_steps(compiled.plan):
        steps.add_row(step.name, step.look_back)
    console.print(steps)
    for stage in explain_stages(compiled.topology):
        console.print(stage.title, style="bold", markup=False)
        for line in stage.operators:
            console.print(f"  {line}", markup=False)
    live = [(name, guarantee_words(loaded, name)) for name in compiled.topology.outputs]
    if any(words for _, words in live):
        console.print("outputs", style="bold", markup=False)
        for name, words in live:
            console.print(f"  {name}{words}", markup=False)
    crossings = explain_crossings(compiled.topology)
    console.print("what crosses between them", style="bold", markup=False)
    if not crossings:
        console.print("  nothing: no exchange, rows stay where their partition is read", markup=False)
    for crossing in crossings:
        console.print(f"  {crossing.route}, {crossing.spread}", markup=False)
        console.print(f"    {crossing.rows}", markup=False)
        console.print(
            f"    {', '.join(crossing.columns) or 'nothing but their places in order'}", markup=False
        )
    if sql:
        for title, text in program_sql(compiled.topology):
            console.print(title, style="bold", markup=False)
            console.print(text, markup=False)
