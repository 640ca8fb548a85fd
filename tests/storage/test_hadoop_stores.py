"""What Spark is told of the store of a job directory."""

from __future__ import annotations

import os
import re

import pytest

from tideglass.core.errors import StorageError
from tideglass.spark.session.hadoop_stores import hadoop_version, pass_on, store_packages, store_settings
from tideglass.spark.session.libraries import Libraries
from tideglass.storage import StorageOptions, storage_path
from tideglass.storage.storage_options import VARIABLE

AZURE = storage_path("abfss://jobs@account.dfs.core.windows.net/toll")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in list(os.environ):
        if name.startswith(("AZURE_", "AWS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv(VARIABLE, "")
    return monkeypatch


def test_a_local_directory_needs_nothing(tmp_path):
    assert Libraries(directory=storage_path(tmp_path)).settings() == {}


def test_a_directory_in_a_store_needs_the_driver_of_sparks_own_hadoop():
    packages = f"org.apache.hadoop:hadoop-azure:{hadoop_version()}"
    assert store_packages(AZURE) == (packages,)
    assert Libraries(directory=AZURE).settings() == {"spark.jars.packages": packages}
    both = Libraries("a:b:1", directory=AZURE).settings()
    assert both["spark.jars.packages"] == f"a:b:1,{packages}"
    assert store_packages(storage_path("s3a://bucket/toll")) == (
        f"org.apache.hadoop:hadoop-aws:{hadoop_version()}",
    )


def test_a_store_without_a_driver_of_hadoop_is_refused():
    with pytest.raises(StorageError, match="NO_HADOOP_DRIVER"):
        store_packages(storage_path("gs://bucket/toll"))


def test_the_environment_lets_spark_in_too(environment):
    environment.setenv("AZURE_STORAGE_ACCOUNT_KEY", "own")
    assert store_settings(AZURE) == {
        "spark.hadoop.fs.azure.account.key.account.dfs.core.windows.net": "own",
        "spark.hadoop.fs.azure.account.key.account.blob.core.windows.net": "own",
    }


def test_what_sparks_configuration_says_goes_on_to_executors_and_is_hidden(environment):
    assert pass_on({"spark.master": "local"}) == {}
    name = "fs.azure.account.key.account.dfs.core.windows.net"
    added = pass_on({"spark.master": "local", f"spark.hadoop.{name}": "own"})
    assert StorageOptions.of_environment().settings == ((name, "own"),)
    assert StorageOptions.of_environment({VARIABLE: added[f"spark.executorEnv.{VARIABLE}"]}).settings
    for secret in (f"spark.executorEnv.{VARIABLE}", f"spark.hadoop.{name}", "fs.s3a.secret.key"):
        assert re.search(added["spark.redaction.regex"], secret)
