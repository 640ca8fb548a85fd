"""The settings of Spark that a job wants, each with its reason, and those the user has chosen.

A user chooses by `--conf`, by spark-submit, or in `spark-defaults.conf`; what a user chooses holds, except
where rows depend on it (`REQUIRED`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tideglass.core.errors import TideglassError
from tideglass.spark.session.session_kind import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tideglass.spark.session.libraries import Libraries


@dataclass(frozen=True, slots=True)
class Required:
    """A value that no choice of a user replaces, since rows depend on it.

    why: ends the sentence "it is VALUE, since …".
    """

    value: str
    why: str

    def holds(self, value: str) -> bool:
        """Whether a value is this one; of a class its name alone counts, since platforms move it."""
        return value.rpartition(".")[2].lower() == self.value.rpartition(".")[2].lower()


#: What every query needs.
REQUIRED: Mapping[str, Required] = {
    "spark.sql.streaming.stateStore.providerClass": Required(
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "state of operators in Python lives in RocksDB only",
    ),
}
#: What a job needs.
REQUIRED_OF_JOBS: Mapping[str, Required] = {
    **REQUIRED,
    # The offset of an earlier batch may be one without rows; a batch without rows still moves watermarks.
    "spark.sql.streaming.noDataMicroBatches.enabled": Required(
        "false", "the job's own batches without events say how far time is"
    ),
    "spark.speculation": Required(
        "false", "two attempts at one task at a time would write the same files of a batch"
    ),
}
#: The number of key groups, which the start of a job decides.
PARTITIONS = "spark.sql.shuffle.partitions"

DAEMON = "spark.python.daemon.module"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"

#: What is faster so, in any session.
FASTER: Mapping[str, str] = {
    # A batch uploads the changes it made to the state, not the whole of it.
    CHANGELOG: "true",
    # Chunks are compressed already.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    # Workers start with everything imported, and those that have scanned go on with the stages: Spark keeps
    # processes apart by their environment, of which this setting becomes a part for stages only.
    DAEMON: "tideglass.spark.session.worker_daemon",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
#: What is convenient in a session of our own.
PREFERRED: Mapping[str, str] = {
    # Messages are few and large; nothing is to be planned anew between batches.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # How often a growing input is looked at when there is nothing new: listing a folder is not free.
    "spark.sql.streaming.pollingDelay": "200ms",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.metricsEnabled": "false",
}
#: The settings of a session of our own.
SETTINGS: Mapping[str, str] = {
    **{name: each.value for name, each in REQUIRED_OF_JOBS.items()},
    **FASTER,
    **PREFERRED,
}

#: On a local disk the default manager starts a helper process per file, 30 to 65 ms each; this one
#: writes a temporary file and renames it, which a local file system does atomically.
LOCAL_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

#: What Python's processes are started with, unless this process has it otherwise. Chunks of tens of megabytes
#: are made and dropped all the time. Left to itself, the C library gives their memory back to the system at
#: once and takes it anew, which cost a tenth of a scan's time; and of the allocators Arrow has, this one
#: keeps least and is the fastest for chunks.
WORKER_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(2 << 30),
    "ARROW_DEFAULT_MEMORY_POOL": "jemalloc",
}
_OF_EXECUTORS = "spark.executorEnv."
#: The same for processes on other machines.
EXECUTOR_ENVIRONMENT = {_OF_EXECUTORS + name: value for name, value in WORKER_ENVIRONMENT.items()}

#: A task whose Python process dies is run again, as on a cluster; alone in one process Spark would give
#: up at once. Its state and its staged files are only taken once the whole batch is done.
TASK_ATTEMPTS = 4
_THREADS = re.compile(r"local(?:\[\s*([^],]+?)\s*\])?")
_SECRET = re.compile(
    r"secret|password|token|access[.]?key|account[.]?key|credential|\bsas\b|storage_settings", re.IGNORECASE
)
#: In a session: its user has been warned of what is slower there.
_WARNED = "tideglass.warnedOfSlowness"
#: A line of Java's properties: name, separator, value.
_PROPERTY = re.compile(r"([^\s=:]+)\s*[=:\s]\s*(.*)")


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How a session of our own is made.

    cores: of this machine; None for all of them.
    log: file for what Spark and its workers print; it would otherwise fall between our own lines.
    libraries: Java libraries besides Spark's own; None for none.
    ui: Spark serves its own UI.
    master: of a cluster, as Spark spells it; None: what spark-submit or spark-defaults.conf says, else this
        machine.
    conf: settings of Spark the user has chosen.
    """

    cores: int | None = None
    log: Path | None = None
    libraries: Libraries | None = None
    ui: bool = False
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict[str, str])


def is_local(master: str) -> bool:
    """Whether tasks run on this machine, in the processes of the driver.

    >>> is_local("local[2,4]"), is_local("local-cluster[2,1,1024]"), is_local("spark://host:7077")
    (True, False, False)
    """
    return master.partition("[")[0] == "local"


def is_secret(name: str) -> bool:
    """Whether the value of a setting is neither printed nor kept.

    >>> is_secret("spark.hadoop.fs.s3a.secret.key"), is_secret("spark.executor.memory")
    (True, False)
    """
    return _SECRET.search(name) is not None


def master_of(options: SessionOptions, chosen: Mapping[str, str]) -> str:
    """The master, as Spark spells it. chosen: what the user has.

    Raises TideglassError for cores of this machine where tasks run on others, and for a server of Connect.

    >>> master_of(SessionOptions(cores=2), {}), master_of(SessionOptions(master="local[*]"), {})
    ('local[2,4]', 'local[*,4]')
    """
    master = options.master or chosen.get("spark.master") or f"local[{options.cores or '*'}]"
    if master.startswith("sc://"):
        raise TideglassError(
            f"{master} is a server of Spark Connect, where a project cannot run\n"
            "  hint: name the cluster's own master, or use tideglass.query in a session of Spark Connect"
        )
    if not is_local(master):
        if options.cores is not None:
            raise TideglassError(
                f"--cores counts cores of this machine, and tasks run on {master}\n"
                "  hint: --conf spark.cores.max=N, or spark.executor.instances and spark.executor.cores"
            )
        return master
    threads = _THREADS.fullmatch(master)  # none where it says how often a task is tried
    return master if threads is None else f"local[{threads[1] or 1},{TASK_ATTEMPTS}]"


def session_settings(options: SessionOptions, chosen: Mapping[str, str]) -> dict[str, str]:
    """The settings of a session, without those of its JVM. chosen: what the user has."""
    master = master_of(options, chosen)
    settings = {"spark.app.name": "tideglass", "spark.log.level": "ERROR", **SETTINGS}
    settings["spark.ui.enabled"] = "false"
    if not is_local(master):
        # The work is laid out for the executors there are when the job starts.
        settings |= {"spark.dynamicAllocation.enabled": "false", **EXECUTOR_ENVIRONMENT}
    settings |= chosen
    settings |= {name: each.value for name, each in REQUIRED_OF_JOBS.items()}
    settings["spark.master"] = master
    if options.ui:
        settings["spark.ui.enabled"] = "true"
    return settings


def overridden(chosen: Mapping[str, str], required: Mapping[str, Required]) -> tuple[str, ...]:
    """A line for each setting that a user has chosen and that does not hold.

    >>> overridden({"spark.speculation": "true"}, REQUIRED_OF_JOBS)[0][:62]
    'spark.speculation is false, not true, since two attempts at on'
    """
    return tuple(
        f"{name} is {each.value}, not {chosen[name]}, since {each.why}"
        for name, each in required.items()
        if not each.holds(chosen.get(name, each.value))
    )


def chosen_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """What the user has chosen: `conf` before spark-submit's settings, or else `spark-defaults.conf`.

    Raises TideglassError for a name in `conf` that is none of Spark's.
    """
    for name in conf:
        if not name.startswith("spark."):
            raise TideglassError(
                f"--conf {name} is no setting of Spark, whose names begin with spark.\n"
                f"  hint: one of Hadoop is spark.hadoop.{name}"
            )
    submitted = _submitted() if by_spark_submit() else defaults_file_settings()
    return {**submitted, **conf}


def by_spark_submit() -> bool:
    """Whether spark-submit has started this process, which then has a JVM with settings already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted() -> dict[str, str]:
    from pyspark import SparkConf, SparkContext

    context: Any = SparkContext
    context._ensure_initialized()
    return dict(SparkConf(loadDefaults=True, _jvm=context._jvm).getAll())


def defaults_file_settings() -> dict[str, str]:
    """Those in `spark-defaults.conf` of $SPARK_CONF_DIR, else of Spark's folder; none without the file."""
    from pyspark.find_spark_home import _find_spark_home  # pyright: ignore[reportPrivateUsage]

    folder = os.environ.get("SPARK_CONF_DIR")
    home = Path(folder) if folder else Path(_find_spark_home()) / "conf"
    try:
        text = (home / "spark-defaults.conf").read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    return properties(text.splitlines())


def properties(lines: Iterable[str]) -> dict[str, str]:
    r"""Settings in the format of Java's properties files, as Spark reads them.

    >>> properties(["# a comment", "spark.a  1", "spark.b=2 ", "spark.c: x\\", "  y"])
    {'spark.a': '1', 'spark.b': '2', 'spark.c': 'xy'}
    """
    found: dict[str, str] = {}
    started = ""
    for line in lines:
        text = started + line.strip()
        started = ""
        if text.endswith("\\"):
            started = text[:-1]
            continue
        match = None if text.startswith(("#", "!")) else _PROPERTY.fullmatch(text)
        if match is not None and match[1].startswith("spark."):
            found[match[1]] = match[2].strip()
    return found


def slower_without(spark: SparkSession) -> str | None:
    """One line on what is slower in a session that lacks settings of ours; None where it lacks none.

    A server of Spark Connect is not judged: who connects to it has not made it.
    """
    if is_connect(spark):
        return None
    parts: list[str] = []
    if spark.conf.get(DAEMON, "pyspark.daemon") != FASTER[DAEMON]:
        parts.append("each Python worker imports everything anew at its start")
    if spark.conf.get(CHANGELOG, "false") != FASTER[CHANGELOG]:
        parts.append("a batch uploads the whole of its state instead of the changes")
    if spark.conf.get("spark.shuffle.compress", "true") != "false":
        parts.append("chunks, which are compressed, are compressed again")
    if not parts:
        return None
    return (
        f"in this session {'; '.join(parts)}: make it with tideglass.configure(SparkSession.builder) and it "
        "is faster"
    )


def require(spark: SparkSession) -> tuple[str, ...]:
    """Have a session run a job, whoever has made it; a line for each setting of the user's that is changed.

    Raises TideglassError for one that Spark lets nobody change any more.
    """
    found = dict(spark.conf.getAll)
    for name, each in REQUIRED_OF_JOBS.items():
        if each.holds(found.get(name, "")):
            continue
        if spark.conf.isModifiable(name):
            spark.conf.set(name, each.value)
        elif name in found:
            raise TideglassError(
                f"{name} must be {each.value} from the start of the session, since {each.why}"
            )
    return overridden(found, REQUIRED_OF_JOBS)


def warn_of_slowness(spark: SparkSession) -> None:
    """Warn once in the life of a session of what is slower in it."""
    import warnings

    text = slower_without(spark)
    if text is not None and spark.conf.get(_WARNED, "") != "true":
        spark.conf.set(_WARNED, "true")
        warnings.warn(text, stacklevel=5)


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Give a session that is yet to be made what `tideglass run` gives its own; the builder.

    What the builder or spark-defaults.conf says already stays, but for `REQUIRED`: a warning names what of
    it does not hold. A session that is there already takes only those settings that may change.

    >>> spark = tideglass.configure(SparkSession.builder.master("spark://host:7077")).getOrCreate()
    ... # doctest: +SKIP
    """
    import warnings

    options_set: dict[str, Any] = getattr(builder, "_options", {})
    chosen = chosen_settings({}) | {name: str(value) for name, value in options_set.items()}
    for text in overridden(chosen, REQUIRED):
        warnings.warn(text, stacklevel=2)
    for name, value in {**FASTER, **EXECUTOR_ENVIRONMENT}.items():
        if name not in chosen:
            builder.config(name, value)
    for name, each in REQUIRED.items():
        builder.config(name, each.value)
    return builder
