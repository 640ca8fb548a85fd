"""Which Java Spark runs on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tideglass.core.errors import TideglassError
from tideglass.spark.session import java


def fake_java(home: Path, version: str, status: int = 0) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {status}\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)


def test_java_home_comes_before_the_path(tmp_path):
    home, other = fake_java(tmp_path / "a", "17.0.15"), fake_java(tmp_path / "b", "21")
    environment = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    found = java.find_java(environment)
    assert found == java.Java(home, 17, "JAVA_HOME")


@pytest.mark.usefixtures("no_package")
@pytest.mark.parametrize(("version", "status"), [("1.8.0_402", 0), ("11.0.2", 0), ("17.0.1", 1)])
def test_a_java_that_is_too_old_or_does_not_run_is_passed_over(tmp_path, version, status):
    old, new = fake_java(tmp_path / "a", version, status), fake_java(tmp_path / "b", "17.0.1")
    environment = {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    assert java.use_java(environment).version == 17
    assert environment["JAVA_HOME"] == str(new)
    with pytest.raises(TideglassError, match="apt-get install openjdk-17"):
        java.use_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})


def test_the_shim_drops_one_argument_and_keeps_every_other_as_it_is(tmp_path):
    program = tmp_path / "real"
    program.write_text('#!/bin/sh\nprintf "[%s]" "$@"\n')
    program.chmod(0o755)
    home = java.write_shim(program, tmp_path / "home")
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "", "--add-modules=java.sql", "$HOME"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "[-cp][a b:*][][--add-modules=java.sql][$HOME]"
    assert os.access(home / "bin" / "java", os.X_OK)
