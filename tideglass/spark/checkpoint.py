"""What Spark's checkpoint holds: how far a query has read, and the metadata of stateful operators.

Spark has no API for its logs of offsets and commits, so their files are read here: a version, Spark's own
facts, then a line per source in the order of the query. Only the metadata of operators holds absolute paths:
those of the state's schema, which is in the checkpoint itself. They are rewritten when a job was moved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tideglass.core.documents import of_plain
from tideglass.core.durable import hadoop_checksums, replace_file
from tideglass.spark.source_offset import CONTROL_OFFSET, SOURCE_OFFSET, ControlOffset, SourceOffset

#: What Spark writes for a source that has no offset yet.
_NONE_YET = "-"
_SCHEMAS = "_stateSchema"
_METADATA = "state/*/_metadata/v2/[0-9]*"


def last_batch(checkpoint: Path) -> int | None:
    """The last batch that is wholly done, from Spark's log of commits; None when there is none.

    >>> last_batch(Path("nowhere"))
    """
    done = [int(file.name) for file in (checkpoint / "commits").glob("*") if file.name.isdigit()]
    return max(done, default=None)


def source_offset(checkpoint: Path, batch: int) -> SourceOffset:
    """The offset of the job's own source at the end of a batch.

    Raises LookupError where the log has none, OSError and ValueError where it cannot be read.
    """
    for line in _logged(checkpoint, batch):
        content = None if line == _NONE_YET else json.loads(line)
        if isinstance(content, dict) and "inputs" in content:
            return SOURCE_OFFSET.of_plain(cast("object", content))
    raise LookupError(f"batch {batch} has no offset of the job's own source")


def topic_offsets(checkpoint: Path, batch: int, topics: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
    """Per topic and partition, the first message that is not read at the end of a batch.

    topics: in the order of the query. A topic of which Spark knows no offset yet is left out.
    """
    logged = zip(topics, _logged(checkpoint, batch), strict=False)
    return {name: _partition_offsets(line) for name, line in logged if line != _NONE_YET}


def control_offset(checkpoint: Path, batch: int, topics: int) -> ControlOffset:
    """The control messages to ingresses up to the end of a batch, from the source after the topics."""
    line = _logged(checkpoint, batch)[topics]
    return ControlOffset() if line == _NONE_YET else CONTROL_OFFSET.of_plain(json.loads(line))


def _logged(checkpoint: Path, batch: int) -> list[str]:
    """The offset of every source as Spark has logged it."""
    return (checkpoint / "offsets" / str(batch)).read_text().splitlines()[2:]


def _partition_offsets(line: str) -> dict[str, int]:
    """The offsets of the one topic in a logged offset of Spark's Kafka source."""
    of_topics = of_plain(Mapping[str, Mapping[str, int]], json.loads(line))
    return {partition: offset for of_topic in of_topics.values() for partition, offset in of_topic.items()}


def relocate(checkpoint: Path) -> int:
    """Make a checkpoint on a local disk name its own directory; returns how many files named another.

    >>> relocate(Path("nowhere"))
    0
    """
    return sum(_relocate(file, checkpoint) for file in checkpoint.glob(_METADATA))


def has_timers(checkpoint: Path) -> bool | None:
    """Whether the query of the checkpoint has timers, which Spark lets nobody change.

    None: no query has.

    >>> has_timers(Path("nowhere"))
    """
    found = [json.loads(file.read_text().partition("\n")[2]) for file in checkpoint.glob(_METADATA)]
    modes = [json.loads(each["operatorPropertiesJson"])["timeMode"] for each in found]
    return "ProcessingTime" in modes if modes else None


def _relocate(file: Path, checkpoint: Path) -> bool:
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
    replace_file(file, body)
    replace_file(checksums, hadoop_checksums(body))
    return True


def _here(path: str, checkpoint: Path, operator: str) -> str:
    _, found, rest = path.rpartition(f"/state/{operator}/{_SCHEMAS}/")
    return f"file:{checkpoint.resolve()}/state/{operator}/{_SCHEMAS}/{rest}" if found else path
