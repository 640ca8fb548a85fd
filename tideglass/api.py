"""A project as an object for programs: what the commands check, explain and run, in Python."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tideglass.job.commit import Watch
from tideglass.job.directory import JobDirectory
from tideglass.job.options import RunOptions
from tideglass.job.plan import plan_job
from tideglass.job.report.metrics import Metrics
from tideglass.job.report.profile import Profile
from tideglass.job.run_session import executors_for
from tideglass.job.runner import run
from tideglass.project.project import Project, load_project
from tideglass.telemetry.exports import NOWHERE, Exports, observers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Job:
    """An ASA project and how it is to be run.

    >>> Job.load("examples/flights").name
    'flights'
    """

    project: Project
    options: RunOptions

    @staticmethod
    def load(path: str | Path, *, allow_outside: bool = False, **options: Any) -> Job:
        """The project in a folder. options: those of `RunOptions`, which are those of `tideglass run`.

        allow_outside: the project may name files outside of its folder.

        Raises ProjectError with everything wrong with its files.
        """
        return Job(load_project(Path(path), allow_outside=allow_outside), RunOptions(**options))

    @property
    def name(self) -> str:
        return self.project.name

    def with_options(self, **options: Any) -> Job:
        """The same with other options of `RunOptions`."""
        return replace(self, options=replace(self.options, **options))

    def check(self) -> tuple[str, ...]:
        """What the compiler warns of. Raises QueryError or ProjectError when the job cannot run."""
        compiled = plan_job(self.project, self.options).compiled
        return tuple(warning.render(compiled.source) for warning in compiled.warnings)

    def run(
        self,
        watch: Watch | None = None,
        spark: SparkSession | None = None,
        profile: Profile | None = None,
        exports: Exports = NOWHERE,
    ) -> Metrics:
        """Run until the input ends (`once`) or the process gets a signal to stop; see `job.runner.run`.

        spark: a session to run in, of this machine or of a cluster, which stays as it is but for the settings
            a job needs; by default one is made as `tideglass run` makes it.
        exports: where its metrics go besides the status file.
        """
        plan = plan_job(self.project, self.options, executors_for(self.project, self.options, spark))
        with observers(JobDirectory.at(plan.run_directory), exports) as found:
            return run(plan, watch, spark, profile=profile, observers=found.all)
