"""Keys and passwords of projects: references to the environment, resolved only where they are used.

A project's file may say `${NAME}`; a missing key refers to the variable that ASA's own deployment template
calls its parameter (`asa.md` 10.2), such as `Inputs_toll_DataSource_SharedAccessPolicyKey`. `NAME`, or
`NAME_FILE` for a file that holds it, is looked up by `connect.environment.resolved`.

A literal stays a literal: a dataclass keeps it in a field with `repr=False` that is no part of its identity.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: What stands in a text for people in place of a secret.
MASK = "***"

_REFERENCE = re.compile(r"\$\{[^}]*\}")
_NOT_OF_A_VARIABLE = re.compile(r"[^A-Za-z0-9_]")


def secret_reference(value: object, name: str) -> str:
    """What a project's file says of a secret; one that is missing, null, empty or masked (`****`) refers to
    the variable `name`.

    >>> secret_reference("${KEY}", "Inputs_toll_DataSource_SharedAccessPolicyKey")
    '${KEY}'
    >>> secret_reference(None, "Inputs_toll_DataSource_SharedAccessPolicyKey")
    '${Inputs_toll_DataSource_SharedAccessPolicyKey}'
    """
    text = value.strip() if isinstance(value, str) else ""
    return (text.strip("*") and text) or f"${{{name}}}"


def is_literal(secret: str) -> bool:
    """Whether the secret itself stands there, not a reference to it.

    >>> is_literal("abc="), is_literal("${KEY}")
    (True, False)
    """
    return _REFERENCE.search(secret) is None


def input_secret(name: str, key: str) -> str:
    """The variable for a key of an input, as ASA's templates call it.

    A character that no variable may have is an underscore.

    >>> input_secret("toll-booth", "SharedAccessPolicyKey")
    'Inputs_toll_booth_DataSource_SharedAccessPolicyKey'
    """
    return f"Inputs_{_NOT_OF_A_VARIABLE.sub('_', name)}_DataSource_{key}"


def output_secret(name: str, key: str) -> str:
    """The variable for a key of an output, as ASA's templates call it: `AccountKey`, `ApiKey`, `Password` …

    >>> output_secret("hot", "Password")
    'Outputs_hot_DataSource_Password'
    """
    return f"Outputs_{_NOT_OF_A_VARIABLE.sub('_', name)}_DataSource_{key}"


def masked(text: str, secrets: Iterable[str]) -> str:
    """A text for people, without the secrets that stand in it.

    >>> masked("login with abc= failed", ["abc="])
    'login with *** failed'
    """
    for secret in sorted({each for each in secrets if each}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text
