"""What Spark needs for a checkpoint in an object store: Hadoop's driver, and the way into the store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tideglass.core.errors import StorageError
from tideglass.storage import StorageOptions, StoragePath
from tideglass.storage.storage_options import VARIABLE, hadoop_settings
from tideglass.storage.store_uri import store_uri

#: Hadoop's drivers by kind of store, of the version of the Hadoop that Spark brings along.
DRIVERS = {"azure": "org.apache.hadoop:hadoop-azure", "s3": "org.apache.hadoop:hadoop-aws"}
#: What Spark shows as stars in its UI and its event log: its own words for secrets, and others for keys.
_REDACTED = "(?i)secret|password|token|access[.]?key|account[.]?key|storage_settings"
_HADOOP_JAR = "hadoop-client-api-*.jar"


def store_packages(directory: StoragePath) -> tuple[str, ...]:
    """Maven coordinates of Hadoop's driver for a job directory; none for one on this machine.

    Raises StorageError for a store whose driver is not published with Hadoop.
    """
    if directory.is_local:
        return ()
    kind = store_uri(str(directory))[0].kind
    if kind not in DRIVERS:
        raise StorageError(
            f"[NO_HADOOP_DRIVER] Spark needs a driver for a checkpoint in {directory}, and Hadoop has none"
            "\n  hint: name another directory with --run-dir, or run with a Spark that has the driver"
        )
    return (f"{DRIVERS[kind]}:{hadoop_version()}",)


def hadoop_version() -> str:
    """The version of the Hadoop that the installed Spark brings. Raises StorageError where it has none."""
    import pyspark

    jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
    found = sorted(jars.glob(_HADOOP_JAR))
    if not found:
        raise StorageError(f"[NO_HADOOP] there is no {_HADOOP_JAR} in {jars}: Spark has no Hadoop of its own")
    return found[0].stem.removeprefix("hadoop-client-api-")


def store_settings(directory: StoragePath) -> dict[str, str]:
    """Settings of Spark that let it into the store of a job directory, from this process' environment."""
    if directory.is_local:
        return {}
    known = dict(StorageOptions.of_environment().settings)
    found = hadoop_settings(store_uri(str(directory))[0], os.environ) | known
    return {f"spark.hadoop.{name}": value for name, value in found.items()}


def pass_on(configuration: Mapping[str, str]) -> dict[str, str]:
    """Make what Spark's configuration says of stores known to this process and to new executors.

    configuration: all settings of Spark, those of `--conf` and of its defaults among them.
    Returns the settings to add: the variable that executors find the options in, and that Spark hides it.
    """
    StorageOptions.of_spark(configuration).put_into(os.environ)
    options = os.environ.get(VARIABLE)
    if not options:
        return {}
    return {f"spark.executorEnv.{VARIABLE}": options, "spark.redaction.regex": _REDACTED}
