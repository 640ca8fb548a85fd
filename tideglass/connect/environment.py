"""References to variables of the environment, so that no secret need stand in a project: `${PASSWORD}`.

Where `PASSWORD` is not set and `PASSWORD_FILE` is, the file it names holds the value: that is how secrets are
mounted in containers. What a reference means is masked in all texts for people (`core.masking`) where the
variable's name sounds like a secret, or a file holds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tideglass.core.errors import ProjectError
from tideglass.core.masking import keep_secret

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
#: In names of variables whose values are secrets.
_OF_SECRETS = re.compile(
    r"key|secret|passw|passphrase|pwd|token|credential|signature|(^|_)sas(_|$)|connection_?string|jaas",
    re.IGNORECASE,
)


def resolved(text: str, environment: Mapping[str, str], source: str = "the project") -> str:
    """The text with what it refers to. Raises ProjectError for a variable that is not set.

    A value from a file is without the line end at its end. source: where the text is from, for that error.

    >>> resolved("user-${NAME}", {"NAME": "a"})
    'user-a'
    """
    return _REFERENCE.sub(lambda found: _value(found[1], environment, source), text)


def resolved_secret(text: str, environment: Mapping[str, str], source: str = "the project") -> str:
    """As `resolved`, for a text that is a secret as a whole, also where it stands in the project itself."""
    return keep_secret(resolved(text, environment, source))


def _value(name: str, environment: Mapping[str, str], source: str) -> str:
    if name in environment:
        found = environment[name]
        return keep_secret(found) if _OF_SECRETS.search(name) else found
    file = environment.get(f"{name}_FILE")
    if file is None:
        raise ProjectError(
            f"{source} refers to the environment variable {name}, which is not set\n"
            f"  hint: export {name}=... before the run, or {name}_FILE for a file that holds it"
        )
    try:
        return keep_secret(Path(file).read_text(encoding="utf-8").rstrip("\r\n"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ProjectError(f"the file {file}, which {name}_FILE names, cannot be read: {reason}") from error
