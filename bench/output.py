"""What is in an output directory at a moment: the rows that were committed, and when a new one came."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlparse

import duckdb

#: How often a directory is looked at.
LOOK_SECONDS = 0.02


@dataclass
class Output:
    """Rows as their reader sees them: whole files, or those that Structured Streaming's log names.

    key: the columns no two rows share. logged: files count once the log of the directory names them.
    """

    folder: Path
    key: tuple[str, ...]
    logged: bool = False
    _known: dict[Path, int] = field(default_factory=dict[Path, int])
    _keys: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])

    def forget(self) -> None:
        """Look upon it as empty."""
        self._known.clear()
        self._keys.clear()

    def files(self) -> list[Path]:
        """The files whose rows are there."""
        if not self.logged:
            return sorted(each for each in self.folder.glob("part-*") if each.stat().st_size)
        found: list[Path] = []
        for log in (self.folder / "_spark_metadata").glob("[0-9]*"):
            for line in log.read_text().splitlines()[1:]:  # the first is a version
                path = Path(unquote(urlparse(json.loads(line)["path"]).path))
                if path not in found:
                    found.append(path)
        return sorted(found)

    def table(self) -> str:
        """The rows as a table of DuckDB's SQL."""
        return _table(self.files())

    def look(self) -> list[tuple[object, ...]]:
        """The keys of rows that have come since the last look."""
        changed: list[Path] = []
        for file in self.files():
            at = file.stat().st_mtime_ns
            if self._known.get(file) != at:
                self._known[file] = at
                changed.append(file)
        if not changed:
            return []
        keys = ", ".join(self.key)
        rows = duckdb.execute(f"SELECT DISTINCT {keys} FROM {_table(changed)}").fetchall()
        new = [row for row in rows if row not in self._keys]
        self._keys.update(new)
        return new

    def wait(self, is_over: Callable[[], bool], limit_seconds: float) -> float | None:
        """Seconds, on the clock of `time.monotonic`, at which a new row was there; None when none comes."""
        until = time.monotonic() + limit_seconds
        while time.monotonic() < until:
            over = is_over()
            now = time.monotonic()
            if self.look():
                return now
            if over:
                return None
            time.sleep(LOOK_SECONDS)
        return None


def _table(files: list[Path]) -> str:
    listed = ", ".join(f"'{file}'" for file in files)
    if files and files[0].suffix == ".parquet":
        return f"read_parquet([{listed}])"
    return f"read_json([{listed}], format = 'newline_delimited')"
