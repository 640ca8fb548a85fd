"""The Spark session a job runs in, and why each setting is what it is."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from tideglass.spark.connector import is_nowhere, no_packages, remember_absent, stands_in
from tideglass.spark.interpreter import see_interpreter, trust
from tideglass.spark.session.class_archive import archive_options
from tideglass.spark.session.fork_server import start_fork_server
from tideglass.spark.session.java import use_java
from tideglass.spark.session.libraries import Libraries

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

SETTINGS = {
    # State lives in RocksDB; a batch uploads the changes it made, not the whole of it.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Messages are few and large; nothing is to be planned anew between batches.
    "spark.sql.adaptive.enabled": "false",
    # The offset of an earlier batch may be one without rows; a batch without rows still moves watermarks.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Chunks are compressed already.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    # Workers start with everything imported, and those that have scanned go on with the stages: Spark keeps
    # processes apart by their environment, of which this setting becomes a part for stages only.
    "spark.python.daemon.module": "tideglass.spark.session.worker_daemon",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # How often a growing input is looked at when there is nothing new: listing a folder is not free.
    "spark.sql.streaming.pollingDelay": "200ms",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.metricsEnabled": "false",
}

#: A query stopped inside foreachBatch needs a deep stack to describe its error. The heap is small: it begins
#: with what Spark needs for itself, and follows what is used instead of a share of the machine's memory.
#: Collections while Spark loads its classes would find nothing.
DRIVER_JAVA_OPTIONS = (
    "-Xss4m -XX:+UseSerialGC -Xms160m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40 -XX:MetaspaceSize=160m"
)
#: The work of a job over files is done in Python's kernels; the JVM plans and moves bytes, so what its second
#: compiler takes from two cores (half of the JVM's time in the first minute) is lost.
OVER_FILES = "-Xmn48m -XX:TieredStopAtLevel=1"
#: A connector's rows go one by one through the JVM, which takes a third of the time for them once the second
#: compiler has been there. It is for that code only: what a start runs some thousand times is not worth it.
#: They leave garbage, too: 48 MiB were full so often that collections took a sixth of a fetch.
WITH_CONNECTORS = (
    "-Xmn128m -XX:Tier4InvocationThreshold=30000 -XX:Tier4MinInvocationThreshold=5000"
    " -XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=200000"
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

#: A task whose Python process dies is run again, as on a cluster; alone in one process Spark would give
#: up at once. Its state and its staged files are only taken once the whole batch is done.
TASK_ATTEMPTS = 4

#: On a local disk the default manager starts a helper process per file, 30 to 65 ms each; this one
#: writes a temporary file and renames it, which a local file system does atomically.
LOCAL_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


class _Session(threading.Thread):
    """Makes the session of this process, once; callers wait here."""

    def __init__(self, cores: int | None, log: Path | None, libraries: Libraries, ui: bool) -> None:
        super().__init__(name="tideglass-session", daemon=True)  # an error elsewhere may end the process
        self._cores = cores
        self._log = log
        self._libraries = libraries
        self._ui = ui
        self._made: SparkSession | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            self._made = _make(self._cores, self._log, self._libraries, self._ui)
        except Exception as error:
            self._error = error

    def wait(self) -> SparkSession:
        self.join()
        if self._error is not None:
            raise self._error
        assert self._made is not None
        return self._made


_starting: list[_Session] = []


def begin_session(
    cores: int | None = None,
    log: Path | None = None,
    libraries: Libraries | None = None,
    *,
    ui: bool = False,
) -> None:
    """Begin to make the session of `local_session`, which takes seconds, while the caller goes on."""
    session = _Session(cores, log, libraries or Libraries(), ui)
    session.start()
    _starting.append(session)


def local_session(
    cores: int | None = None,
    log: Path | None = None,
    libraries: Libraries | None = None,
    *,
    ui: bool = False,
) -> SparkSession:
    """A session in this process, on `cores` cores (all of them when None).

    log: file for what Spark and its workers print; it would otherwise fall between our own lines.
    libraries: none when None. ui: Spark serves its own UI, on this machine.
    A session that is begun is waited for; one that is already there is used as it is, except for the settings
    above.
    """
    if _starting:
        return _starting.pop().wait()
    return _make(cores, log, libraries or Libraries(), ui)


def _make(cores: int | None, log: Path | None, libraries: Libraries, ui: bool) -> SparkSession:
    """The session there is, with our settings; else a new one."""
    for name, value in (WORKER_ENVIRONMENT | {"SPARK_LOCAL_IP": "127.0.0.1"}).items():
        os.environ.setdefault(name, value)
    wanted = libraries.settings()
    suited = WITH_CONNECTORS if libraries.with_connector else OVER_FILES
    settings = {
        "spark.master": f"local[{cores or '*'},{TASK_ATTEMPTS}]",
        "spark.app.name": "tideglass",
        "spark.driver.extraJavaOptions": f"{DRIVER_JAVA_OPTIONS} {suited} {archive_options()}",
        "spark.driver.memory": os.environ.get("TIDEGLASS_DRIVER_MEMORY", "2g"),
        "spark.log.level": "ERROR",
        **SETTINGS,
        "spark.ui.enabled": str(ui).lower(),
        **wanted,
    }
    with ExitStack() as opened:
        printed = None
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            printed = opened.enter_context(log.open("ab"))
        opened.enter_context(_interpreter(printed))
        from pyspark import SparkContext
        from pyspark.errors import PySparkRuntimeError
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        context = cast("Any", SparkContext)
        if context._gateway is None:
            use_java()
            best, conf = libraries.packages, _configured(settings)
            while True:
                printing = {} if printed is None else {"stdout": printed, "stderr": printed}
                began = 0 if printed is None else printed.seek(0, os.SEEK_END)
                try:
                    gateway = launch_gateway(conf, printing)
                    break
                except PySparkRuntimeError as error:
                    if "spark.jars.packages" not in wanted:
                        raise
                    text = "" if log is None else log.read_bytes()[began:].decode(errors="replace")
                    libraries = _other_libraries(libraries, text, error)
                    settings |= libraries.settings()
                    conf = _configured(settings)
            if note := stands_in(libraries.packages):
                print(f"note: {note}", file=sys.stderr)
                remember_absent(best)
            context._ensure_initialized(gateway=gateway, conf=conf)
        builder = SparkSession.Builder()
        for name, value in settings.items():
            builder = builder.config(name, value)
        made = builder.getOrCreate()
        see_interpreter(made)
        return made


def _configured(settings: Mapping[str, str]) -> SparkConf:
    from pyspark import SparkConf

    return SparkConf(loadDefaults=False).setAll(list(settings.items()))


def _other_libraries(libraries: Libraries, printed: str, error: Exception) -> Libraries:
    """Those to take where nobody has `libraries`. printed: what Spark printed.

    Raises TideglassError where there are none, or where not the repositories are at fault.
    """
    other = libraries.next()
    if other is None or not is_nowhere(printed):
        raise no_packages(libraries.settings()["spark.jars.packages"], printed) from error
    return other


_programs: list[str] = []


@contextmanager
def _interpreter(printed: IO[bytes] | None) -> Generator[None]:
    """While this lasts, the environment names what Spark starts for Python: the user's choice, else our own.

    Not any longer, since commands that this process starts have a Python of their own.
    """
    if "PYSPARK_PYTHON" in os.environ:
        yield
        return
    if not _programs:
        _programs.append(str(start_fork_server(printed) or sys.executable))
        trust(_programs[0])
    os.environ["PYSPARK_PYTHON"] = _programs[0]
    try:
        yield
    finally:
        del os.environ["PYSPARK_PYTHON"]
