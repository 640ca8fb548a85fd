"""The Spark session of a run: what it is made with, and the executors it has."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tideglass.job.directory import JobDirectory
from tideglass.job.options import JobPlan, RunOptions
from tideglass.project.project import Project
from tideglass.spark.executors import Executors
from tideglass.storage import StorageOptions, StoragePath, storage_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tideglass.connect.output import OutputConnector
    from tideglass.spark.session.libraries import Libraries
    from tideglass.spark.session.spark_settings import SessionOptions


def session_options(options: RunOptions, directory: JobDirectory, needed: Libraries | None) -> SessionOptions:
    """How the session of a run is made. needed: the Java libraries of its inputs and outputs."""
    from tideglass.spark.session.spark_settings import SessionOptions

    return SessionOptions(
        options.cores, directory.spark_log, needed, options.ui, options.master, dict(options.conf)
    )


def executors_for(
    project: Project, options: RunOptions, shared: SparkSession | None = None
) -> Callable[[], Executors] | None:
    """Asks the cluster of a run for its executors; None where the run's own session is of this machine.

    shared: a session with other work to do, too. The call waits for the executors that are expected, and
    raises TideglassError where there are none or their Python cannot run a query. What Spark's configuration
    says of stores is known to this process when this returns, as the plan looks at the job directory.
    Raises TideglassError for options that contradict each other, and for a session of Spark Connect.
    """
    from tideglass.spark.session.hadoop_stores import pass_on
    from tideglass.spark.session.session_kind import refuse_connect
    from tideglass.spark.session.spark_settings import SessionOptions, chosen_settings, is_local, master_of

    _enter_stores(project, options)
    if shared is not None:
        refuse_connect(shared, "a project")
        pass_on(dict(shared.sparkContext.getConf().getAll()))
        return lambda: _executors_of(shared)
    chosen = chosen_settings(options.conf)
    pass_on(chosen)
    if is_local(master_of(SessionOptions(options.cores, master=options.master), chosen)):
        return None

    def ask() -> Executors:
        from tideglass.spark.session.spark_session import open_session

        directory = JobDirectory.of_project(project.folder, options.run_directory)
        return _executors_of(
            open_session(session_options(options, directory, _libraries_of(project, options, directory)))
        )

    return ask


def _enter_stores(project: Project, options: RunOptions) -> None:
    """Make what lets live inputs and outputs into object stores known to this process and those it starts."""
    if not options.live:
        return
    found: dict[str, str] = {}
    inputs = [each for one in project.inputs.values() for each in (one.live, one.live_reference)]
    for each in (*inputs, *_connectors(project, options)):
        if each is not None:
            found |= each.storage_settings()
    StorageOptions(tuple(sorted(found.items()))).put_into(os.environ)


def _connectors(project: Project, options: RunOptions) -> list[OutputConnector]:
    """Of outputs that nothing stands in for."""
    named = {name.casefold() for name in options.outputs}
    return [
        each.connector
        for name, each in project.outputs.items()
        if each.connector is not None and name.casefold() not in named
    ]


def _executors_of(session: SparkSession) -> Executors:
    """Once they are there and their Python is known to fit."""
    from tideglass.spark.executors import executors_of
    from tideglass.spark.interpreter import see_interpreter, see_planner

    found = executors_of(session)
    see_interpreter(session)
    see_planner(session)
    return found


def libraries(job: JobPlan) -> Libraries | None:
    """What Spark needs besides its own: for topics, and for a job directory in an object store."""
    topics = bool(job.topics) or any(each.kafka_options is not None for each in job.outputs.values())
    return _libraries(topics, storage_path(job.run_directory), job.options)


def _libraries_of(project: Project, options: RunOptions, directory: JobDirectory) -> Libraries | None:
    """What a run of a project may need, while it is not planned yet: a session of a cluster comes first."""
    inputs = (each.live for each in project.inputs.values())
    outputs = (each.connector for each in project.outputs.values())
    topics = any(each is not None and each.as_topic() is not None for each in inputs)
    topics = topics or any(each is not None and each.kafka_options is not None for each in outputs)
    return _libraries(options.live and topics, directory.path, options)


def _libraries(topics: bool, directory: StoragePath, options: RunOptions) -> Libraries | None:
    from tideglass.spark.session.libraries import Libraries, kafka_libraries

    if not topics:
        return None if directory.is_local else Libraries(directory=directory)
    return replace(kafka_libraries(options.packages, options.jars), directory=directory)
