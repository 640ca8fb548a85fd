"""No identifier of the package holds a word that the glossary replaces by one of the field."""

from __future__ import annotations

import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parent.parent


def unused_words() -> set[str]:
    table = (ROOT / "docs" / "glossary.md").read_text().partition("## Words we do not use")[2]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| ")]
    return {word.strip() for row in rows[1:] for word in row[1].split(",")}


def test_no_identifier_holds_a_word_we_do_not_use():
    words, found = unused_words(), set[str]()
    assert "silence" in words
    for path in sorted((ROOT / "tideglass").rglob("*.py")):
        with path.open(encoding="utf-8") as file:
            for token in tokenize.generate_tokens(file.readline):
                parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", token.string)
                if token.type == tokenize.NAME and words & {part.lower() for part in parts}:
                    found.add(f"{path.relative_to(ROOT)}:{token.start[0]} {token.string}")
    assert sorted(found) == []
