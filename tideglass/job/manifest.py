"""The manifest of a run directory: which job its checkpoint belongs to.

<run>/manifest.json   this
<run>/checkpoint/     Spark's checkpoint: offsets, commits, state
<run>/ingress/        state of the input partitions, by batch
<run>/spark.log       what Spark printed
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from tideglass.core.errors import StateError
from tideglass.job.settings import JobSettings
from tideglass.plan.topology import Topology

#: Changes when state written by this version cannot be read by the one before, or the reverse.
STATE_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """What must be the same for a run to go on from its checkpoint.

    plan: hash of everything that decides what the operators do and where (not of the query's layout).
    """

    state_format: int
    plan: str
    settings: str
    key_groups: int
    inputs: tuple[str, ...]
    finished_input: bool

    @staticmethod
    def of(topology: Topology, settings: JobSettings, finished_input: bool) -> Manifest:
        # Spans are no part of an expression's representation, so moving text changes nothing.
        plan = repr((topology.ops, topology.readers, topology.fields, topology.functions, topology.level))
        return Manifest(
            STATE_FORMAT,
            hashlib.sha256(plan.encode()).hexdigest()[:16],
            settings.to_json(),
            topology.key_groups,
            tuple(sorted(topology.fields)),
            finished_input,
        )


_WORDS = {
    "state_format": "the format of the state",
    "plan": "the query",
    "settings": "the job settings",
    "key_groups": "the number of key groups",
    "inputs": "the inputs",
    "finished_input": "whether the input is finished (--once)",
}


def open_run(directory: Path, manifest: Manifest, *, fresh: bool = False) -> bool:
    """Make the run directory ready; True when it goes on from a checkpoint.

    fresh: forget what an earlier run left. Raises StateError when the checkpoint is another job's.
    """
    path = directory / "manifest.json"
    if fresh:
        for name in ("checkpoint", "ingress"):
            shutil.rmtree(directory / name, ignore_errors=True)
        path.unlink(missing_ok=True)
    if path.exists():
        try:
            before = json.loads(path.read_text())
        except ValueError as error:
            raise StateError(f"{path} cannot be read ({error}); start a new run with --fresh") from error
        now = json.loads(json.dumps(asdict(manifest)))
        changed = [_WORDS[name] for name in now if before.get(name) != now[name]]
        if changed:
            raise StateError(
                f"{directory} holds the run of another job: {', '.join(changed)} differ"
                f"{'s' if len(changed) == 1 else ''}\n"
                "  hint: undo the change, name another --run-dir, or start a new run with --fresh"
            )
        return True
    directory.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(manifest), indent=2) + "\n")
    os.replace(temporary, path)
    return False
