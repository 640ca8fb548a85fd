"""Options of commands that start a run: the master of a cluster, settings of Spark, which may be secret."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

MasterOption = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Run on this cluster: spark://…, yarn, k8s://…"),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; ${NAME} is of the environment."),
]
UiOption = Annotated[bool, typer.Option("--ui", help="Spark's own UI too, which leads to the page.")]

#: Stands in the journal for the value of a secret.
NOT_KEPT = "(not kept)"


def conf_of(texts: Iterable[str] | None) -> dict[str, str]:
    """`KEY=VALUE` texts as settings, variables of the environment in their values replaced.

    Raises ProjectError for a text that is none, a variable that is not set, and a secret the journal of an
    earlier run does not hold.
    """
    from tideglass.connect.environment import resolved
    from tideglass.core.errors import ProjectError

    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise ProjectError(f"--conf {text!r} is not KEY=VALUE")
        if value == NOT_KEPT:
            raise ProjectError(
                f"the value of {name} was not kept, since it is a secret\n"
                f"  hint: say it again with --conf {name}=…, or start once with --conf "
                f"'{name}=${{VARIABLE}}', which is kept as it stands"
            )
        found[name] = resolved(value, os.environ, f"--conf {name}")
    return found


def kept_conf(text: str) -> str:
    """A `KEY=VALUE` text as a journal keeps it: without the value of a secret, unless that is a variable.

    >>> kept_conf("spark.executor.memory=2g"), kept_conf("spark.hadoop.fs.s3a.secret.key=x")
    ('spark.executor.memory=2g', 'spark.hadoop.fs.s3a.secret.key=(not kept)')
    >>> kept_conf("spark.hadoop.fs.s3a.secret.key=${KEY}")
    'spark.hadoop.fs.s3a.secret.key=${KEY}'
    """
    from tideglass.spark.session.spark_settings import is_secret

    name, _, value = text.partition("=")
    shown = value.startswith("${") and value.endswith("}")
    return f"{name}={NOT_KEPT}" if is_secret(name) and not shown else text


def replaced_conf(arguments: Iterable[str], changed: Iterable[str]) -> list[str]:
    """Arguments of an earlier run with other settings: a later one of a name replaces the earlier.

    >>> replaced_conf(["heat", "--conf", "spark.a=1", "--once"], ["spark.a=2"])
    ['heat', '--once', '--conf', 'spark.a=2']
    """
    changes = list(changed)
    names = {text.partition("=")[0] for text in changes}
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word != "--conf":
            kept.append(word)
            continue
        text = next(words)
        if text.partition("=")[0] not in names:
            kept += [word, text]
    for text in changes:
        kept += ["--conf", text]
    return kept


def overridden_settings(conf: Mapping[str, str]) -> tuple[str, ...]:
    """A line for each setting of Spark that the user has chosen and that does not hold."""
    from tideglass.spark.session.spark_settings import REQUIRED_OF_JOBS, chosen_settings, overridden

    return overridden(chosen_settings(conf), REQUIRED_OF_JOBS)
