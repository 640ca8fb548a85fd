"""String functions (asa.md 4.7)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import depth
from support.evaluating import by_column, call, value
from tideglass.core.errors import EvaluationError


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        ("len", ("abc  ",), 3),
        ("len", ("  abc",), 5),
        ("len", ("",), 0),
        ("len", ("a\t",), 2),
        ("len", ("é😀",), 2),
        ("substring", ("abcdef", 2, 3), "bcd"),
        ("substring", ("abcdef", 0, 3), "ab"),
        ("substring", ("abcdef", -1, 3), "a"),
        ("substring", ("abcdef", -5, 3), ""),
        ("substring", ("abcdef", 7, 2), ""),
        ("substring", ("abcdef", 5, 100), "ef"),
        ("substring", ("abcdef", 1, 2**62), "abcdef"),
        ("substring", ("abcdef", 2, 0), ""),
        ("left", ("abc", 2), "ab"),
        ("left", ("abc", 0), ""),
        ("left", ("abc", 10), "abc"),
        ("right", ("abc", 2), "bc"),
        ("right", ("abc", 0), ""),
        ("right", ("abc", 10), "abc"),
        ("stuff", ("abcdef", 2, 3, "XY"), "aXYef"),
        ("stuff", ("abcdef", 2, 0, "XY"), "aXYbcdef"),
        ("stuff", ("abcdef", 0, 2, "X"), "Xcdef"),
        ("stuff", ("abcdef", -3, 1, "X"), "Xbcdef"),
        ("stuff", ("abcdef", 7, 1, "X"), ""),
        ("stuff", ("abcdef", 6, 100, "X"), "abcdeX"),
        ("charindex", ("c", "abcabc"), 3),
        ("charindex", ("c", "abcabc", 4), 6),
        ("charindex", ("c", "abcabc", -4), 3),
        ("charindex", ("z", "abcabc"), 0),
        ("charindex", ("C", "abcabc"), 0),
        ("charindex", ("", "abc"), 0),
        ("charindex", ("a", "abc", 50), 0),
        ("patindex", ("%b_d%", "abcd"), 2),
        ("patindex", ("%[0-9]%", "abc7"), 4),
        ("patindex", ("%[^a-c]%", "abcd"), 4),
        ("patindex", ("ab%", "abcd"), 1),
        ("patindex", ("b%", "abcd"), 0),
        ("patindex", ("%cd", "abcdcd"), 5),
        ("patindex", ("%x%", "abcd"), 0),
        ("regexmatch", ("Hello", "l+"), 3),
        ("regexmatch", ("Hello", "H.L"), 1),
        ("regexmatch", ("Hello", "x"), 0),
        ("regexmatch", ("Hello", "("), 0),
        ("regexmatch", ("😀ab", "B"), 3),
        ("regexmatch", ("a\nb", "a.b"), 1),
        ("regexmatch", ("2020-01-01", r"^(?<y>\d{4})-\d\d-\d\d$"), 1),
        ("replace", ("aXbX", "X", "--"), "a--b--"),
        ("replace", ("abc", "", "x"), "abc"),
        ("translate", ("2*[3+4]/{7-2}", "[]{}", "()()"), "2*(3+4)/(7-2)"),
        ("translate", ("abc", "ab", "ba"), "bac"),
        ("concat", ("a", None, 1, 2.5, True), "a12.51"),
        ("concat", (None, None), ""),
        ("concat_ws", (",", "a", None, "b"), "a,b"),
        ("concat_ws", (",", None, None), ""),
        ("concat_ws", ("-", "", "b"), "-b"),
        ("ltrim", ("\u2003 \ta ",), "a "),
        ("rtrim", (" a\u3000\x85\n",), " a"),
        ("trim", ("\xa0a b\u2028",), "a b"),
        ("trim", ("\u200ba",), "\u200ba"),
        ("lower", ("ÄBC",), "äbc"),
        ("upper", ("äbc",), "ÄBC"),
        ("reverse", ("abc",), "cba"),
        ("replicate", ("ab", 3), "ababab"),
        ("replicate", ("ab", 0), ""),
        ("replicate", ("ab", -1), None),
        ("space", (3,), "   "),
        ("space", (-1,), None),
        ("nchar", (65,), "A"),
        ("nchar", (128512,), "😀"),
        ("nchar", (-1,), None),
        ("nchar", (0x110000,), None),
        ("unicode", ("Abc",), 65),
        ("unicode", ("😀",), 0x1F600),
        ("unicode", ("",), None),
    ],
)
def test_strings(function: str, args: tuple[Any, ...], expected: Any) -> None:
    assert value(call(function, *args)) == expected
    assert by_column(function, *args) == expected


@pytest.mark.parametrize(
    ("function", "args"),
    [
        ("substring", ("abc", 1, -1)),
        ("left", ("abc", -1)),
        ("right", ("abc", -1)),
        ("stuff", ("abc", 1, -1, "x")),
        ("translate", ("abc", "ab", "x")),
        ("len", (5,)),
        ("patindex", ("x" * 8001, "abc")),
    ],
)
def test_errors_stop_the_job(function: str, args: tuple[Any, ...]) -> None:
    with pytest.raises(EvaluationError):
        by_column(function, *args)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        ("len", ("a",)),
        ("substring", ("abc", 1, 1)),
        ("stuff", ("abc", 1, 1, "x")),
        ("stuff", ("abc", 9, 1, "x")),
        ("charindex", ("a", "a", 1)),
        ("patindex", ("%a%", "a")),
        ("regexmatch", ("a", "a")),
        ("replace", ("a", "a", "a")),
        ("translate", ("a", "a", "a")),
        ("trim", ("a",)),
        ("replicate", ("a", 1)),
        ("nchar", (65,)),
    ],
)
def test_a_null_argument_gives_null(function: str, args: tuple[Any, ...]) -> None:
    for place in range(len(args)):
        holed = [None if i == place else arg for i, arg in enumerate(args)]
        assert by_column(function, *holed) is None
        assert value(call(function, *holed)) is None


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("abc", "abc", True),
        ("abc", "ABC", False),
        ("abc", "a%", True),
        ("abc", "_b_", True),
        ("abc", "_b", False),
        ("a\nc", "a%c", True),
        ("a\nc", "a[^x]c", True),
        ("abc", "[a-c]bc", True),
        ("abc", "[^a]bc", False),
        ("5%", "5[%]", True),
        ("55", "5[%]", False),
        ("a]b", "a]b", True),
        ("a[b", "a[b", True),
        ("[x", "[[]x", True),
        ("a-b", "a[-x]b", True),
        ("a\\b", "a\\b", True),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("m", "[z-a]", False),
        ("a^c", "a[b^]c", True),
        (None, "a", False),
        ("a", None, False),
    ],
)
def test_like(text: Any, pattern: Any, expected: bool) -> None:
    assert value(call("like", text, pattern)) is expected
    assert by_column("like", text, pattern) is expected


@given(st.text("ab[]^%_-\\.", max_size=6), st.text("ab[]^%_-\\.", max_size=6))
@settings(max_examples=depth(150), deadline=None)
def test_a_constant_pattern_matches_what_the_same_pattern_in_a_column_does(text: str, pattern: str) -> None:
    assert value(call("like", text, pattern)) is by_column("like", text, pattern)


@given(st.text("abc é😀", max_size=8), st.integers(-3, 10), st.integers(0, 10))
@settings(max_examples=depth(60), deadline=None)
def test_substring_takes_the_characters_at_its_positions(text: str, start: int, length: int) -> None:
    expected = "".join(char for place, char in enumerate(text, 1) if start <= place < start + length)
    assert by_column("substring", text, start, length) == expected
