"""How a message shows the piece of the query it is about."""

from __future__ import annotations

import pytest

from tideglass.core.errors import Diagnostic, Source, Span


def rendered(text: str, piece: str) -> list[str]:
    start = text.index(piece)
    lines = Diagnostic("CODE", "words", Span(start, start + len(piece))).render(Source(text)).split("\n")
    return [line[2:] for line in lines[1:]]


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("SELECT aa FROM i", "aa"),
        ("SELECT\r\n\taa\r\nFROM i", "aa"),
        ("SELECT '\u2028\x0b', aa FROM i", "aa"),
        ("SELECT " + "1 + " * 500 + "aa" + " + 1" * 500, "aa"),
        ("SELECT " + "1 + " * 500 + "aa", "aa"),
        ("aa" + " + 1" * 500, "aa"),
    ],
)
def test_carets_stand_below_the_piece(text: str, piece: str) -> None:
    shown, carets = rendered(text, piece)
    assert [shown[n] for n, mark in enumerate(carets) if mark == "^"] == list(piece)


def test_of_a_long_line_only_what_surrounds_the_piece_is_shown() -> None:
    text = "SELECT " + "1 + " * 500 + "aa" + " + 1" * 500
    shown, _ = rendered(text, "aa")
    assert (shown[:2], shown[-2:]) == ("… ", " …")
    assert len(shown) < 120


def test_a_long_piece_gets_no_more_carets_than_is_shown_of_it() -> None:
    piece = "x" * 5000
    shown, carets = rendered(f"SELECT {piece} FROM i", piece)
    assert len(carets) <= len(shown) < 120
