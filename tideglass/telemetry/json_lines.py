"""The metrics of a run as JSON lines: one object every few seconds and at the end of the run.

    {"time": "2026-01-01T00:00:10Z", "job_name": "toll", "metrics": {
      "tideglass_InputEvents_total": [{"logical_name": "toll", "partition_id": "0", "value": 12}], …}}

Names and labels are those of Prometheus (`telemetry.catalogue`); `job_name` is not repeated in every sample.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tideglass.core.errors import TideglassError
from tideglass.job.report.status import JobState, Status
from tideglass.storage import storage_path
from tideglass.telemetry.catalogue import JOB_LABEL
from tideglass.telemetry.rotated_lines import RotatedLines
from tideglass.telemetry.samples import samples, unix_seconds

#: How often a run adds a line.
INTERVAL_SECONDS = 10.0
#: Of the file and of the one before it.
MOST_BYTES = 16 << 20


def json_line(status: Status) -> str:
    """The metrics of a job at one moment as one line."""
    metrics: dict[str, list[dict[str, Any]]] = {}
    for sample in samples(status):
        labels = {name: text for name, text in sample.labels.items() if name != JOB_LABEL}
        value = int(sample.value) if float(sample.value).is_integer() else sample.value
        metrics.setdefault(sample.metric.name, []).append({**labels, "value": value})
    whole = {"time": status.updated, JOB_LABEL: status.job, "metrics": metrics}
    return json.dumps(whole, separators=(",", ":"))


class JsonLines:
    """Writes the metrics of a run, or of several, to a file; called with every status of them.

    path: of the file; it is put aside as `<name>.1` at `most_bytes`.
    interval_seconds: how far apart lines are at least; the end of the run has a line in any case.
    """

    def __init__(
        self, path: Path, interval_seconds: float = INTERVAL_SECONDS, most_bytes: int = MOST_BYTES
    ) -> None:
        self._file = RotatedLines(storage_path(path), most_bytes)
        self._interval_seconds = interval_seconds
        self._written_seconds: dict[str, float] = {}

    @staticmethod
    def to(path: Path) -> JsonLines:
        """A writer to a file that can be written. Raises TideglassError for one that cannot."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("ab").close()
        except OSError as error:
            raise TideglassError(
                f"metrics cannot be written to {path}: {error.strerror or error}\n"
                "  hint: choose another --metrics-file"
            ) from error
        return JsonLines(path)

    def __call__(self, status: Status) -> None:
        """Add a line if it is time. Raises OSError where the file cannot be written."""
        now = unix_seconds(status.updated) or 0.0
        over = status.state in (JobState.STOPPED, JobState.FAILED)
        last = self._written_seconds.get(status.job)
        if not over and last is not None and now - last < self._interval_seconds:
            return
        self._written_seconds[status.job] = now
        self._file.append([json_line(status)])
