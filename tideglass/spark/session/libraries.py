"""Java libraries of a session besides Spark's own: fetched by Spark, or from a folder of jars."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tideglass.core.errors import TideglassError
from tideglass.spark.connector import EXCLUDED, connectors_to_try
from tideglass.spark.session.hadoop_stores import store_packages, store_settings
from tideglass.storage import StoragePath

#: What a job over topics needs besides Spark, by a class of each that must be there.
KAFKA_CLASSES = {
    "org/apache/spark/sql/kafka010/KafkaSourceProvider.class": "spark-sql-kafka-0-10 (Spark's connector)",
    "org/apache/kafka/clients/consumer/KafkaConsumer.class": "kafka-clients (Kafka's client)",
    "org/apache/spark/kafka010/KafkaConfigUpdater.class": "spark-token-provider-kafka-0-10",
    "org/apache/commons/pool2/ObjectPool.class": "commons-pool2",
}


@dataclass(frozen=True, slots=True)
class Libraries:
    """Java libraries a session needs besides Spark's own, as connectors.

    packages: Maven coordinates with commas between them, which Spark fetches with all they need. jars: a
    folder of jars, which is asked first. others: packages to take where nobody has `packages`, best first.
    excluded: coordinates without version of what Spark need not fetch with them. directory: of the job, whose
    checkpoint may be in an object store; None for one of no job.
    """

    packages: str = ""
    jars: Path | None = None
    others: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    directory: StoragePath | None = None

    @property
    def with_connector(self) -> bool:
        """Whether rows go through a connector in the JVM."""
        return bool(self.packages) or self.jars is not None

    def settings(self) -> dict[str, str]:
        """As Spark spells them; they may hold what lets it into a store.

        Raises TideglassError for a folder that holds no jar.
        """
        found = {} if self.directory is None else store_settings(self.directory)
        if self.jars is None:
            stores = () if self.directory is None else store_packages(self.directory)
            packages = ",".join(each for each in (self.packages, *stores) if each)
            found |= {"spark.jars.packages": packages} if packages else {}
            return found | ({"spark.jars.excludes": ",".join(self.excluded)} if self.excluded else {})
        return found | self._jar_settings(self.jars)

    @staticmethod
    def _jar_settings(folder: Path) -> dict[str, str]:
        found = sorted(folder.glob("*.jar"))
        if not found:
            raise TideglassError(f"{folder} is no folder of jars")
        check_jars(folder, found)
        return {"spark.jars": ",".join(str(jar.resolve()) for jar in found)}

    def next(self) -> Libraries | None:
        """The libraries to take where nobody has these; None where there are no others."""
        return replace(self, packages=self.others[0], others=self.others[1:]) if self.others else None


def kafka_libraries(packages: str, jars: Path | None) -> Libraries:
    """What a job over topics needs: the user's choice, else the connector of the installed Spark."""
    if packages or jars is not None:
        return Libraries(packages, jars)
    best, *others = connectors_to_try()
    return Libraries(best, None, tuple(others), EXCLUDED)


def check_jars(folder: Path, jars: Sequence[Path]) -> None:
    """Raises TideglassError that names what Spark's connector for Kafka needs and no jar holds."""
    held: set[str] = set()
    for jar in jars:
        try:
            with zipfile.ZipFile(jar) as archive:
                held.update(KAFKA_CLASSES.keys() & set(archive.namelist()))
        except (zipfile.BadZipFile, OSError) as error:
            raise TideglassError(f"{jar} cannot be read as a jar ({error})\n  hint: fetch it anew") from error
    missing = [name for of_class, name in KAFKA_CLASSES.items() if of_class not in held]
    if missing:
        raise TideglassError(
            f"[KAFKA_JARS] the jars in {folder} lack {', '.join(missing)}, which Spark needs for Kafka\n"
            "  hint: put the jar there too, or leave --jars out and have Spark fetch all with --packages"
        )
