"""Snapshots of reference data on their way from the session to its workers.

A classic session broadcasts them. A session of Spark Connect has no broadcasts, and the files it can send to
its server (`addArtifacts`) are not beside the stateful tasks of a stream (Spark 4.3): there the snapshots
travel with the functions that read them, up to a limit.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa

from tideglass.connect.reference.snapshot import FileSnapshot, ReferenceSnapshot
from tideglass.core.errors import InputError
from tideglass.core.events import Fields
from tideglass.spark.session.session_kind import is_connect

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

#: Bytes of reference data a client sends with a query, counted for each function that holds them. A server
#: takes messages of 128 MiB, and is asked for the columns several times while the query is made.
MOST_BYTES_TO_SERVER = 32 << 20
#: What a broadcast pickles to: how a worker finds it.
_Pickled: TypeAlias = "tuple[Callable[..., Broadcast[ReferenceSnapshot]], tuple[Any, ...]]"


class BroadcastSnapshot:
    """A snapshot that every worker has been sent once, whatever the number of its tasks.

    Spark's process that plans a stateful operator unpickles it too, and is sent nothing: so what a
    broadcast pickles to is kept as it is until the rows are asked for.
    """

    def __init__(
        self, effective_ticks: int, digest: str, held: Broadcast[ReferenceSnapshot] | _Pickled
    ) -> None:
        self.effective_ticks = effective_ticks
        self._digest = digest
        self._held = held

    def read(self, name: str, fields: Fields, level: str) -> pa.Table:
        held = self._held
        if isinstance(held, tuple):
            find, arguments = held
            held = find(*arguments)
        return held.value.read(name, fields, level)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BroadcastSnapshot) and self._known_by() == other._known_by()

    def __hash__(self) -> int:
        return hash(self._known_by())

    def __reduce__(self) -> tuple[Any, ...]:
        held = self._held
        pickled = held if isinstance(held, tuple) else cast("_Pickled", held.__reduce__())
        return BroadcastSnapshot, (self.effective_ticks, self._digest, pickled)

    def _known_by(self) -> tuple[int, str]:
        return self.effective_ticks, self._digest


def shared(
    spark: SparkSession, snapshots: Mapping[str, Sequence[ReferenceSnapshot]], functions: int
) -> dict[str, tuple[ReferenceSnapshot, ...]]:
    """The snapshots, by the input they belong to, as tasks of the session read them.

    functions: how many of the functions sent to the server read them.
    Raises InputError for more than a client may send.
    """
    if is_connect(spark):
        _check_bytes(snapshots, functions)
        return {name: tuple(each) for name, each in snapshots.items()}
    return {name: tuple(_broadcast(spark, one) for one in each) for name, each in snapshots.items()}


def _broadcast(spark: SparkSession, snapshot: ReferenceSnapshot) -> ReferenceSnapshot:
    if isinstance(snapshot, FileSnapshot):
        return snapshot  # the workers read it
    digest = hashlib.sha256(pickle.dumps(snapshot)).hexdigest()
    return BroadcastSnapshot(snapshot.effective_ticks, digest, spark.sparkContext.broadcast(snapshot))


def _check_bytes(snapshots: Mapping[str, Sequence[ReferenceSnapshot]], functions: int) -> None:
    sizes = {name: sum(len(pickle.dumps(one)) for one in each) for name, each in snapshots.items()}
    total = sum(sizes.values()) * functions
    if total <= MOST_BYTES_TO_SERVER:
        return
    largest = max(sizes, key=lambda name: sizes[name])
    raise InputError(
        f"the reference data of the query is {sum(sizes.values()) >> 20} MiB, and through Spark Connect it "
        f"travels with each of the {functions} functions of the query that may read it: more than the "
        f"{MOST_BYTES_TO_SERVER >> 20} MiB that are sent\n"
        f"  hint: write {largest!r} to a file that every worker can read, and give its path"
    )
