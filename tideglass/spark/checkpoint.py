"""What Spark's checkpoint says of stateful operators: where their schemas lie, and whether they have timers.

Of all its files only this metadata holds absolute paths: those of the state's schema, which lie in the
checkpoint themselves. A job that was moved must be told where they are now.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tideglass.core.durable import hadoop_checksums, replace_file

_SCHEMAS = "_stateSchema"
_METADATA = "state/*/_metadata/v2/[0-9]*"


def relocate(checkpoint: Path) -> int:
    """Let a checkpoint on a local disk name its own directory; the number of files that had another's.

    >>> relocate(Path("nowhere"))
    0
    """
    return sum(_relocate(file, checkpoint) for file in checkpoint.glob(_METADATA))


def has_timers(checkpoint: Path) -> bool | None:
    """Whether the query that has begun the checkpoint has timers, which Spark lets nobody change.

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
