"""What Spark's checkpoint holds: how far a query has read, and the metadata of stateful operators.

Spark has no API for its logs of offsets and commits, so their files are read here: a version, Spark's own
facts, then a line per source in the order of the query. Only the metadata of operators holds absolute paths:
those of the state's schema, which is in the checkpoint itself. They are rewritten when a job was moved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tideglass.core.documents import of_plain
from tideglass.core.durable import hadoop_checksums
from tideglass.spark.source_offset import CONTROL_OFFSET, SOURCE_OFFSET, ControlOffset, SourceOffset
from tideglass.storage import AnyPath, StoragePath, storage_path

#: What Spark writes for a source that has no offset yet.
_NONE_YET = "-"
_SCHEMAS = "_stateSchema"


def last_batch(checkpoint: AnyPath) -> int | None:
    """The last batch that is wholly done, from Spark's log of commits; None when there is none.

    >>> last_batch("nowhere")
    """
    done = [int(file.name) for file in (storage_path(checkpoint) / "commits").list() if file.name.isdigit()]
    return max(done, default=None)


def newest_batch(checkpoint: AnyPath) -> int:
    """The newest batch that was begun, done or not, from Spark's logs; -1 when there is none.

    >>> newest_batch("nowhere")
    -1
    """
    logs = [storage_path(checkpoint) / log for log in ("offsets", "commits")]
    return max((int(file.name) for log in logs for file in log.list() if file.name.isdigit()), default=-1)


def source_offset(checkpoint: AnyPath, batch: int) -> SourceOffset:
    """The offset of the job's own source at the end of a batch.

    Raises LookupError where the log has none, OSError and ValueError where it cannot be read.
    """
    for line in _logged(checkpoint, batch):
        content = None if line == _NONE_YET else json.loads(line)
        if isinstance(content, dict) and "inputs" in content:
            return SOURCE_OFFSET.of_plain(cast("object", content))
    raise LookupError(f"batch {batch} has no offset of the job's own source")


def topic_offsets(checkpoint: AnyPath, batch: int, topics: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
    """Per topic and partition, the first message that is not read at the end of a batch.

    topics: in the order of the query. A topic of which Spark knows no offset yet is left out.
    """
    logged = zip(topics, _logged(checkpoint, batch), strict=False)
    return {name: _partition_offsets(line) for name, line in logged if line != _NONE_YET}


def control_offset(checkpoint: AnyPath, batch: int, topics: int) -> ControlOffset:
    """The control messages to ingresses up to the end of a batch, from the source after the topics."""
    line = _logged(checkpoint, batch)[topics]
    return ControlOffset() if line == _NONE_YET else CONTROL_OFFSET.of_plain(json.loads(line))


def _logged(checkpoint: AnyPath, batch: int) -> list[str]:
    """The offset of every source as Spark has logged it."""
    return (storage_path(checkpoint) / "offsets" / str(batch)).read_text().splitlines()[2:]


def _partition_offsets(line: str) -> dict[str, int]:
    """The offsets of the one topic in a logged offset of Spark's Kafka source."""
    of_topics = of_plain(Mapping[str, Mapping[str, int]], json.loads(line))
    return {partition: offset for of_topic in of_topics.values() for partition, offset in of_topic.items()}


def relocate(checkpoint: AnyPath) -> int:
    """Make a checkpoint name its own directory; returns how many files named another.

    >>> relocate("nowhere")
    0
    """
    return sum(_relocate(file, storage_path(checkpoint)) for file in operator_metadata(checkpoint))


def has_timers(checkpoint: AnyPath) -> bool | None:
    """Whether the query of the checkpoint has timers, which Spark lets nobody change.

    None: no query has.

    >>> has_timers("nowhere")
    """
    found = [json.loads(file.read_text().partition("\n")[2]) for file in operator_metadata(checkpoint)]
    modes = [json.loads(each["operatorPropertiesJson"])["timeMode"] for each in found]
    return "ProcessingTime" in modes if modes else None


def operator_metadata(checkpoint: AnyPath) -> list[StoragePath]:
    """The files with the metadata of the stateful operators, by name."""
    state = storage_path(checkpoint) / "state"
    found: list[StoragePath] = []
    for operator in state.list():  # what is below may be large
        folder = state / operator.name / "_metadata" / "v2"
        found += [folder / each.name for each in folder.list() if each.name[0].isdigit()]
    return found


def _relocate(file: StoragePath, checkpoint: StoragePath) -> bool:
    version, _, body = file.read_text().partition("\n")
    metadata: dict[str, Any] = json.loads(body)
    operator = file.parents[2].name
    before = json.dumps(metadata)
    for store in metadata.get("stateStoreInfo", ()):
        paths: list[str] = store.get("stateSchemaFilePaths", [])
        store["stateSchemaFilePaths"] = [_here(path, checkpoint, operator) for path in paths]
    if json.dumps(metadata) == before:
        return False
    body = f"{version}\n{json.dumps(metadata, separators=(',', ':'))}".encode()
    checksums = file.with_name(f".{file.name}.crc")
    checksums.unlink(missing_ok=True)  # of the text before; without any the file is read as it is
    file.write(body)
    if file.is_local:  # Hadoop has checksums beside its files on disks only
        checksums.write(hadoop_checksums(body))
    return True


def _here(path: str, checkpoint: StoragePath, operator: str) -> str:
    _, found, rest = path.rpartition(f"/state/{operator}/{_SCHEMAS}/")
    here = f"file:{checkpoint.resolve()}" if checkpoint.is_local else str(checkpoint)
    return f"{here}/state/{operator}/{_SCHEMAS}/{rest}" if found else path
