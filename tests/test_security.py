"""The threat table of `docs/security.md`: every row names tests, and all of them are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text()


def test_every_test_the_table_names_is_there() -> None:
    sources = "".join(path.read_text() for path in ROOT.glob("tests/**/test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 30
    assert sorted(name for name in named if f"def {name}(" not in sources) == []


def test_every_threat_has_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|")][2:]
    assert len(rows) > 15
    assert [row for row in rows if not re.search(r"`test_\w+` \|$", row)] == []
