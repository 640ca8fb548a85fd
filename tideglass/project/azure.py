"""What a project's files of services of Azure have in common: blocks of keys, and secrets in them."""

from __future__ import annotations

from typing import Any, cast

from tideglass.connect.azure.secrets import input_secret, is_literal, output_secret, secret_reference
from tideglass.core.masking import keep_secret
from tideglass.project.connectors import Described, Properties
from tideglass.project.file_reader import json_kind
from tideglass.project.keys import canonical, warn_of_misspelt


def block(described: Described, key: str, known: tuple[str, ...]) -> Properties:
    """The block under a key, in one spelling. Reports one that is missing, warns of misspelt keys."""
    value = next(
        (each for name, each in described.content.items() if name.casefold() == key.casefold()), None
    )
    if not isinstance(value, dict):
        described.problems.error(
            described.file, f'"{key}" is {json_kind(value)} where an object {{...}} is expected'
        )
        return Properties({}, described.file, described.problems)
    values = {
        name: each
        for name, each in canonical(cast("dict[str, Any]", value), known).items()
        if each is not None
    }
    warn_of_misspelt(values, known, described.file, described.problems)
    return Properties(values, described.file, described.problems)


def secret_of_input(described: Described, value: object, key: str) -> str:
    """What an input's file says under a key that holds a secret; see `connect.azure.secrets`.

    Notes a secret that stands in the file itself.
    """
    return _noted(described, value, key, input_secret(described.name, key))


def secret_of_output(described: Described, value: object, key: str) -> str:
    """As `secret_of_input`, of an output's file."""
    return _noted(described, value, key, output_secret(described.name, key))


def _noted(described: Described, value: object, key: str, variable: str) -> str:
    found = secret_reference(value, variable)
    if is_literal(found):
        keep_secret(found)
        described.problems.notice(
            described.file,
            f'"{key}" holds a secret itself; better is "${{{variable}}}", which is looked up in the '
            "environment when the run starts",
        )
    return found
