"""Secrets are masked in errors, tracebacks and texts, however they are spelled there."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideglass.connect.environment import resolved, resolved_secret
from tideglass.core import masking
from tideglass.core.errors import OutputError, OutputUnavailable, TideglassError
from tideglass.core.masking import keep_secret, masked


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_spellings", set())
    monkeypatch.setattr(masking, "_pattern", [])


@given(st.text(min_size=6))
def test_a_secret_is_masked_in_every_spelling(secret: str) -> None:
    keep_secret(secret)
    spelled = [
        *(secret, json.dumps(secret)[1:-1], repr(secret)[1:-1]),
        *(
            ()
            if any("\ud800" <= each <= "\udfff" for each in secret)
            else (quote(secret), quote_plus(secret))
        ),
    ]
    for each in spelled:
        assert each not in masked(f"<{each}>")


@given(st.lists(st.text(alphabet="ab/+%", min_size=6), min_size=1, max_size=4))
def test_a_secret_within_another_leaves_nothing_of_either(secrets: list[str]) -> None:
    for each in secrets:
        keep_secret(each)
    for each in secrets:
        assert each not in masked(f"x {each} y")


def test_what_is_no_secret_stays_and_so_do_short_texts() -> None:
    keep_secret("short")
    keep_secret("")
    assert masked("a short text") == "a short text"


def test_an_error_holds_no_secret_as_a_text_nor_in_its_words_for_programmers() -> None:
    keep_secret("canary-0f9c")
    for error in (TideglassError("x canary-0f9c"), OutputUnavailable("x canary-0f9c", 3.0)):
        assert "canary" not in str(error) + repr(error) + f"{error}"


@pytest.mark.parametrize(
    ("name", "is_masked"),
    [
        *[(name, True) for name in ("Outputs_hot_DataSource_ApiKey", "DB_PASSWORD", "SAS", "EVENTHUB_SAS")],
        *[(name, True) for name in ("CONNECTION_STRING", "ConnectionString", "PGPASSWORD", "MY_TOKEN")],
        *[(name, False) for name in ("TOPIC", "SERVERS", "USER", "PATH_OF_SASKIA")],
    ],
)
def test_a_variable_whose_name_sounds_like_a_secret_is_masked(name: str, is_masked: bool) -> None:
    assert resolved(f"a-${{{name}}}", {name: "canary-0f9c"}) == "a-canary-0f9c"
    assert ("canary" not in masked("canary-0f9c")) == is_masked


def test_what_a_file_holds_is_masked(tmp_path: Path) -> None:
    (tmp_path / "mounted").write_text("canary-0f9c\n")
    assert resolved("${USER}", {"USER_FILE": str(tmp_path / "mounted")}) == "canary-0f9c"
    assert masked("canary-0f9c") == masking.MASK


def test_a_secret_in_a_project_is_masked_too() -> None:
    assert resolved_secret("canary-0f9c", {}) == "canary-0f9c"
    assert "canary" not in str(OutputError("refused: canary-0f9c"))
    assert base64.b64encode(b"canary-0f9c").decode() not in masked(base64.b64encode(b"canary-0f9c").decode())


PROGRAM = """
import threading
from tideglass.core.masking import keep_secret, mask_tracebacks
mask_tracebacks()
keep_secret("canary-0f9c")

def fails():
    try:
        raise ValueError("of a library: canary-0f9c")
    except ValueError as error:
        raise KeyError("canary-0f9c") from error

thread = threading.Thread(target=fails)
thread.start()
thread.join()
fails()
"""


def test_tracebacks_of_a_process_and_its_threads_are_masked() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("of a library: ***") == 2
    assert done.stderr.count("KeyError") == 2
    assert "canary-0f9c" not in done.stderr
