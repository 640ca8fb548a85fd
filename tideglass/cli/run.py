"""`tideglass run PROJECT`: run a job on Spark in this process, with live progress."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tideglass.cli.job import (
    AllowOutsideOption,
    ProjectArgument,
    RunDirOption,
    batches_text,
    catch_up_line,
    job_directory,
    start_lines,
    wrapped,
)
from tideglass.cli.notes import INPUT_HELP
from tideglass.cli.page import RunPageOption
from tideglass.cli.spark_options import (
    ConfOption,
    MasterOption,
    UiOption,
    conf_of,
    kept_conf,
    overridden_settings,
)
from tideglass.core.time import span_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from tideglass.job.directory import JobDirectory
    from tideglass.job.options import JobPlan, RunOptions
    from tideglass.job.outputs import BatchRows
    from tideglass.job.report.catch_up import CatchUp
    from tideglass.job.report.metrics import Metrics, PartitionFacts
    from tideglass.job.report.profile import Profile
    from tideglass.job.report.reporter import StatusObserver
    from tideglass.job.report.run_journal import RunStart
    from tideglass.page.server import PageServer

#: Options for the start of one run; a restart does not repeat them.
ONCE_ONLY = ("fresh", "overwrite", "start", "accept_partial")
#: How often a run that is not on a terminal prints how far it has caught up.
REPORT_SECONDS = 10.0


def run(
    context: typer.Context,
    project: ProjectArgument = Path("."),
    inputs: Annotated[list[str] | None, typer.Option("--input", metavar="NAME=PATH", help=INPUT_HELP)] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option("--output", metavar="NAME=PATH", help="Folder of an output, or NAME=console."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="The input is finished: read all, flush, end.")
    ] = False,
    run_dir: RunDirOption = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--start",
            metavar="MODE",
            help="Begin the output: now, at a time (ISO), last (stopped), beginning.",
        ),
    ] = None,
    accept_partial: Annotated[
        bool,
        typer.Option("--accept-partial", help="Start though a source no longer holds all that is needed."),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start a new run; its rows replace old ones.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that another run left in the outputs.")
    ] = False,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores of this machine to use.")] = None,
    key_groups: Annotated[
        int | None, typer.Option(min=1, help="Pieces a stage's keys are split into.")
    ] = None,
    batch_mb: Annotated[int, typer.Option(min=1, help="Input a batch may take, in MB.")] = 256,
    live: Annotated[
        bool, typer.Option("--live", help="Read and write the Kafka topics of the project.")
    ] = False,
    packages: Annotated[
        str, typer.Option(metavar="COORDINATES", help="Maven packages of Spark's Kafka connector.")
    ] = "",
    jars: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder with the connector's jars instead.")
    ] = None,
    endpoints: Annotated[
        list[str] | None,
        typer.Option("--endpoint", metavar="HOST=URL", help="What stands in for a host of Azure."),
    ] = None,
    output_timeout: Annotated[
        float | None,
        typer.Option(
            "--output-timeout",
            metavar="SECONDS",
            min=0,
            help="How long a batch waits for an output that fails; with --once 300, else no end.",
        ),
    ] = None,
    allow_outside: AllowOutsideOption = False,
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", min=0, max=65535, help="Serve metrics to Prometheus; 0: a free port."),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option("--metrics-host", metavar="ADDRESS", help="Where the metrics are served.")
    ] = "127.0.0.1",
    metrics_file: Annotated[
        Path | None, typer.Option("--metrics-file", metavar="FILE", help="Add metrics to it as JSON lines.")
    ] = None,
    page: RunPageOption = None,
    ui: UiOption = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the summary.")] = False,
    remote: Annotated[str | None, typer.Option("--remote", hidden=True)] = None,
    profiled: Annotated[
        bool, typer.Option("--profile", help="Say at the end where the time of the batches went.")
    ] = False,
) -> None:
    """Run a job from its inputs to its outputs; a stopped or killed run goes on where it was."""
    from tideglass.project.project import load_project
    from tideglass.spark.session.session_kind import refuse_remote

    if remote is None and master is not None and master.startswith("sc://"):
        remote = master
    refuse_remote(remote, os.environ)
    if endpoints:
        from tideglass.connect.azure.endpoints import ENDPOINTS, with_endpoints

        os.environ[ENDPOINTS] = with_endpoints(endpoints, os.environ)
    loaded = load_project(project, allow_outside=allow_outside)
    served = None if page is None else page_of(page, job_directory(project, run_dir))
    settings = conf_of(conf)
    if not live:  # else the job knows which libraries Spark needs
        from tideglass.spark.session.libraries import Libraries
        from tideglass.spark.session.spark_session import begin_session
        from tideglass.spark.session.spark_settings import SessionOptions

        directory = job_directory(project, run_dir)
        needed = Libraries(directory=directory.path)
        begin_session(SessionOptions(cores, directory.spark_log, needed, ui, master, settings))
    # The longest of the start goes on beside these imports.
    from tideglass.cli.output_notices import OutputNotices
    from tideglass.cli.profile import profile_tables
    from tideglass.job.directory import JobDirectory
    from tideglass.job.options import RunOptions
    from tideglass.job.plan import plan_job
    from tideglass.job.report.profile import Profile
    from tideglass.job.run_session import executors_for
    from tideglass.job.start.decision import asked_start
    from tideglass.project.input_option import input_options
    from tideglass.telemetry.exports import Exports, observers

    mode, at_ticks = asked_start(start)
    options = RunOptions(
        inputs=input_options(inputs),
        outputs=pairs(outputs, "--output"),
        once=once,
        run_directory=run_dir,
        fresh=fresh,
        overwrite=overwrite,
        cores=cores,
        key_groups=key_groups,
        batch_bytes=batch_mb * 1024 * 1024,
        start_mode=mode,
        start_at_ticks=at_ticks,
        accept_partial=accept_partial,
        live=live,
        packages=packages,
        jars=jars,
        page_url=None if served is None else served.bare_url,
        ui=ui,
        master=master,
        conf=settings,
        output_timeout_seconds=output_timeout,
        arguments=arguments_of(context),
    )
    from rich.console import Console

    console = Console(highlight=False)
    # Before the query is compiled: what is noted is often why that fails.
    for warning in loaded.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False)
    for notice in loaded.unsupported:
        console.print(f"note: {notice}", style="dim", markup=False)
    for notice in overridden_settings(settings):
        console.print(f"note: {notice}", style="yellow", markup=False, soft_wrap=True)
    job = plan_job(loaded, options, executors_for(loaded, options))
    for warning in job.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False)
    for warning in job.compiled.warnings:
        console.print(warning.render(loaded.query), style="yellow", markup=False)
    profile = Profile(job.compiled.topology) if profiled else None
    exports = Exports(metrics_port, metrics_host, metrics_file)
    directory = JobDirectory.at(job.run_directory)
    notices = OutputNotices(console)
    with served or nullcontext(), observers(directory, exports) as found:
        if served is not None:
            console.print(f"page: {served.url}", markup=False, soft_wrap=True)
        if found.metrics_url is not None:
            console.print(f"metrics at {found.metrics_url}", markup=False)
        metrics = run_with_progress(
            job, console, quiet=quiet, profile=profile, observers=[*found.all, notices]
        )
    console.print(progress_table(metrics))
    for text, count in failures(metrics).items():
        console.print(f"{count:,} rows left out, the first by\n{text}", style="yellow", markup=False)
    for name, output in job.outputs.items():
        rows, before = metrics.output_rows.get(name, 0), metrics.rows_before.get(name, 0)
        in_all = f", {rows + before:,} since the state began" if before else ""
        console.print(f"{name}: {rows:,} rows to {output.describe()}{in_all}", markup=False)
    if profile is not None:
        for table in profile_tables(profile):
            console.print(table)
        path = directory.profile
        profile.write(path)
        console.print(f"profile in {path}", markup=False)


def page_of(place: str, directory: JobDirectory) -> PageServer:
    """The page of a run, its port taken. Raises TideglassError where it cannot be served."""
    from tideglass.cli.page import run_address
    from tideglass.page.server import PageServer, page_of_run

    return PageServer(page_of_run(directory), run_address(place))


def run_with_progress(
    job: JobPlan,
    console: Console,
    *,
    quiet: bool = False,
    profile: Profile | None = None,
    observers: Sequence[StatusObserver] = (),
) -> Metrics:
    """Run the job and show how far it is: live on a terminal, elsewhere a line for each batch with rows."""
    from rich.live import Live

    from tideglass.connect.console import show
    from tideglass.job.runner import run as run_job

    reported_seconds = began = time.monotonic()
    caught_up = False

    def report_catching_up(catch_up: CatchUp | None) -> None:
        nonlocal reported_seconds, caught_up
        if catch_up is None or caught_up or not catch_up.has_backlog:
            return
        caught_up = catch_up.done
        now = time.monotonic()
        if caught_up:
            took = span_text(catch_up.seconds)
            print_lines([f"caught up with what was there in {took}: {catch_up.events:,} events"])
        elif live is None and now - reported_seconds > REPORT_SECONDS:
            reported_seconds = now
            print_lines([catch_up_line(catch_up.status(now))])

    def print_lines(lines: Sequence[str]) -> None:
        """A log has lines as long as they are."""
        shown = wrapped(lines, console.width if console.is_terminal else None)
        console.print("\n".join(shown), markup=False, soft_wrap=True)

    shows = console.is_terminal and not quiet
    live = Live(console=console, refresh_per_second=4, transient=True) if shows else None
    seen = 0

    def watch(batch_id: int, emitted: BatchRows, metrics: Metrics) -> None:
        nonlocal began, seen
        now = time.monotonic()
        seen = max(seen, metrics.events_before)
        rate = (metrics.events - seen) / max(now - began, 1e-9)
        began, seen = now, metrics.events
        for name, table in emitted.shown:
            show(table, name, batch_id, console)
        rows = sum(emitted.rows.values())
        if live is not None:
            live.update(progress(metrics, rate))
        elif not quiet and (rate or rows):
            console.print(f"batch {batch_id}: {metrics.events:,} events, {rate:,.0f}/s, {rows:,} rows out")
        if not quiet:
            report_catching_up(metrics.catch_up)

    def on_start(start: RunStart) -> None:
        if not quiet:
            print_lines(start_lines(start))

    if live is None:
        return run_job(job, watch, on_start=on_start, profile=profile, observers=observers)
    with live:
        live.update("starting Spark …")
        return run_job(job, watch, on_start=on_start, profile=profile, observers=observers)


def arguments_of(context: typer.Context) -> tuple[str, ...]:
    """The user's options as arguments for another run; without those that concern this run only."""
    from click.core import Argument, Option, ParameterSource

    words: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        value: Any = context.params.get(name)
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE or name in ONCE_ONLY:
            continue
        if isinstance(parameter, Argument):
            words.append(str(value))
        elif isinstance(parameter, Option) and parameter.is_flag:
            words.append(parameter.opts[0])
        else:
            for each in value if parameter.multiple else (value,):
                words += [parameter.opts[0], kept_conf(str(each)) if name == "conf" else str(each)]
    return tuple(words)


def failures(metrics: Metrics) -> dict[str, int]:
    """How many rows were left out because they made the query fail, by what was wrong with one of them.

    Rows of one operator are reported once, however many tasks left some out.
    """
    first: dict[int, str] = {}
    found: dict[str, int] = {}
    for (_, op_id), failed in sorted(metrics.failed_rows.items()):
        text = first.setdefault(op_id, failed.message)
        found[text] = found.get(text, 0) + failed.rows
    return found


def pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """`NAME=PATH` texts as a dict. Raises ProjectError for one that is none."""
    from tideglass.core.errors import ProjectError

    result: dict[str, str] = {}
    for text in texts or ():
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise ProjectError(f"{option} {text!r} is not NAME=PATH")
        result[name] = path
    return result


def progress(metrics: Metrics, rate: float | None = None) -> RenderableType:
    """The table, and below it a bar while the run catches up with what was there when it started."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table, catch_up = progress_table(metrics, rate), metrics.catch_up
    if catch_up is None or catch_up.done:
        return table
    bar = Table.grid()
    bar.add_row(ProgressBar(total=1.0, completed=catch_up.share, width=60))
    return Group(table, bar, catch_up_line(catch_up.status(time.monotonic())))


def progress_table(metrics: Metrics, rate: float | None = None) -> Table:
    """Per input partition: events, what the policies did, watermark and delay. Fits 80 columns.

    early, late, ooo (out of order): as the service's metrics count them. untimed: without a usable
    timestamp or key. bad: refused by the deserializer.
    """
    from rich import box
    from rich.table import Table

    title = f"{metrics.events - metrics.events_before:,} events in {batches_text(metrics.batches)}"
    title += f", {rate:,.0f}/s" if rate else ""
    title += f", {metrics.events:,} events since the state began" if metrics.events_before else ""
    failed = sum(each.rows for each in metrics.failed_rows.values())
    title += f", {failed:,} rows left out" if failed else ""
    # No padding: the box itself puts a blank between columns, and eighty are soon full.
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", padding=0)
    for name in ("input", "part", "events", "early", "late", "ooo", "untimed", "bad"):
        table.add_column(name, justify="left" if name in ("input", "part") else "right", overflow="fold")
    table.add_column("watermark", no_wrap=True)
    table.add_column("delay", justify="right", no_wrap=True)
    for facts in sorted(metrics.partitions.values(), key=lambda f: (f.input, f.reader, f.partition)):
        table.add_row(*_cells(facts))
    return table


def _cells(facts: PartitionFacts) -> list[str]:
    from tideglass.project.settings import format_duration

    counters, names = facts.counters, facts.counters.metrics()
    delay = facts.delay_ticks
    return [
        facts.input,
        facts.partition,
        f"{counters.input_events + facts.rejected:,}",
        f"{names['EarlyInputEvents']:,}",
        f"{names['LateInputEvents']:,}",
        f"{names['DroppedOrAdjustedEvents']:,}",
        f"{counters.dropped_bad_timestamp + counters.dropped_null_key:,}",
        f"{facts.rejected:,}",
        watermark_text(facts),
        "-" if facts.final or delay is None else format_duration(delay // 10_000_000 * 10_000_000),
    ]


def watermark_text(facts: PartitionFacts) -> str:
    """The watermark to the second, without the year; in words where it is no time."""
    from tideglass.core.time import BEFORE_ALL_TICKS, format_ticks

    if facts.final:
        return "end of input"
    if facts.watermark_ticks == BEFORE_ALL_TICKS:
        return "none yet"
    return format_ticks(facts.watermark_ticks)[5:19].replace("T", " ")


__all__ = ["RunOptions", "progress_table", "run"]
