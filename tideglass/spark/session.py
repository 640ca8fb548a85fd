"""The Spark session a job runs in, and why each setting is what it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tideglass.core.errors import TideglassError
from tideglass.spark.java import use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    # State lives in RocksDB; a batch uploads the changes it made, not the whole of it.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Messages are few and large; nothing is to be planned anew between batches.
    "spark.sql.adaptive.enabled": "false",
    # The offset of an earlier batch may be a silent one; a batch without rows still moves watermarks.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Chunks are compressed already.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    # Workers start with everything imported, and those that have scanned go on with the stages: Spark keeps
    # processes apart by their environment, of which this setting becomes a part for stages only.
    "spark.python.daemon.module": "tideglass.spark.daemon",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # How often a growing input is looked at when nothing has come: listing a folder is not free.
    "spark.sql.streaming.pollingDelay": "200ms",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.metricsEnabled": "false",
}

#: A query stopped inside foreachBatch needs a deep stack to describe its error. The work of a job is
#: done in Python's kernels; the JVM plans and moves bytes, so what its second compiler takes from two
#: cores (half of the JVM's time in the first minute) never comes back. The heap is small.
DRIVER_JAVA_OPTIONS = "-Xss4m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

#: Chunks of tens of megabytes are made and dropped all the time. Left to itself, the C library gives their
#: memory back to the system at once and takes it anew, which cost a tenth of a scan's time.
MEMORY_REUSE = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(2 << 30)}

#: A task whose Python process dies is run again, as on a cluster; alone in one process Spark would give
#: up at once. Its state and its staged files are only taken once the whole batch is done.
TASK_ATTEMPTS = 4

#: On a local disk the default manager starts a helper process per file, 30 to 65 ms each; this one
#: writes a temporary file and renames it, which a local file system does atomically.
LOCAL_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


@dataclass(frozen=True, slots=True)
class Libraries:
    """Java libraries a session needs besides Spark's own, as connectors.

    packages: Maven coordinates with commas between them, which Spark fetches with all they need. jars: a
    folder of jars, which is asked first.
    """

    packages: str = ""
    jars: Path | None = None

    def settings(self) -> dict[str, str]:
        """As Spark spells them. Raises TideglassError for a folder that holds no jar."""
        if self.jars is None:
            return {"spark.jars.packages": self.packages} if self.packages else {}
        found = sorted(self.jars.glob("*.jar"))
        if not found:
            raise TideglassError(f"{self.jars} is no folder of jars")
        return {"spark.jars": ",".join(str(jar.resolve()) for jar in found)}


def local_session(
    cores: int | None = None, log: Path | None = None, libraries: Libraries | None = None
) -> SparkSession:
    """A session in this process, on `cores` cores (all of them when None).

    log: file for what Spark and its workers print; it would otherwise fall between our own lines.
    libraries: none when None. A session that is already there is used as it is, except for the settings
    above.
    """
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in MEMORY_REUSE.items():
        os.environ.setdefault(name, value)
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.Builder()
        .master(f"local[{cores or '*'},{TASK_ATTEMPTS}]")
        .appName("tideglass")
        .config("spark.driver.extraJavaOptions", DRIVER_JAVA_OPTIONS)
        .config("spark.driver.memory", os.environ.get("TIDEGLASS_DRIVER_MEMORY", "2g"))
        .config("spark.log.level", "ERROR")
    )
    for name, value in (SETTINGS | (libraries or Libraries()).settings()).items():
        builder = builder.config(name, value)
    if log is None:
        return builder.getOrCreate()
    with _printing_to(log):
        return builder.getOrCreate()


@contextmanager
def _printing_to(path: Path) -> Generator[None]:
    """While this lasts, processes that are started print to the file; so does this one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    try:
        with path.open("ab") as file:
            for number in (1, 2):
                os.dup2(file.fileno(), number)
        yield
    finally:
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
            os.close(old)
