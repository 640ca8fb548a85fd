"""What a run hands its status to, besides the status file: the diagnostic log, an endpoint, JSON lines."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tideglass.job.directory import JobDirectory
from tideglass.job.report.reporter import StatusObserver
from tideglass.telemetry.diagnostic_log import DiagnosticLog


@dataclass(frozen=True, slots=True)
class Exports:
    """Where the metrics of a run go.

    port: of an endpoint for Prometheus; None for none, 0 for a free one.
    host: the address it listens at.
    file: that takes JSON lines; None for none.
    """

    port: int | None = None
    host: str = "127.0.0.1"
    file: Path | str | None = None


#: Exports of a run without any.
NOWHERE = Exports()


@dataclass(frozen=True, slots=True)
class Observers:
    """The observers of a run. metrics_url: where its metrics are served; None for nowhere."""

    all: Sequence[StatusObserver]
    metrics_url: str | None = None


@contextmanager
def observers(directory: JobDirectory, exports: Exports) -> Generator[Observers]:
    """The observers of a run, for as long as it lasts; the diagnostic log is always among them.

    Raises TideglassError for a port that is taken and for a file that cannot be written.
    """
    with ExitStack() as stack:
        found: list[StatusObserver] = [DiagnosticLog(directory.diagnostic_log)]
        url = None
        if exports.file is not None:
            from tideglass.telemetry.json_lines import JsonLines

            found.append(JsonLines.to(Path(exports.file)))
        if exports.port is not None:
            from tideglass.telemetry.endpoint import NewestStatus, serving

            newest = NewestStatus()
            port = stack.enter_context(serving(newest.all, exports.port, exports.host))
            found.append(newest)
            url = f"http://{exports.host}:{port}/metrics"
        yield Observers(found, url)
