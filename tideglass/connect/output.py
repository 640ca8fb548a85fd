"""What a job asks of an output, of whatever kind; an output of a new kind is one class.

in the tasks   stage(rows) ──▶ a table for the driver
on the driver  check, prepare, clear ──▶ per batch: publish, advance ──▶ finish ──▶ (a later run) withdraw

An output says what has happened by the error it raises, and knows nothing of policies:

RowsRefused        rows it will never take (`connect.refused_rows`): dropped, or tried again as the job's
                   OutputErrorPolicy says
OutputUnavailable  not now: tried again, with growing pauses, while the other outputs of the batch go on
any other error    ends the run
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from tideglass.storage import StoragePath


@dataclass(frozen=True, slots=True, order=True)
class Batch:
    """A batch of a job. Whenever the job begins anew, a generation begins, and numbers count from 0 again.

    job_id: of the job directory; another for every one, so that two jobs that write to one place are told
        apart, and so is one whose directory was removed. Batches of one job are compared without it.
    """

    generation: int
    number: int
    job_id: str = field(default="", compare=False)


class OutputConnector(Protocol):
    """An output. Picklable: `stage` is called in the tasks, everything else on the driver.

    A class that names this one as its base need write only what its output does otherwise.
    """

    def own_folder(self) -> StoragePath | None:
        """The folder that no other output may write to; None for an output that has none."""
        return None

    @property
    def kafka_options(self) -> Mapping[str, str] | None:
        """Options of Spark's Kafka writer, where it writes what `stage` returns; else None.

        `stage` then returns the columns key, value and partition, and `publish` is not called. A value may
        refer to the environment (`${NAME}`).
        """
        return None

    def storage_settings(self) -> Mapping[str, str]:
        """What lets processes of the run into the object store it writes to, as Hadoop's settings.

        They may hold secrets. Raises ProjectError for one that the environment has not.
        """
        return {}

    def at_level(self, level: str) -> OutputConnector:
        """This output in a job of a compatibility level (`asa.md` 5.5)."""
        return self

    @property
    def guarantee(self) -> str:
        """What a reader can rely on, in words for people: `exactly once` or `at least once`."""
        return "at least once"

    def prepare(self) -> None:
        """Look at the place the rows go to, and make there what may be made. On the driver, before each run.

        Raises OutputError, with a remedy, for what ends the start: refused credentials, a missing table.
        Raises OutputUnavailable for what may pass.
        """

    def stage(self, rows: pa.Table, sender: str) -> pa.Table:
        """What `publish` needs for these rows: the rows, or where they were put, unseen by readers.

        sender: identifies a part of a batch, and is the same when the batch is run again.
        """
        return rows

    def publish(self, batch: Batch, staged: Sequence[pa.Table]) -> Sequence[pa.Table]:
        """Make visible what the tasks staged in a batch; returns rows to show to who watches the run.

        Called with the same batch again after a crash or an error, and must then replace or skip what it had
        written. Not called for a batch without rows.
        staged: in the same order when the batch is run again.
        Raises RowsRefused, before anything of the batch is visible where it can, and OutputUnavailable.
        """
        ...

    def advance(self, batch: Batch, watermark_ticks: int) -> None:
        """No row of this output with a time up to `watermark_ticks` comes any more.

        Called on the driver after `publish` of every batch, also one without rows, and with the same batch
        again after a crash. BEFORE_ALL_TICKS: nothing is known yet, as in the first batches of a run;
        AFTER_ALL_TICKS: no row comes at all. Raises OutputUnavailable.
        """

    def finish(self, batch: Batch) -> None:
        """The run ends because its inputs have ended. batch: the last one. Raises OutputUnavailable.

        Called again by a run that finds nothing new; a later run may still have rows, of later batches.
        """

    def withdraw(self, after: Batch) -> None:
        """Remove what is visible of later batches of that generation: a new generation emits it again."""

    def newest_batch(self, job_id: str) -> Batch | None:
        """The newest batch of this job that is visible; None for none, and where the output cannot know.

        A job directory that knows of no such batch is an older copy of the real one, and cannot go on.
        job_id: of the job directory, see `Batch`.
        """
        return None

    def identity(self, directory: StoragePath) -> Mapping[str, Any]:
        """What identifies this output, as JSON, for the manifest in `directory`. Holds no secrets."""
        ...

    def describe(self) -> str:
        """Where the rows go, in words for people."""
        ...

    def check(self, ours: Collection[StoragePath]) -> None:
        """See that a run does not mix its rows with those of another; changes nothing.

        ours: the folders whose rows those of the run go on from. Raises OutputError.
        """

    def check_replaceable(self) -> None:
        """See that `clear` can remove all rows; changes nothing. Before any output is cleared of its rows.

        Raises OutputError where it cannot.
        """

    def clear(self, *, rows: bool) -> None:
        """Clear away what dead attempts staged; with `rows`, all rows too."""
