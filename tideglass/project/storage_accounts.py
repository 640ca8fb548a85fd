"""The storage account of a block of project files: `"StorageAccounts": [{"AccountName": …}]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from tideglass.connect.azure.storage_account import StorageAccount
from tideglass.project.connectors import Described
from tideglass.project.file_reader import text_of
from tideglass.project.keys import canonical, objects_in

#: What `AuthenticationMode` says of an account that is entered without a key: the interface and the tools.
_IDENTITIES = ("msi", "managedidentity", "usertoken")


def storage_account(
    block: Mapping[str, Any], described: Described, secret: Callable[[Described, object, str], str]
) -> StorageAccount | None:
    """The one account of a block, its keys in whatever case; None after a reported problem.

    secret: what the block says of a key, `project.azure.secret_of_input` or `secret_of_output`.
    """
    file, problems = described.file, described.problems
    own = canonical(block, ("StorageAccounts", "AuthenticationMode"))
    listed = own.get("StorageAccounts")
    accounts = [objects_in(each) for each in cast("list[object]", listed)] if isinstance(listed, list) else []
    if len(accounts) != 1:
        problems.error(
            file,
            f'"StorageAccounts" holds {len(accounts) or "no"} account{"s" if len(accounts) > 1 else ""}, '
            'and must hold one: [{"AccountName": "…", "AccountKey": "${NAME}"}]',
        )
        return None
    account = canonical(accounts[0], ("AccountName", "AccountKey"))
    name = text_of(account, "AccountName", file, problems)
    if name is None:
        return None
    if str(own.get("AuthenticationMode") or "").lower().replace(" ", "") in _IDENTITIES:
        return StorageAccount(name)
    stated = account.get("AccountKey")
    return StorageAccount(name, secret(described, stated, "AccountKey"), key_is_optional=not stated)
