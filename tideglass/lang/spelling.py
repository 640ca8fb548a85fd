"""Keywords a word was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterator

from tideglass.lang.tokens import KEYWORDS

#: Keywords that go together, and that people write as one word: GROUPBY, LEFT_JOIN.
_PAIRS = (
    "GROUP BY", "ORDER BY", "PARTITION BY", "TIMESTAMP BY", "LEFT JOIN", "LEFT OUTER", "INNER JOIN",
    "CROSS JOIN", "CROSS APPLY", "OUTER APPLY", "IS NULL", "IS NOT", "NOT NULL", "NOT IN", "NOT LIKE",
    "NOT BETWEEN", "LIMIT DURATION", "CREATE TABLE", "UNION ALL",
)  # fmt: skip


def keywords_like(word: str) -> Iterator[str]:
    """Keywords that are spelled like `word`, the most alike first; some are two words.

    >>> list(keywords_like("FORM")), list(keywords_like("groupby"))
    (['FROM'], ['GROUP BY', 'GROUP'])
    """
    upper = word.upper()
    if len(upper) < 2 or upper in KEYWORDS:
        return
    found = [(distance(upper, keyword), keyword) for keyword in KEYWORDS]
    found += [(distance(upper, pair.replace(" ", "")), pair) for pair in _PAIRS]
    found += [(distance(upper, pair.replace(" ", "_")), pair) for pair in _PAIRS]
    most = 1 if len(upper) < 5 else 2
    yield from dict.fromkeys(keyword for slips, keyword in sorted(found) if slips <= most)


def distance(left: str, right: str) -> int:
    """How many letters differ: put in, left out, replaced, or swapped with their neighbour; 3 for many.

    >>> distance("WEHRE", "WHERE"), distance("SELET", "SELECT"), distance("a", "bcd")
    (1, 1, 3)
    """
    if abs(len(left) - len(right)) > 2:
        return 3
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, letter in enumerate(left, 1):
        before, last, row = row, before, [i]
        for j, other in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == right[j - 2] and left[i - 2] == other:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
