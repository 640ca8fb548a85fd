"""Secrets in the files of a project that describe services of Azure."""

from __future__ import annotations

from tideglass.connect.azure.secrets import input_secret, is_literal, output_secret, secret_reference
from tideglass.core.masking import keep_secret
from tideglass.project.connectors import Described


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
