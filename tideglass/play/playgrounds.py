"""What a playground begins with: a project's query, settings and first events, or the worked example."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tideglass.connect.reference.files import FileReference
from tideglass.core.errors import TideglassError
from tideglass.core.events import Fields
from tideglass.core.json_rows import rows_of
from tideglass.core.time import TICKS_PER_SECOND, format_ticks
from tideglass.core.types import ARRIVAL
from tideglass.job.options import JobPlan, RunOptions
from tideglass.job.plan import plan_job
from tideglass.plan.policy_settings import Policies
from tideglass.play.attempt import MOST_EVENT_CHARACTERS, Attempt, Playground, Tolerances
from tideglass.project.input_option import InputOption
from tideglass.project.project import Project
from tideglass.simulate.simulation import EXAMPLE, EXAMPLE_POLICIES

#: Of a project's files at first: more than one reads at a glance only slow the picture down.
_FIRST_EVENTS = 40
_BYTES = 1 << 20

_EXAMPLE_QUERY = """-- Try it: move a tolerance, change an arrival time, or write another query.
SELECT
    deviceId,
    COUNT(*) AS events,
    System.Timestamp() AS windowEnd
INTO counts
FROM devices TIMESTAMP BY eventTime
GROUP BY deviceId, TumblingWindow(minute, 5)
"""


def example() -> Playground:
    """The twelve events of the worked example (`asa.md` 1.9), counted by device."""
    lines = [
        json.dumps(
            {
                "_arrival": _short(event.arrival_time_ticks),
                "deviceId": event.key,
                "eventTime": _short(event.event_time_ticks or 0),
            }
        )
        for event in EXAMPLE
    ]
    return Playground("example", Attempt(_EXAMPLE_QUERY, "\n".join(lines), tolerances_of(EXAMPLE_POLICIES)))


def of_project(project: Project, inputs: Mapping[str, InputOption]) -> Playground:
    """The query, settings and functions of a project, and the first events of its local inputs.

    inputs: files in place of the project's own.
    Raises TideglassError for a query that cannot be compiled, or files that cannot be read.
    """
    streams = tuple(name for name, each in project.inputs.items() if each.kind != "reference")
    references = tuple(name for name, each in project.inputs.items() if each.kind == "reference")
    try:
        job = plan_job(project, RunOptions(inputs=inputs, once=True, key_groups=1))
        lines = list(_first_events(job, project))
        snapshots = {
            name: tuple(FileReference(spec).look((), None))
            for name, spec in job.references.items()
            if spec.sql is None
        }
    except TideglassError:
        if inputs:
            raise
        snapshots = {}
        lines = []  # a project without local files, or a query to be mended: there is nothing to begin with
    return Playground(
        name=project.name,
        attempt=Attempt(project.query.text, "\n".join(lines), tolerances_of(project.settings.policies())),
        settings=project.settings,
        functions=project.scripts,
        references=references,
        snapshots=snapshots,
        inputs=(*streams, *(name for name in inputs if name not in streams)),
    )


def tolerances_of(policies: Policies) -> Tolerances:
    """Time policies as the sliders have them."""
    return Tolerances(
        late_seconds=_seconds(policies.late_ticks),
        early_seconds=_seconds(policies.early_ticks),
        out_of_order_seconds=policies.out_of_order_ticks / TICKS_PER_SECOND,
        drop=policies.drop,
    )


def _first_events(job: JobPlan, project: Project) -> Iterator[str]:
    """Events of all inputs, each with its arrival if the files have one, by that or as they are read."""
    found: list[tuple[int, str]] = []
    # Without arrival times the service's tools apply no policies, and nor does the job.
    arrives = job.settings == project.settings
    several = len(job.inputs) > 1
    for name, files in job.inputs.items():
        partitions = list(files.partitions())
        for number, partition in enumerate(partitions):
            end = files.latest({}, _BYTES).get(partition, [])
            taken = 0
            for chunk in files.read(partition, [], end, Fields(whole=True)):
                table = chunk.table.slice(0, _FIRST_EVENTS - taken)
                taken += table.num_rows
                for ticks, row in zip(table[ARRIVAL].to_pylist(), rows_of(table), strict=True):
                    about: dict[str, Any] = {}
                    if arrives and ticks is not None:
                        about["_arrival"] = _short(ticks)
                    if several:
                        about["_input"] = name
                    if len(partitions) > 1:
                        about["_partition"] = number
                    found.append(
                        (ticks if arrives and ticks is not None else 0, json.dumps({**about, **row}))
                    )
                if taken >= _FIRST_EVENTS:
                    break
    found.sort(key=lambda each: each[0])
    yield from _within([line for _, line in found[:_FIRST_EVENTS]])


def _within(lines: Sequence[str]) -> Iterator[str]:
    """As many lines as an attempt takes."""
    size = 0
    for line in lines:
        size += len(line) + 1
        if size > MOST_EVENT_CHARACTERS:
            return
        yield line


def _short(ticks: int) -> str:
    """ISO text without a fraction that is all zeros.

    >>> _short(0), _short(5_000_000)
    ('1970-01-01T00:00:00Z', '1970-01-01T00:00:00.5Z')
    """
    seconds, _, fraction = format_ticks(ticks).removesuffix("Z").partition(".")
    fraction = fraction.rstrip("0")
    return f"{seconds}.{fraction}Z" if fraction else f"{seconds}Z"


def _seconds(ticks: int | None) -> float | None:
    return None if ticks is None else ticks / TICKS_PER_SECOND
