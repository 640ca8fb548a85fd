"""References to variables of the environment, so that no secret need stand in a project: `${PASSWORD}`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tideglass.core.errors import ProjectError

_REFERENCE = re.compile(r"\$\{([^}]*)\}")


def resolved(text: str, environment: Mapping[str, str], source: str = "the project") -> str:
    """The text with what it refers to. Raises ProjectError for a variable that is not set.

    source: where the text is from, for that error.

    >>> resolved("user-${NAME}", {"NAME": "a"})
    'user-a'
    """
    missing = [name for name in _REFERENCE.findall(text) if name not in environment]
    if missing:
        raise ProjectError(
            f"{source} refers to the environment variable {missing[0]}, which is not set\n"
            f"  hint: export {missing[0]}=... before the run"
        )
    return _REFERENCE.sub(lambda found: environment[found[1]], text)
