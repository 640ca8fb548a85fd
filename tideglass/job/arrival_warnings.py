"""What a user should know of files given with `--input` without arrival times of their events.

Such an event arrives when its file was last changed. That is right for a file that grows while the job runs,
and wrong for a recorded one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tideglass.connect.spec import InputSpec
from tideglass.job.options import RunOptions
from tideglass.plan.topology import Topology
from tideglass.project.settings import format_duration


def arrival_warnings(
    topology: Topology, inputs: Mapping[str, InputSpec], options: RunOptions
) -> Iterator[str]:
    """A warning for each `--input` whose events all arrive at once, where that decides about rows."""
    for name, spec in inputs.items():
        if options.input_option(name) is None or spec.has_arrivals:
            continue
        remedy = f"name the field with the time of arrival: --input {name}={spec.path},arrival=FIELD"
        readers = [reader for reader in topology.readers if reader.input == name]
        if any(reader.timestamp is None for reader in readers):
            yield (
                f"the input {name!r} is read without TIMESTAMP BY, so all events of a file have one "
                f"timestamp, that of the file's last change; {remedy}"
            )
        timed = [reader.policies.late_ticks for reader in readers if reader.timestamp is not None]
        late = [ticks for ticks in timed if ticks is not None]
        if late and options.once:
            yield (
                f"all events of a file of {name!r} arrive at the time of the file's last change; those with "
                f"a timestamp more than {format_duration(min(late))} before count as late (the late "
                f"tolerance of the job); {remedy}"
            )
