"""Storage accounts of projects: containers as paths, keys of the environment, and what stands in for them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tideglass.connect.azure.endpoints import ENDPOINTS
from tideglass.connect.azure.storage_account import StorageAccount
from tideglass.core.errors import ProjectError
from tideglass.project.azure import secret_of_output
from tideglass.project.connectors import Described
from tideglass.project.file_reader import Problems
from tideglass.project.storage_accounts import storage_account
from tideglass.storage import StorageOptions, storage_path
from tideglass.storage.storage_options import store_config
from tideglass.storage.store_uri import store_uri

HOST = "toll.dfs.core.windows.net"
VARIABLE = "Outputs_hot_DataSource_AccountKey"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ENDPOINTS, VARIABLE, "TOLL_KEY"):
        monkeypatch.delenv(name, raising=False)


def read(**block: Any) -> tuple[StorageAccount | None, Problems]:
    problems = Problems(Path("p"))
    described = Described("hot", "Blob Storage", {}, ",", Path("p/hot.json"), problems)
    return storage_account(block, described, secret_of_output), problems


def test_a_container_is_a_path_without_a_key():
    account = StorageAccount("Toll", "secret")
    assert account.container("hot") == storage_path(f"abfss://hot@{HOST}")
    assert "secret" not in repr(account)
    assert b"secret" not in pickle.dumps(account)
    assert account == StorageAccount("Toll", "another")


@pytest.mark.parametrize("name", ["toll", "toll.blob.core.windows.net", "toll.dfs.core.windows.net"])
def test_an_account_is_named_by_its_name_or_its_host(name: str):
    assert StorageAccount(name).host == HOST


def test_a_key_is_looked_up_where_it_is_used(monkeypatch: pytest.MonkeyPatch):
    account = StorageAccount("toll", "${TOLL_KEY}", key_is_optional=False)
    with pytest.raises(ProjectError, match="TOLL_KEY"):
        account.settings()
    monkeypatch.setenv("TOLL_KEY", "a2V5")
    assert account.settings() == {f"fs.azure.account.key.{HOST}": "a2V5"}


def test_where_the_project_says_no_key_the_variable_of_the_templates_may_be_missing(
    monkeypatch: pytest.MonkeyPatch,
):
    account, problems = read(StorageAccounts=[{"AccountName": "toll", "AccountKey": None}])
    assert account is not None
    assert not problems.errors
    assert account.settings() == {}
    monkeypatch.setenv(VARIABLE, "a2V5")
    assert account.settings() == {f"fs.azure.account.key.{HOST}": "a2V5"}


def test_an_address_stands_in_for_one_account_and_not_for_others(monkeypatch: pytest.MonkeyPatch):
    stand_in = {"toll.blob.core.windows.net": "http://127.0.0.1:11000/toll"}
    monkeypatch.setenv(ENDPOINTS, json.dumps(stand_in))
    options = StorageOptions(tuple(sorted(StorageAccount("toll", "a2V5").settings().items())))

    def config(host: str) -> Mapping[str, Any]:
        return store_config(store_uri(f"abfss://hot@{host}")[0], options, {})

    assert config(HOST)["endpoint"] == "http://127.0.0.1:11000/toll"
    assert config(HOST)["account_key"] == "a2V5"
    assert config(HOST)["client_options"] == {"allow_http": True}
    assert config("other.dfs.core.windows.net") == {"account_name": "other"}


def test_a_folder_may_stand_in_for_an_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv(ENDPOINTS, json.dumps({"toll.blob.core.windows.net": f"file://{tmp_path}"}))
    account = StorageAccount("toll", "a2V5")
    assert account.container("hot") == storage_path(tmp_path / "hot")
    assert account.settings() == {}


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ({}, "holds no account, and must hold one"),
        ({"StorageAccounts": [{"AccountName": "a"}, {"AccountName": "b"}]}, "holds 2 accounts"),
        ({"storageAccounts": [{"accountKey": "k"}]}, '"AccountName" is missing'),
    ],
)
def test_a_block_without_one_account_is_reported(block: dict[str, Any], says: str):
    account, problems = read(**block)
    assert account is None
    assert says in problems.errors[0]


def test_an_identity_needs_no_key_and_a_key_in_the_file_is_noted():
    account, problems = read(StorageAccounts=[{"AccountName": "toll"}], AuthenticationMode="Msi")
    assert (account, problems.notices) == (StorageAccount("toll"), [])
    assert account is not None
    assert account.settings() == {}
    account, problems = read(StorageAccounts=[{"AccountName": "toll", "AccountKey": "c2VjcmV0"}])
    assert "c2VjcmV0" not in "".join(problems.notices)
    assert problems.notices
