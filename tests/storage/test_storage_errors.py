"""What a user is told whose store cannot be used: the place, the remedy, and never a secret."""

from __future__ import annotations

import pickle
import sys

import pytest

from support.stores import ACCOUNT_KEY, azurite, s3_server
from tideglass.core.errors import StorageError
from tideglass.storage import StorageOptions, storage_path
from tideglass.storage.object_store import _opened
from tideglass.storage.storage_options import VARIABLE, hadoop_settings, store_config
from tideglass.storage.store_uri import store_uri

AZURE = "abfs://jobs@account.dfs.core.windows.net"
_NAMES = ("AZURE_", "AWS_", "GOOGLE_", VARIABLE)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without credentials, where no machine of a cloud gives any."""
    import os

    for name in list(os.environ):
        if name.startswith(_NAMES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AZURE_MSI_ENDPOINT", "http://127.0.0.1:1/")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1/")
    _opened.cache_clear()
    monkeypatch.setattr("tideglass.storage.object_store.MOST_RETRIES", 0)
    yield monkeypatch
    _opened.cache_clear()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("hdfs://name/a", "UNKNOWN_STORAGE"),
        ("dbfs://a", "UNKNOWN_STORAGE"),
        ("abfs://account.dfs.core.windows.net/a", "STORAGE_URI"),
        ("abfs://c:secret@account.dfs.core.windows.net/a", "STORAGE_URI"),
        ("s3a://key:secret@bucket/a", "STORAGE_URI"),
        ("s3a:///a", "STORAGE_URI"),
        ("s3a://bucket?key=secret", "STORAGE_URI"),
        ("s3a://bucket/a/../b", "STORAGE_URI"),
    ],
)
def test_a_uri_that_names_no_store_says_how_they_are_spelled(text, code):
    with pytest.raises(StorageError, match=code) as found:
        storage_path(text)
    assert "secret" not in str(found.value)


@pytest.mark.parametrize(
    ("text", "remedy"), [(AZURE, "AZURE_STORAGE_ACCOUNT_KEY"), ("s3a://bucket", "AWS_ACCESS_KEY_ID")]
)
def test_without_credentials_the_error_says_where_they_go(environment, text, remedy):
    with pytest.raises(StorageError, match="NO_CREDENTIALS") as found:
        (storage_path(text) / "a").read_bytes()
    assert remedy in str(found.value)


def test_without_the_library_the_error_names_it(environment):
    environment.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(StorageError, match="pip install obstore"):
        storage_path(f"{AZURE}/a").exists()


@pytest.mark.long
def test_a_wrong_key_and_a_missing_container_are_told_apart(environment, tmp_path):
    with azurite(tmp_path) as store:
        for name, value in store.environment.items():
            environment.setenv(name, value)
        with pytest.raises(StorageError, match="no container or bucket 'other-"):
            storage_path(store.root.replace("//jobs-", "//other-") + "/a").read_bytes()
        with pytest.raises(StorageError, match="no container or bucket 'other-"):
            storage_path(store.root.replace("//jobs-", "//other-") + "/a").create(b"")
        assert not storage_path(f"{store.root}/a").exists()
        wrong = ACCOUNT_KEY[:-6] + "AAAA=="
        environment.setenv("AZURE_STORAGE_ACCOUNT_KEY", wrong)
        _opened.cache_clear()
        with pytest.raises(StorageError, match="STORAGE_DENIED") as found:
            storage_path(f"{store.root}/a").read_bytes()
        assert wrong not in str(found.value)


@pytest.mark.long
def test_a_missing_bucket_is_named(environment):
    with s3_server() as store:
        for name, value in store.environment.items():
            environment.setenv(name, value)
        with pytest.raises(StorageError, match="no container or bucket 'other'"):
            storage_path("s3a://other/a").read_bytes()


def test_options_show_names_only_and_are_never_pickled():
    options = StorageOptions.of_spark({"spark.hadoop.fs.s3a.secret.key": "hidden", "spark.master": "local"})
    assert repr(options) == "StorageOptions(fs.s3a.secret.key)"
    with pytest.raises(TypeError, match="secrets"):
        pickle.dumps(options)


@pytest.mark.long
def test_spark_settings_reach_a_process_by_its_environment(environment, tmp_path):
    """The driver knows Spark's configuration; a task has nothing but its environment."""
    with azurite(tmp_path) as store:
        host = store.environment["AZURE_STORAGE_ENDPOINT"].split("/")[2]
        passed: dict[str, str] = {}
        StorageOptions.of_spark(
            {
                "spark.hadoop.fs.azure.account.key.devstoreaccount1.dfs.core.windows.net": ACCOUNT_KEY,
                "spark.hadoop.fs.azure.abfs.endpoint": host,
                "spark.hadoop.fs.azure.always.use.https": "false",
            }
        ).put_into(passed)
        StorageOptions.of_spark({"fs.s3a.endpoint": "elsewhere"}).put_into(passed)
        assert list(passed) == [VARIABLE]
        environment.setenv(VARIABLE, passed[VARIABLE])
        path = storage_path(f"{store.root}/a")
        path.write(b"1")
        assert path.read_bytes() == b"1"
        assert len(StorageOptions.of_environment().settings) == 4


def test_a_broken_variable_is_named_and_not_shown(environment):
    environment.setenv(VARIABLE, "secret")
    with pytest.raises(StorageError, match=VARIABLE) as found:
        storage_path(f"{AZURE}/a").exists()
    assert "secret" not in str(found.value)


def test_settings_of_hadoop_become_those_of_the_library():
    azure, s3 = store_uri(AZURE)[0], store_uri("s3a://bucket")[0]
    spark = {
        "fs.azure.account.key": "for all",
        "fs.azure.account.key.account.dfs.core.windows.net": "own",
        "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant/oauth2/token",
        "fs.s3a.access.key": "id",
        "fs.s3a.endpoint": "store:9000",
        "fs.s3a.connection.ssl.enabled": "false",
    }
    options = StorageOptions.of_spark(spark)
    assert store_config(azure, options, {}) == {
        "account_name": "account",
        "account_key": "own",
        "tenant_id": "tenant",
    }
    assert store_config(s3, options, {}) == {
        "access_key_id": "id",
        "endpoint": "http://store:9000",
        "region": "us-east-1",
        "client_options": {"allow_http": True},
    }
    china = store_uri("abfss://jobs@account.dfs.core.chinacloudapi.cn/a")[0]
    assert (
        store_config(china, StorageOptions(), {})["endpoint"] == "https://account.blob.core.chinacloudapi.cn"
    )


def test_what_the_environment_says_goes_on_to_hadoop():
    environment = {"AZURE_STORAGE_ACCOUNT_KEY": "own", "AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:1/account"}
    found = hadoop_settings(store_uri(AZURE)[0], environment)
    assert found["fs.azure.account.key.account.dfs.core.windows.net"] == "own"
    assert found["fs.azure.account.key.account.blob.core.windows.net"] == "own"
    assert found["fs.azure.abfs.endpoint"] == "127.0.0.1:1"
    assert hadoop_settings(store_uri(AZURE)[0], {}) == {}
    s3 = hadoop_settings(store_uri("s3a://bucket")[0], {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    assert s3["fs.s3a.endpoint"] == "http://127.0.0.1:1"
