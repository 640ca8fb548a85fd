"""Where the package keeps what it has made once and can make again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The user's folder for such things; it need not exist, nor be writable.

    `$XDG_CACHE_HOME/tideglass`, else `~/.cache/tideglass`. Raises RuntimeError where the user has no home.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tideglass"
