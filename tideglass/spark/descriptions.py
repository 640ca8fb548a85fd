"""What Spark's UI shows of a batch: which job it is of, and what of it computes what.

Spark shows a description with every job, and with the stages of it. It belongs to a thread of the driver, so
a session of Spark Connect, whose driver is elsewhere, has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from html import escape
from typing import TypeVar

from pyspark.sql import SparkSession

from tideglass.plan.topology import Topology
from tideglass.spark.session.page_link import PATH
from tideglass.spark.session.session_kind import is_connect

F = TypeVar("F", bound=Callable[..., object])

#: Names shown of inputs, of steps and of outputs; the others are counted.
_MOST_SHOWN = 5
_DESCRIPTION = "spark.job.description"


def flow(topology: Topology, outputs: Iterable[str] | None = None) -> str:
    """What a query computes in one line: its inputs, its steps, its outputs.

    outputs: those meant; None: all. A step is named if it has operators of its own; one that only projects
    and filters is part of what reads it.
    """
    inputs = (*topology.fields, *topology.references)
    ends = topology.outputs if outputs is None else tuple(outputs)
    others = {*inputs, *topology.outputs, ""}
    steps = dict.fromkeys(each.step for each in topology.origins if each.step not in others)
    return " → ".join(_listed(names) for names in (inputs, tuple(steps), ends) if names)


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_MOST_SHOWN])
    rest = len(names) - _MOST_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


def describe(spark: SparkSession, text: str, *, job: str = "", linked: bool = False) -> None:
    """Have Spark's UI show what this thread runs from now on under the text.

    job: the name that stands before it. linked: it leads to the job's page (`session.page_link`).
    """
    if is_connect(spark):
        return
    name = f'<a href="{PATH}">{escape(job)}</a>' if linked else escape(job)
    spark.sparkContext.setJobDescription(f"{name} {escape(text)}".strip())


@contextmanager
def described(spark: SparkSession, text: str) -> Generator[None]:
    """What this thread runs within is shown under the text, and what it runs later as before."""
    if is_connect(spark):
        yield
        return
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    describe(spark, text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # pyright: ignore[reportArgumentType]


def shown_as(function: F, *words: str) -> F:
    """A function that Spark's plans show under these words."""
    function.__name__ = re.sub(r"\W+", "_", "_".join(words))
    return function
