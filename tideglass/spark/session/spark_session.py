"""The Spark session a job runs in: on this machine, on a cluster, or where spark-submit has started us."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from tideglass.spark.connector import is_nowhere, no_packages, remember_absent, stands_in
from tideglass.spark.interpreter import see_interpreter, trust
from tideglass.spark.session.class_archive import archive_options
from tideglass.spark.session.fork_server import start_fork_server
from tideglass.spark.session.hadoop_stores import pass_on
from tideglass.spark.session.java import use_java
from tideglass.spark.session.libraries import Libraries
from tideglass.spark.session.spark_settings import (
    WORKER_ENVIRONMENT,
    SessionOptions,
    by_spark_submit,
    chosen_settings,
    is_local,
    is_secret,
    session_settings,
)

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

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

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_PYTHON = "spark.pyspark.python"
_PYTHON_VARIABLE = "PYSPARK_PYTHON"


class _Session(threading.Thread):
    """Makes the session of this process, once; callers wait here."""

    def __init__(self, options: SessionOptions) -> None:
        super().__init__(name="tideglass-session", daemon=True)  # an error elsewhere may end the process
        self._options = options
        self._made: SparkSession | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            self._made = _make(self._options)
        except Exception as error:
            self._error = error

    def wait(self) -> SparkSession:
        self.join()
        if self._error is not None:
            raise self._error
        assert self._made is not None
        return self._made


_starting: list[_Session] = []


def begin_session(options: SessionOptions) -> None:
    """Begin to make the session of `open_session`, which takes seconds, while the caller goes on."""
    session = _Session(options)
    session.start()
    _starting.append(session)


def open_session(options: SessionOptions) -> SparkSession:
    """The session of a run: on a cluster, in the JVM that spark-submit has made, or in this process.

    A session that is begun is waited for; one that is already there is used as it is, except for settings of
    ours that may change. Raises TideglassError where it cannot be made.
    """
    if _starting:
        return _starting.pop().wait()
    return _make(options)


def local_session(
    cores: int | None = None,
    log: Path | None = None,
    libraries: Libraries | None = None,
    *,
    ui: bool = False,
) -> SparkSession:
    """A session in this process, on `cores` cores (all of them when None), as `open_session` makes it.

    log: file for what Spark and its workers print. libraries: none when None. ui: Spark serves its own UI.
    """
    return open_session(SessionOptions(cores, log, libraries, ui))


def _make(options: SessionOptions) -> SparkSession:
    """The session there is, with our settings; else a new one."""
    chosen = chosen_settings(options.conf)
    libraries = options.libraries or Libraries()
    settings = session_settings(options, chosen)
    local = is_local(settings["spark.master"])
    if local:
        for name, value in (WORKER_ENVIRONMENT | {"SPARK_LOCAL_IP": "127.0.0.1"}).items():
            os.environ.setdefault(name, value)
    settings |= {name: chosen.get(name, value) for name, value in pass_on(chosen).items()}
    settings |= _with_libraries(chosen, libraries)
    if not by_spark_submit():
        settings |= _of_driver(chosen, libraries)
    with ExitStack() as opened:
        printed = None
        if options.log is not None:
            options.log.parent.mkdir(parents=True, exist_ok=True)
            printed = opened.enter_context(options.log.open("ab"))
        opened.enter_context(_interpreter(printed, chosen.get(_PYTHON), local=local))
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        context = cast("Any", SparkContext)
        if context._gateway is None:
            _launch(settings, chosen, libraries, options.log, printed)
        builder = SparkSession.Builder()
        for name, value in settings.items():
            builder = builder.config(name, value)
        made = builder.getOrCreate()
        if "spark.log.level" in chosen:
            # Spark leaves out a level that its logger has already, and its console then prints no INFO.
            for level in ("OFF", chosen["spark.log.level"]):
                made.sparkContext.setLogLevel(level)
        if local:
            see_interpreter(made)
        return made


def _of_driver(chosen: Mapping[str, str], libraries: Libraries) -> dict[str, str]:
    """The settings of the JVM that this process starts; the user's options of Java follow ours."""
    suited = WITH_CONNECTORS if libraries.with_connector else OVER_FILES
    ours = f"{DRIVER_JAVA_OPTIONS} {suited} {archive_options()}"
    memory = os.environ.get("TIDEGLASS_DRIVER_MEMORY") or chosen.get("spark.driver.memory", "2g")
    return {
        _JAVA_OPTIONS: f"{ours} {chosen.get(_JAVA_OPTIONS, '')}".rstrip(),
        "spark.driver.memory": memory,
    }


def _with_libraries(chosen: Mapping[str, str], libraries: Libraries) -> dict[str, str]:
    """What a job's libraries need: lists beside those the user has chosen, other settings unless chosen."""
    return {
        name: ",".join(filter(None, (chosen.get(name), value)))
        if name.startswith("spark.jars")
        else chosen.get(name, value)
        for name, value in libraries.settings().items()
    }


def _launch(
    settings: dict[str, str],
    chosen: Mapping[str, str],
    libraries: Libraries,
    log: Path | None,
    printed: IO[bytes] | None,
) -> None:
    """Start the JVM of this process; `settings` then names the libraries that there are."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    use_java()
    best, conf = libraries.packages, _configured(settings)
    while True:
        printing = {} if printed is None else {"stdout": printed, "stderr": printed}
        began = 0 if printed is None else printed.seek(0, os.SEEK_END)
        try:
            gateway = launch_gateway(conf, printing)
            break
        except PySparkRuntimeError as error:
            if "spark.jars.packages" not in libraries.settings():
                raise
            text = "" if log is None else log.read_bytes()[began:].decode(errors="replace")
            libraries = _other_libraries(libraries, text, error)
            settings |= _with_libraries(chosen, libraries)
            conf = _configured(settings)
    if note := stands_in(libraries.packages):
        print(f"note: {note}", file=sys.stderr)
        remember_absent(best)
    cast("Any", SparkContext)._ensure_initialized(gateway=gateway, conf=conf)


def _configured(settings: Mapping[str, str]) -> SparkConf:
    """For the JVM: as words of a command, which everybody on this machine may read, so without secrets."""
    from pyspark import SparkConf

    public = [(name, value) for name, value in settings.items() if not is_secret(name)]
    return SparkConf(loadDefaults=False).setAll(public)


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
def _interpreter(printed: IO[bytes] | None, chosen: str | None, *, local: bool) -> Generator[None]:
    """While this lasts, the environment names what Spark starts for Python: the user's choice, else our own.

    Not any longer, since commands that this process starts have a Python of their own. The processes of
    executors on other machines run the Python of these machines. Spark plans with a Python of that name on
    this machine, so where it is looked for on the PATH, our own is found first.
    """
    with ExitStack() as restored:
        chosen = chosen or os.environ.get(_PYTHON_VARIABLE)
        if local and chosen is None:
            _set(restored, _PYTHON_VARIABLE, _own_program(printed))
        elif chosen is not None:
            _set(restored, _PYTHON_VARIABLE, chosen)
        if not local and not by_spark_submit():
            program = chosen or "python3"
            if os.sep not in program:
                folder = _stand_in(Path(_own_program(printed)), program)
                trust(program)  # of this machine; executors have their own
                _set(restored, "PATH", f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
        yield


def _own_program(printed: IO[bytes] | None) -> str:
    """What stands for this interpreter: the fork server's program where there is one."""
    if not _programs:
        _programs.append(str(start_fork_server(printed) or sys.executable))
        trust(_programs[0])
    return _programs[0]


def _stand_in(program: Path, name: str) -> Path:
    """A folder in which a program has another name; it is removed with the fork server's, or at our end."""
    folder = program.parent / "by-name"
    if program == Path(sys.executable):
        folder = Path(tempfile.mkdtemp(prefix="tideglass-python-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    if not (folder / name).exists():
        (folder / name).symlink_to(program)
    return folder


def _set(restored: ExitStack, name: str, value: str) -> None:
    """Set a variable of the environment until the stack ends."""
    before = os.environ.get(name)
    os.environ[name] = value
    if before is None:
        restored.callback(os.environ.pop, name, None)
    else:
        restored.callback(os.environ.__setitem__, name, before)
