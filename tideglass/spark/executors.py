"""The executors a session has, and waiting for those that are expected: what the layout of work follows.

On a cluster the driver's cores say nothing of what there is to work with, and executors come one by one after
the session is made. How many are expected follows from Spark's own settings:

    local[N]                                no executors: tasks run in the driver's JVM
    standalone, with spark.cores.max        so many cores
    standalone, without it                  unknown: all cores the master gives
    YARN, Kubernetes                        spark.executor.instances, each of spark.executor.cores
    dynamic allocation                      those it may grow to, which are not waited for

The time to wait is `spark.scheduler.maxRegisteredResourcesWaitingTime`, as for Spark's first job.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tideglass.core.errors import TideglassError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAITING = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_DEFAULT_WAIT_SECONDS = 30.0
#: Where nobody says how many executors there will be: so long without a new one, and they are all there.
SETTLED_SECONDS = 3.0
_LOOK_SECONDS = 0.1
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Executors:
    """What runs the tasks of a session.

    count: executors; 0 where the driver's own process runs the tasks (`local[N]`).
    cores: of all of them.
    notes: what a user should know of how they were counted, a sentence each.
    """

    count: int
    cores: int
    notes: tuple[str, ...] = ()


def this_machine(cores: int | None = None) -> Executors:
    """What runs the tasks of a local session: so many cores, all there are when None."""
    return Executors(0, cores or os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class Expected:
    """What Spark's settings say of the executors that will come.

    executors, cores: how many of each; None where the settings do not say. A cluster may have fewer.
    grows_to_cores: with dynamic allocation, the cores it may grow to; None without it, and without a limit.
    dynamic: Spark starts and ends executors as it needs them.
    """

    executors: int | None = None
    cores: int | None = None
    grows_to_cores: int | None = None
    dynamic: bool = False

    def all_there(self, cores_of: Sequence[int]) -> bool:
        """Whether these executors, by their cores, are all that are expected; False if nobody knows."""
        enough = self.executors is not None and len(cores_of) >= self.executors
        return bool(cores_of) and (enough or (self.cores is not None and sum(cores_of) >= self.cores))

    @property
    def known(self) -> bool:
        return self.executors is not None or self.cores is not None

    @property
    def words(self) -> str:
        if self.cores is not None:
            return _counted(self.cores, "core")
        return _counted(self.executors or 1, "executor")


def expected_executors(conf: Mapping[str, str]) -> Expected:
    """What a session's settings say.

    >>> expected_executors({"spark.master": "k8s://host", "spark.executor.instances": "3"})
    Expected(executors=3, cores=3, grows_to_cores=None, dynamic=False)
    >>> expected_executors({"spark.master": "spark://host:7077", "spark.cores.max": "8"}).cores
    8
    """
    master = conf.get("spark.master", "")
    one = _number(conf, "spark.executor.cores")
    instances = _number(conf, "spark.executor.instances")
    if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        most = _number(conf, "spark.dynamicAllocation.maxExecutors")
        first = max(
            _number(conf, "spark.dynamicAllocation.initialExecutors") or 0,
            _number(conf, "spark.dynamicAllocation.minExecutors") or 0,
            instances or 0,
        )
        each = one if one is not None or _of_standalone(master) else 1
        grows = None if most is None or each is None else most * each
        return Expected(first or None, None, grows, dynamic=True)
    simulated = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*]", master)
    if simulated:
        return Expected(int(simulated[1]), int(simulated[1]) * int(simulated[2]))
    if _of_standalone(master):
        cores = _number(conf, "spark.cores.max")
        if cores is not None and one is not None:
            cores -= cores % one  # an executor has all of its cores, or is not started
        return Expected(None, cores or None)
    if master.startswith(("yarn", "k8s://")):
        count = 2 if instances is None else instances  # Spark's own default
        return Expected(count, count * (one or 1))
    return Expected()


def executors_of(spark: SparkSession) -> Executors:
    """The executors of a session, once those that are expected are there, or have not come in time.

    Raises TideglassError where none has come.
    """
    context: Any = spark.sparkContext
    conf = dict(context.getConf().getAll())
    if conf.get("spark.master", "").partition("[")[0] == "local":
        return Executors(0, context.defaultParallelism)
    return awaited_executors(lambda: _cores_of_executors(context), conf)


def awaited_executors(
    cores_of: Callable[[], Sequence[int]],
    conf: Mapping[str, str],
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Executors:
    """The executors that are there once they are all there, or nobody waits any longer.

    cores_of: the cores of each executor that is there now.
    conf: the session's settings.
    Raises TideglassError where none has come.
    """
    expected, most_seconds = expected_executors(conf), _seconds(conf.get(WAITING, ""))
    if expected.grows_to_cores is not None:
        return _growing(expected, cores_of())
    began = changed = now()
    found: Sequence[int] = ()
    while not expected.all_there(found) and now() - began < most_seconds:
        seen = cores_of()
        if len(seen) != len(found):
            changed = now()
        found = seen
        if found and not expected.known and now() - changed >= SETTLED_SECONDS:
            break
        if not expected.all_there(found):
            sleep(_LOOK_SECONDS)
    if not found:
        raise TideglassError(
            f"no executor has come within {most_seconds:g} s, so there is nothing to run tasks on "
            f"({conf.get('spark.master', 'no master')})\n"
            "  hint: look whether the cluster has workers with free cores and memory for one "
            f"(spark.executor.cores, spark.executor.memory); --conf {WAITING}=5m waits longer"
        )
    notes: list[str] = []
    if expected.known and not expected.all_there(found):
        notes.append(
            f"{expected.words} were expected, and {_counted(sum(found), 'core')} of "
            f"{_counted(len(found), 'executor')} came within {most_seconds:g} s; "
            "the work is laid out for those"
        )
    if expected.dynamic:
        notes.append(
            "dynamic allocation is on without a limit, so the work is laid out for the executors there are "
            "now; spark.dynamicAllocation.maxExecutors says how many to lay it out for"
        )
    return Executors(len(found), sum(found), tuple(notes))


def _growing(expected: Expected, found: Sequence[int]) -> Executors:
    cores = expected.grows_to_cores or 1
    note = (
        f"dynamic allocation is on: the work is laid out for the {_counted(cores, 'core')} it may grow to, "
        f"of which {sum(found)} are there now"
    )
    return Executors(max(1, len(found)), cores, (note,))


def _cores_of_executors(context: Any) -> list[int]:
    """The cores of each live executor, as Spark's own books say."""
    listed = context._jsc.sc().statusStore().executorList(True)
    each = (listed.apply(place) for place in range(listed.size()))
    return [one.totalCores() for one in each if one.id() != "driver" and one.totalCores() > 0]


def _of_standalone(master: str) -> bool:
    return master.startswith("spark://")


def _number(conf: Mapping[str, str], name: str) -> int | None:
    """A setting that is a count; None where it is not set, or has no bound as Spark's greatest integer."""
    text = conf.get(name, "").strip()
    return int(text) if text.isdigit() and int(text) < 2**31 - 1 else None


def _seconds(text: str) -> float:
    """A length of time as Spark writes this one, milliseconds without a unit; Spark's default for no text.

    >>> _seconds("500"), _seconds("2m"), _seconds("")
    (0.5, 120.0, 30.0)
    """
    match = re.fullmatch(r"\s*(\d+)\s*(ms|s|m|min|h|d)?\s*", text.lower())
    return int(match[1]) * _UNITS[match[2] or "ms"] if match else _DEFAULT_WAIT_SECONDS


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
