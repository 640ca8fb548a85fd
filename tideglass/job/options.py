"""A job ready to run, and what a user may choose for a run of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tideglass.compile import Compiled
from tideglass.connect.kafka.topic import TopicInput
from tideglass.connect.output import OutputConnector
from tideglass.connect.source import StreamInput
from tideglass.connect.spec import ReferenceSpec
from tideglass.job.start.decision import StartMode, StartRequest
from tideglass.job.work_layout import Layout
from tideglass.project.input_option import InputOption, named_place
from tideglass.project.settings import JobSettings
from tideglass.spark.executors import Executors, this_machine
from tideglass.storage import AnyPath, StoragePath


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a user may choose for a run.

    inputs: by name, the files of `--input`: a path, or one with more to say of its files.
    outputs: by name, what `--output` says: a directory, or "console".
    once: the inputs are finished; run to their end and flush.
    run_directory: the job directory; None for the project's own.
    fresh: forget earlier runs, replace their rows.
    overwrite: replace rows of other jobs, too.
    cores: of this machine; None for all of them.
    key_groups: pieces the keys of a stage are split into; None for as many as the job had, or one for each
        core that runs tasks.
    batch_bytes: how much input a batch may take.
    idle_seconds: how often an input without events reports its idle time.
    output_format: of files of outputs the project does not name.
    start_mode, start_at_ticks, accept_partial: see `StartRequest`.
    live: the topics of the project are read and written, not the files that stand for them.
    packages: Maven coordinates of Spark's connector for Kafka; "" for the one that belongs to this Spark.
    jars: a folder that holds the connector instead; None for none.
    page_url: address of the page that shows this run, without its token; None: it has none.
    ui: Spark serves its own UI, which leads to that page.
    master: of the cluster whose executors run the tasks, as Spark spells it; None: what spark-submit or
        spark-defaults.conf says, else this machine.
    conf: settings of Spark.
    output_timeout_seconds: how long a batch waits for an output that does not take its rows; None: five
        minutes with `once`, else until the run is stopped.
    arguments: those of `tideglass run` that say the same, for the journal; None for another command.
    """

    inputs: Mapping[str, Path | StoragePath | InputOption] = field(
        default_factory=dict[str, Path | StoragePath | InputOption]
    )
    outputs: Mapping[str, str] = field(default_factory=dict[str, str])
    once: bool = False
    run_directory: AnyPath | None = None
    fresh: bool = False
    overwrite: bool = False
    cores: int | None = None
    key_groups: int | None = None
    batch_bytes: int = 256 * 1024 * 1024
    idle_seconds: float = 1.0
    output_format: str = "json"
    start_mode: StartMode | None = None
    start_at_ticks: int | None = None
    accept_partial: bool = False
    live: bool = False
    packages: str = ""
    jars: Path | None = None
    page_url: str | None = None
    ui: bool = False
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict[str, str])
    output_timeout_seconds: float | None = None
    arguments: tuple[str, ...] | None = None

    @property
    def start(self) -> StartRequest:
        return StartRequest(self.start_mode, self.start_at_ticks, self.fresh, self.accept_partial)

    def input_option(self, name: str) -> InputOption | None:
        """The files named for an input, whatever the case of its name."""
        found = next((each for key, each in self.inputs.items() if key.casefold() == name.casefold()), None)
        return (
            found if found is None or isinstance(found, InputOption) else InputOption(named_place(str(found)))
        )


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job ready to run.

    name: of the project.
    compiled: the query and what is to be run of it.
    settings: of the job, as far as the run uses them.
    inputs: those that tideglass reads itself, by name.
    outputs: by name.
    run_directory: where state and journals are.
    options: what the user has chosen.
    references: reference inputs, by name.
    topics: the inputs that Spark's connector reads, by name.
    warnings: what a user should know of the inputs.
    executors: what runs the tasks.
    """

    name: str
    compiled: Compiled
    settings: JobSettings
    inputs: Mapping[str, StreamInput]
    outputs: Mapping[str, OutputConnector]
    run_directory: AnyPath
    options: RunOptions
    references: Mapping[str, ReferenceSpec] = field(default_factory=dict[str, ReferenceSpec])
    topics: Mapping[str, TopicInput] = field(default_factory=dict[str, TopicInput])
    warnings: tuple[str, ...] = ()
    executors: Executors = field(default_factory=this_machine)

    @property
    def layout(self) -> Layout:
        """How the work of the run is split."""
        found = self.executors
        return Layout(found.count, found.cores, self.compiled.topology.key_groups, found.notes)
