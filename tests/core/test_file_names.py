"""No name of a user is a path, and names that differ are different files."""

from __future__ import annotations

import string
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tideglass.core.file_names import MOST_BYTES, folder_name, state_name

NASTY = [
    *("", ".", "..", "...", "../..", "../../evil", "/abs", "\\abs", "..\\evil", "C:\\evil", "C:evil"),
    *("~", "~root", "con", "CON.txt", "NUL", "com1", "lpt9.x", "_staging"),
    *("a/b", "a\\b", "a\0b", "a\nb", " ", " a", "a ", "a.", ".a",),
    *("%2E", "%2F", "%", "%%", "%~", "a%~b", "$HOME"),
    *("*", "?", "a:b", "<a>", '"a"', "|", "\ud800", "\u202e", "\ufeff"),
    *("x" * 300, "x" * 301),
    *("é" * 150, "é" * 151, "/" * 200, "/" * 201, "a\u0301", "\u00e1", "\u212b", "\u00c5"),
]  # fmt: skip
names = st.text(st.characters() | st.sampled_from("./\\%~ \0:_") | st.sampled_from(string.ascii_letters))
WAYS = pytest.mark.parametrize("way", [folder_name, state_name])


def as_a_mac_sees_it(name: str) -> str:
    return unicodedata.normalize("NFD", name)


def is_one_file(name: str) -> bool:
    part = name.partition(".")[0].lower()
    device = part in {"con", "prn", "aux", "nul"} or (part[:3] in {"com", "lpt"} and part[3:].isdigit())
    return (
        0 < len(name.encode()) <= MOST_BYTES
        and name not in (".", "..")
        and not set(name) & set('/\\:*?"<>|\0' + "".join(map(chr, range(32))))
        and not device
    )


@WAYS
def test_nasty_names_stay_apart_and_name_one_file_each(way, tmp_path):
    made = [way(name) for name in NASTY]
    assert len({as_a_mac_sees_it(each) for each in made}) == len(NASTY)
    for each in made:
        assert is_one_file(each), each
        (tmp_path / each).mkdir()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(made)


@WAYS
@given(names, names)
@example("ﬁ", "fi")
def test_names_that_differ_are_different_files(way, one, other):
    assert is_one_file(way(one))
    assert (as_a_mac_sees_it(way(one)) == as_a_mac_sees_it(way(other))) == (one == other)


@given(names)
def test_a_folder_of_a_name_is_not_hidden_and_keeps_its_end(name):
    made = folder_name(name)
    assert made[0] not in ". "
    assert made[-1] not in ". "


@pytest.mark.parametrize("name", ["perMinute", "per minute", "Größe", "out-1", "a.b", "_x", "出力"])
def test_ordinary_names_are_written_as_they_are(name):
    assert folder_name(name) == name


def test_state_of_ordinary_senders_is_where_earlier_versions_left_it():
    assert state_name("toll/JFK 3") == "toll%2FJFK%203"
