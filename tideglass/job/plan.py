"""What a run of a project would be: its query compiled, and where each input and output is.

project + options ──plan_job──▶ JobPlan
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeVar

from tideglass.bind.catalog import InputInfo, metadata_in
from tideglass.compile import bind_query
from tideglass.connect.files.blob_input import BlobInput
from tideglass.connect.files.input import FileInput
from tideglass.connect.files.input_pattern import InputPattern, split_pattern
from tideglass.connect.files.partitioned_output import PartitionedFileOutput
from tideglass.connect.formats.table import format_of
from tideglass.connect.output import OutputConnector
from tideglass.connect.reference.pattern import is_pattern
from tideglass.connect.source import InputConnector
from tideglass.connect.spec import InputSpec, ReferenceSpec
from tideglass.core.bounds import ANYWHERE
from tideglass.core.errors import InputError, ProjectError
from tideglass.core.file_names import folder_name
from tideglass.core.types import ARRIVAL, BLOB_NAME, EVENT_HUB, PARTITION
from tideglass.job.arrival_warnings import arrival_warnings
from tideglass.job.directory import JobDirectory
from tideglass.job.options import JobPlan, RunOptions
from tideglass.job.start.manifest import read_manifest
from tideglass.plan.topology import Topology
from tideglass.project.input_option import InputOption, hint_of_path
from tideglass.project.inputs import OUTSIDE, ProjectInput
from tideglass.project.outputs import local_output
from tideglass.project.project import Project
from tideglass.spark.executors import Executors, this_machine
from tideglass.storage import StoragePath, storage_path

_Found = TypeVar("_Found")


def plan_job(
    project: Project,
    options: RunOptions,
    executors: Callable[[], Executors] | None = None,
    *,
    only: str | None = None,
) -> JobPlan:
    """What a run of the project would be. Raises QueryError or ProjectError; starts nothing.

    only: the input that is looked at; the others, reference data and outputs are left out, and need not be
    there.
    executors: of the cluster it runs on, asked once the query is known to be right, since they may be waited
    for; None: it runs on this machine.
    The query is bound once. How its inputs are read decides which time policies it is placed with.
    """
    directory = JobDirectory.of_project(project.folder, options.run_directory)
    query = bind_query(
        project.query,
        project.settings,
        inputs=_known_inputs(project, options) or None,
        functions=project.scripts,
        outputs=tuple(project.outputs) or None,
    )
    names = [name for name in query.plan.inputs if only is None or name.casefold() == only.casefold()]
    live = _live_inputs(project, options, names)
    topics = {name: topic for name, each in live.items() if (topic := each.as_topic()) is not None}
    files = {name: _input_spec(project, options, name) for name in names if name not in live}
    streams = {
        name: stream.until_its_end() if options.once else stream
        for name, each in live.items()
        if (stream := each.as_stream()) is not None
    }
    read = query.plan.references if only is None else ()
    references = {name: _reference_spec(project, options, name) for name in read}
    settings = project.settings
    if not (live or options.inputs or any(spec.has_arrivals for spec in files.values())):
        # The service's tools apply no policies to local files (`asa.md` 10.1).
        settings = settings.without_policies()
    runs_on = this_machine(options.cores) if executors is None else executors()
    compiled = query.place(settings, _key_groups(directory, options, runs_on))
    written = compiled.topology.outputs if only is None else ()
    outputs = {name: _output(project, options, name) for name in written}
    _check_outputs(outputs, options)
    _check_written_once(outputs, compiled.topology)
    return JobPlan(
        name=project.name,
        compiled=compiled,
        settings=settings,
        inputs={
            name: streams[name] if name in streams else FileInput(files[name])
            for name in names
            if name not in topics
        },
        outputs=outputs,
        run_directory=directory.path,
        options=options,
        references=references,
        topics=topics,
        warnings=tuple(arrival_warnings(compiled.topology, files, options)),
        executors=runs_on,
    )


def _known_inputs(project: Project, options: RunOptions) -> dict[str, InputInfo]:
    """The project's inputs, and those that are named for this run alone."""
    known = {
        name: InputInfo(name, each.kind, metadata=_metadata(each, options.input_option(name), options.live))
        for name, each in project.inputs.items()
    }
    others = [name for name in options.inputs if _find(known, name) is None]
    return known | {
        name: InputInfo(name, metadata=_metadata(None, options.input_option(name), live=False))
        for name in others
    }


def _metadata(project_input: ProjectInput | None, option: InputOption | None, live: bool) -> frozenset[str]:
    """Names of the metadata an input has, with the files a user names for it."""
    names = frozenset[str]() if project_input is None else project_input.metadata(live and option is None)
    if option is None:
        return names
    if option.partitions == "one":
        names -= metadata_in(PARTITION)
    arrival = [] if option.arrival is None else [ARRIVAL]
    if split_pattern(str(option.path)) is not None:
        arrival += [BLOB_NAME, *([PARTITION] if "{partition}" in str(option.path).lower() else [])]
    if option.capture is not None:
        arrival = [ARRIVAL, EVENT_HUB, *([] if option.partitions == "one" else [PARTITION])]
    return names | metadata_in(*arrival, *([PARTITION] if option.partitions == "folders" else []))


def _key_groups(directory: JobDirectory, options: RunOptions, runs_on: Executors) -> int:
    """As many as the user asks for, else as the job's state has, so that another machine may go on with it.

    A first run has one for each core that runs its tasks.
    """
    if options.key_groups:
        return options.key_groups
    before = None if options.fresh else read_manifest(directory.manifest)
    if before is not None and before.identity is not None:
        return before.identity.key_groups
    return runs_on.cores


def _live_inputs(project: Project, options: RunOptions, names: Iterable[str]) -> dict[str, InputConnector]:
    """The inputs that are read where the project does: those of a live run without files named for them."""
    known = {name: _find(project.inputs, name) for name in names if options.input_option(name) is None}
    return {
        name: each.live.named(name)
        for name, each in known.items()
        if options.live and each is not None and each.live is not None
    }


def _input_spec(project: Project, options: RunOptions, name: str) -> InputSpec:
    option = options.input_option(name)
    known = _find(project.inputs, name)
    path = storage_path(_checked_path("input", name, option, known))
    pattern = None if option is None else _pattern(path, known)
    if pattern is not None:
        path, pattern = pattern
    if not path.exists():
        hint = "" if option is None else hint_of_path(option.path)
        raise ProjectError(
            f"the input {name!r} reads {path}, which does not exist" + (f"\n  hint: {hint}" if hint else "")
        )
    arrival, arrival_format = _arrival(option, known)
    partitions = None if option is None else option.partitions
    if partitions is None and known is not None and path.is_dir():
        partitions = known.partitions
    capture = None if option is None else option.capture
    if capture is not None and partitions is None and path.is_dir():
        partitions = "folders"  # their paths have a folder for each
    delimiter = None if option is None else option.delimiter
    rotation = None if option is None else option.rotation
    rotation = rotation or ("none" if known is None else known.rotation)
    if rotation == "copytruncate" and not path.is_file():
        raise ProjectError(
            f"the input {name!r} has the rotation copytruncate, which is of one file, and reads {path}\n"
            "  hint: name the file that is written to, or rotate by renaming"
        )
    return InputSpec.model_validate(
        {
            "name": name,
            # Spark's processes may have started in another folder.
            "path": path.local.absolute() if path.is_local else path,
            "format": _format(option, known, path),
            "partitions": "folders" if partitions == "folders" else "none",
            "arrival": None if arrival is None else {"path": arrival.split("."), "format": arrival_format},
            "delimiter": delimiter or ("," if known is None else known.delimiter),
            "finished": options.once,
            "rotation": rotation,
            "bounds": ANYWHERE if option is not None or known is None else known.bounds,
            "pattern": pattern,
            "capture": capture,
            "compression": _compression_of_messages(known) if capture is not None else None,
        }
    )


def _pattern(path: StoragePath, known: ProjectInput | None) -> tuple[StoragePath, InputPattern] | None:
    """The folder and the pattern of a path with {date}, {time} or {partition}; None for another one.

    The formats are those of the project's blobs. Raises ProjectError for a pattern that is none.
    """
    split = split_pattern(str(path))
    if split is None or path.exists():
        return None
    live = None if known is None else known.live
    try:
        pattern = (
            replace(live.pattern, text=split[1]) if isinstance(live, BlobInput) else InputPattern(split[1])
        )
    except InputError as error:
        raise ProjectError(str(error)) from None
    return storage_path(split[0]), pattern


def _compression_of_messages(known: ProjectInput | None) -> str | None:
    """How the messages of a hub are compressed, which Capture writes as they are."""
    topic = None if known is None or known.live is None else known.live.as_topic()
    return None if topic is None or topic.compression == "none" else topic.compression


def _checked_path(
    what: str, name: str, option: InputOption | None, known: ProjectInput | None
) -> Path | StoragePath:
    """The files named for an input, else the project's. Raises ProjectError where there are none."""
    if option is not None:
        return option.path
    named_by_time = ", where PATH may hold {date} and {time}" if what == "reference input" else ""
    live = ""
    if known is not None and (known.live is not None or known.live_reference is not None):
        is_topic = known.live is not None and known.live.as_topic() is not None
        live = f", or --live to read {'the topic' if is_topic else known.origin}"
    hint = f"\n  hint: say --input {name}=PATH{named_by_time}{live}"
    if known is not None and known.outside is not None:
        raise ProjectError(f"the {what} {name!r} reads {known.outside}, which {OUTSIDE.format(name=name)}")
    if known is not None and known.unreadable is not None:
        raise ProjectError(f"the {what} {name!r} cannot be read: {known.unreadable}{hint}")
    if known is None or known.path is None:
        origin = f"it is {known.origin} in the project" if known else "the project does not name it"
        raise ProjectError(f"the {what} {name!r} has no files: {origin}{hint}")
    return known.path


def _arrival(option: InputOption | None, known: ProjectInput | None) -> tuple[str | None, str]:
    """The field with the arrival time and its format: by the user's option, else by the project."""
    if option is not None and option.arrival is not None:
        return option.arrival, option.arrival_format or "iso"
    return (None, "iso") if known is None else (known.arrival, known.arrival_format)


def _reference_spec(project: Project, options: RunOptions, name: str) -> ReferenceSpec:
    option = options.input_option(name)
    known = _find(project.inputs, name)
    patterns = {} if known is None else {"date_format": known.date_format, "time_format": known.time_format}
    if option is not None and (option.arrival is not None or option.partitions is not None):
        raise ProjectError(
            f"--input {name}: reference data has neither times of arrival nor partitions; name the path alone"
        )
    if known is not None and known.sql is not None:
        connection = known.sql.connection if option is None else _uri(option.path)
        if connection is not None:
            return ReferenceSpec.model_validate(
                {"name": name, "sql": {**asdict(known.sql), "connection": connection}}
            )
    live = known.live_reference if options.live and option is None and known is not None else None
    bounds = ANYWHERE if option is not None or live is not None or known is None else known.bounds
    path = (
        live.place()
        if live is not None
        else storage_path(_checked_path("reference input", name, option, known))
    )
    if not is_pattern(path) and not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise ProjectError(
            f"the reference input {name!r} reads {path}, which {what}\n"
            "  hint: name one file, or files by the times from which they hold with {date} and {time}"
        )
    file_format = None if known is None or format_of(path) is not None else known.file_format
    delimiter = "," if known is None else known.delimiter
    if option is not None:
        file_format, delimiter = option.file_format or file_format, option.delimiter or delimiter
    return ReferenceSpec.model_validate(
        {"name": name, "path": path.resolve(), "format": file_format, "delimiter": delimiter, **patterns}
        | {"bounds": bounds}
    )


def _uri(path: Path | StoragePath) -> str | None:
    """The URI of PostgreSQL that a path of the command line is; None for a path of files."""
    match = re.fullmatch(r"(postgres(?:ql)?):/+(.*)", str(path))
    return None if match is None else f"{match[1]}://{match[2]}"


def _format(option: InputOption | None, known: ProjectInput | None, path: StoragePath) -> str | None:
    """The format of the user's option; None if file names show it; else the project's format of the input."""
    if option is not None and option.file_format is not None:
        return option.file_format
    if known is None:
        return None
    first = path if path.is_file() else next(iter(_visible_files(path)), None)
    named = None if first is None or str(path) == str(known.path) else format_of(first)
    return known.file_format if named is None else None


def _visible_files(folder: StoragePath) -> Iterator[StoragePath]:
    """Files below a folder whose names show a format and hide nothing."""
    if folder.is_local:
        found = folder.local.rglob("[!._]*.*")
        return (storage_path(each) for each in found if each.is_file())
    listed = (folder / each.name for each in folder.list(recursive=True) if not each.is_folder)
    return (each for each in listed if each.name[0] not in "._" and "." in each.name)


def _output(project: Project, options: RunOptions, name: str) -> OutputConnector:
    chosen = _find(options.outputs, name)
    known = _find(project.outputs, name)
    if options.live and chosen is None and known is not None and known.connector is not None:
        return known.connector.at_level(project.settings.compatibility_level)
    if options.live and chosen is None and known is not None and known.not_live is not None:
        raise ProjectError(
            f"the output {name!r} cannot be written by a run with --live: {known.not_live}\n"
            f"  hint: complete its file, or say --output {name}=PATH"
        )
    file_format = options.output_format if known is None else known.file_format
    if chosen:
        return local_output(name, chosen, file_format)
    path = project.folder / "LocalRunOutputs" / folder_name(name)
    if not project.bounds.hold(path):
        raise ProjectError(
            f"the rows of {name!r} go to {path}, a link that leads out of the project\n"
            f"  hint: name a folder with --output {name}=PATH, or say --allow-outside"
        )
    return local_output(name, path, file_format)


def _check_outputs(outputs: Mapping[str, OutputConnector], options: RunOptions) -> None:
    """Raises ProjectError for an `--output` the query does not write, and for two outputs in one folder."""
    unknown = [name for name in options.outputs if _find(outputs, name) is None]
    if unknown:
        raise ProjectError(
            f"--output names {', '.join(map(repr, unknown))}, but the query writes to {', '.join(outputs)}"
        )
    output_of: dict[StoragePath, str] = {}
    for name, output in outputs.items():
        path = output.own_folder()
        if path is not None and output_of.setdefault(path, name) != name:
            raise ProjectError(
                f"the outputs {output_of[path]!r} and {name!r} are both written to {path}\n"
                f"  hint: name another folder with --output {name}=PATH"
            )


def _check_written_once(outputs: Mapping[str, OutputConnector], topology: Topology) -> None:
    """Raises ProjectError for an output that waits for partitions of substreams (`asa.md` 6.5)."""
    once = [
        name for name, each in outputs.items() if isinstance(each, PartitionedFileOutput) and each.is_once
    ]
    if once and any(reader.over for reader in topology.readers):
        raise ProjectError(
            f"the output {once[0]!r} is written once for each time partition, which needs one time for all "
            "rows; TIMESTAMP BY ... OVER gives each substream its own\n"
            '  hint: leave OVER out, or write with "BlobWriteMode": "Append"'
        )


def _find(named: Mapping[str, _Found], name: str) -> _Found | None:
    """The entry of that name, whatever its case."""
    return next((value for key, value in named.items() if key.casefold() == name.casefold()), None)
