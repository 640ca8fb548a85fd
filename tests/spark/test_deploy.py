"""What lies in `deploy/`, as far as it can be tried without a container."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
import typer
import yaml

from tideglass.cli.main import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"


def test_the_image_copies_what_is_there_and_has_a_python_and_a_java_that_are_supported() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    assert {name for name, _ in steps} <= {"FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "ENTRYPOINT"}
    copied = [word for name, rest in steps if name == "COPY" for word in rest.split()[:-1]]
    assert all((ROOT / each).exists() for each in copied if not each.startswith("--"))
    assert "FROM python:3.11-" in text
    assert "openjdk-17-jre" in text
    assert {"tideglass", "deploy/entrypoint.sh"} <= set(copied)


def test_the_image_starts_executors_as_spark_asks_and_commands_as_they_are(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    named = {name: name.lower() for name in re.findall(r"\$(SPARK_[A-Z_]+)", entrypoint())}
    environment = {**named, "PATH": f"{tmp_path}:{os.defpath}", "SPARK_EXECUTOR_MEMORY": "1g"}
    environment |= {"SPARK_JAVA_OPT_0": "-Da=b c", "SPARK_JAVA_OPT_1": "-Xss4m", "SPARK_HOME": "/spark"}

    def ran(*words: str) -> list[str]:
        command = ["sh", str(DEPLOY / "entrypoint.sh"), *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    assert ran("echo", "a b") == ["a b"]
    words = ran("executor")
    assert words[:4] == ["-Da=b c", "-Xss4m", "-Xms1g", "-Xmx1g"]
    assert words[words.index("--driver-url") + 1] == "spark_driver_url"
    assert words[words.index(BACKEND) - 1].endswith("/spark/jars/*")
    [jar] = (Path(pyspark.__file__).parent / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as archive:
        assert f"{BACKEND.replace('.', '/')}.class" in archive.namelist()


def entrypoint() -> str:
    return (DEPLOY / "entrypoint.sh").read_text(encoding="utf-8")


def test_the_job_on_kubernetes_has_what_it_names_and_a_command_that_is_understood() -> None:
    parts: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8")))
    assert all({"apiVersion", "kind", "metadata"} <= set(part) for part in parts)
    by_kind = {part["kind"]: part for part in parts}
    pod = by_kind["Job"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == by_kind["ServiceAccount"]["metadata"]["name"]
    assert by_kind["RoleBinding"]["roleRef"]["name"] == by_kind["Role"]["metadata"]["name"]
    [volume], [driver] = pod["volumes"], pod["containers"]
    claim = by_kind["PersistentVolumeClaim"]["metadata"]["name"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim
    assert [each["name"] for each in driver["volumeMounts"]] == [volume["name"]]
    set_here = {each["name"] for each in driver["env"]}
    assert set(re.findall(r"\$\((\w+)\)", str(driver["args"]))) <= set_here
    program, command, *words = driver["args"]
    assert (program, command) == ("tideglass", "run")
    group: Any = typer.main.get_command(app)
    run = group.commands["run"]
    understood = run.make_context("run", words).params
    assert understood["live"] is True
    assert understood["master"].startswith("k8s://")
    assert any(f"claimName={claim}" in each for each in understood["conf"])


@pytest.mark.usefixtures("java")
def test_the_cells_of_the_notebook_run(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    text = (DEPLOY / "databricks.py").read_text(encoding="utf-8")
    first, *cells = text.split("# COMMAND ----------\n")
    assert first.startswith("# Databricks notebook source\n")
    kept = spark.conf.get("spark.sql.shuffle.partitions") or "2"
    names: dict[str, Any] = {"spark": spark}
    try:
        for cell in cells:
            exec(compile(cell, "deploy/databricks.py", "exec"), names)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", kept)
    assert "2026-01-01 00:00:05" in capsys.readouterr().out
    assert sorted((row.device, row.mean) for row in names["means"].collect()) == [("a", 21.0), ("b", 19.0)]
