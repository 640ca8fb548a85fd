"""One input of the fuzzer as plain data, and how it is kept in a file that plays it again."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Trial:
    """What a target is given. files: contents by name. options: plain JSON. seed: what it was made from."""

    target: str
    files: Mapping[str, bytes]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seed: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "seed": self.seed,
            "options": dict(self.options),
            "files": {name: _shown(content) for name, content in self.files.items()},
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Trial:
        files = {name: _bytes(shown) for name, shown in content["files"].items()}
        return Trial(content["target"], files, content["options"], content.get("seed", ""))


def _shown(content: bytes) -> str | dict[str, str]:
    """Text where the bytes are text that survives a JSON file, so that a person can read it."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def _bytes(shown: str | dict[str, str]) -> bytes:
    return shown.encode() if isinstance(shown, str) else base64.b64decode(shown["base64"])


class BrokenPropertyError(AssertionError):
    """A promise that an input broke. `name` is the promise, the same for all inputs that break it."""

    def __init__(self, name: str, detail: str) -> None:
        self.name = name
        super().__init__(f"{name}: {detail}")


def holds(condition: object, name: str, detail: object = "") -> None:
    """Raises BrokenPropertyError unless the promise `name` holds."""
    if not condition:
        raise BrokenPropertyError(name, str(detail)[:2000])


@dataclass(frozen=True)
class Finding:
    """A trial that broke something.

    signature: the same for all trials that seem to break the same thing. report: what was seen, for people.
    """

    trial: Trial
    signature: str
    report: str

    def keep(self, folder: Path) -> Path:
        """Write it to a file that `python tests/fuzz --again FILE` plays again."""
        digest = hashlib.sha256(self.signature.encode()).hexdigest()[:10]
        path = folder / f"{self.trial.target}-{digest}.json"
        folder.mkdir(parents=True, exist_ok=True)
        content = self.trial.to_json() | {"signature": self.signature, "report": self.report.splitlines()}
        path.write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
        return path


def load(path: Path) -> Trial:
    """The trial of a file that `Finding.keep` wrote."""
    return Trial.from_json(json.loads(path.read_text(encoding="utf-8")))
