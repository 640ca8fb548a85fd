"""`tideglass new DIR`: a small project that works."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from tideglass.core.errors import ProjectError

#: What a user may write over by accident; in the template these are the project's own files.
TEMPLATE_NAME = "readings"


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to make it; must be new or empty.")],
) -> None:
    """Make a small project with a query, sample data and a test case."""
    made = make_project(folder)
    typer.echo(f"made {len(made)} files in {folder}")
    typer.echo("try:")
    typer.echo(f"  tideglass check {folder}")
    typer.echo(f"  tideglass test {folder}")


def make_project(folder: Path) -> list[Path]:
    """Copy the template into `folder`, named after it; returns the files made.

    Raises ProjectError when something is already there.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProjectError(f"{folder}: is there already and not empty; name a new folder")
    name = folder.resolve().name
    made: list[Path] = []
    with as_file(files("tideglass.cli") / "template") as template:
        for source in sorted(path for path in template.rglob("*") if path.is_file()):
            target = folder / source.relative_to(template).with_name(source.name.replace(TEMPLATE_NAME, name))
            text = source.read_text(encoding="utf-8")
            if source.name in ("asaproj.json", "testConfig.json"):
                text = text.replace(f"{TEMPLATE_NAME}.asaql", f"{name}.asaql")
                text = text.replace(f'"name": "{TEMPLATE_NAME}"', f'"name": "{name}"')
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            except OSError as error:
                raise ProjectError(f"{target}: cannot be written: {error.strerror}") from error
            made.append(target)
    return made
