"""The jars of a Kafka broker and of Spark's connector for it, from Maven Central, fetched once.

    python examples/kafka/jars.py        prints where they are

They go to the user's cache (`~/.cache/tideglass/kafka`), by Maven (`mvn`). The connector is that of the
Spark that is installed, where Central has all of it; else the newest set that is known to run on it.
`tideglass run --jars` takes the folder, where Spark cannot fetch the connector itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from tideglass.core.cache import cache_folder
from tideglass.spark.connector import CLIENT, CONNECTOR, JARS, POOL

BROKER = ("org.apache.kafka:kafka_2.13:3.9.1",)

#: Sets of artefacts, best first, without what Spark brings along itself. The last has an older token
#: provider, for mirrors that lack that of 4.2.0; it is asked for only what is the same in both.
_SPARK = version("pyspark")
_OWN = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_SPARK}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{_SPARK}",
    CLIENT,
    POOL,
)
_OLDER_PROVIDER = (CONNECTOR, "org.apache.spark:spark-token-provider-kafka-0-10_2.13:3.5.1", CLIENT, POOL)
CONNECTORS = tuple(dict.fromkeys((_OWN, JARS, _OLDER_PROVIDER)))

#: Poms of Spark name repositories of their own, which need not be reachable; everything here is on
#: Central, so the others are an empty folder.
_SETTINGS = """\
<settings>
  <mirrors>
    <mirror><id>nothing</id><mirrorOf>*,!central</mirrorOf><url>{nothing}</url></mirror>
  </mirrors>
</settings>
"""

_POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>tideglass</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{dependencies}
  </dependencies>
</project>
"""

_DEPENDENCY = """
    <dependency>
      <groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>{without}
    </dependency>"""

_ALONE = """
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"""

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


class JarsUnavailable(Exception):
    """The jars cannot be had here; the message says why."""


def broker_jars() -> Path:
    """The folder of the broker's jars. Raises JarsUnavailable."""
    return _fetched("broker", BROKER, alone=False)


def connector_jars() -> Path:
    """The folder of the connector's jars, for `spark.jars`. Raises JarsUnavailable."""
    reasons: list[str] = []
    for artefacts in CONNECTORS:
        numbers = "-".join(each.rpartition(":")[2] for each in artefacts[:2])
        try:
            return _fetched(f"connector-{numbers}", artefacts, alone=True)
        except JarsUnavailable as error:
            reasons.append(str(error))
    raise JarsUnavailable("\n".join(reasons))


def _fetched(name: str, artefacts: Sequence[str], *, alone: bool) -> Path:
    """The folder with the artefacts, and with what they depend on unless `alone`."""
    folder = cache_folder() / "kafka" / name
    if folder.is_dir():  # it appears whole
        return folder
    refused = folder.with_name(f"{name}.refused")
    if refused.exists():
        raise JarsUnavailable(refused.read_text())
    mvn = shutil.which("mvn")
    if mvn is None:
        raise JarsUnavailable("there is no Maven (mvn) on the PATH to fetch Kafka's jars with")
    draft = folder.with_name(f"{name}.{os.getpid()}")
    draft.mkdir(parents=True)
    try:
        settings, pom, jars = draft / "settings.xml", draft / "pom.xml", draft / "jars"
        nothing = draft / "nothing"
        nothing.mkdir()
        settings.write_text(_SETTINGS.format(nothing=nothing.as_uri()))
        pom.write_text(_POM.format(dependencies="".join(_dependency(each, alone) for each in artefacts)))
        done = subprocess.run(
            [mvn, "-q", "-B", "-U", "-s", settings, "-f", pom, _COPY, f"-DoutputDirectory={jars}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            told = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr)
            reason = f"Maven cannot fetch {', '.join(artefacts)}: {told.strip()}"
            if "Could not find artifact" in told:  # and will not tomorrow
                refused.write_text(reason)
            raise JarsUnavailable(reason)
        jars.replace(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def _dependency(artefact: str, alone: bool) -> str:
    group, name, number = artefact.split(":")
    return _DEPENDENCY.format(group=group, name=name, version=number, without=_ALONE if alone else "")


def main() -> int:
    try:
        print(broker_jars())
        print(connector_jars())
    except JarsUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
