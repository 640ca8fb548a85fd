"""The cookbook: the queries under examples/queries, and the page of the docs that shows them.

    PYTHONPATH=tests python -m support.cookbook

writes the page; a test holds it in step with the folder. A recipe is a case file (see `support.cases`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from support.cases import Case, Rows, load

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "queries"
PAGE = ROOT / "docs" / "cookbook.md"

#: Folders in the order of the page, with their headings.
DOMAINS = {
    "iot": "IoT",
    "fleet": "Fleet",
    "fraud": "Fraud",
    "gaming": "Gaming",
    "clickstream": "Clickstream",
    "energy": "Energy",
}

#: What readers look for, and how a recipe that shows it is told by its query, settings and reference data.
CONSTRUCTS = {
    "Tumbling windows": r"\bTumblingWindow\b",
    "Hopping windows": r"\bHoppingWindow\b",
    "Sliding windows": r"\bSlidingWindow\b",
    "Session windows": r"\bSessionWindow\b",
    "Snapshots: rows of one timestamp": r"GROUP BY [\w\s,]*System\.Timestamp\(\)",
    "Several windows at once": r"\bWindows\(",
    "Windows with an offset": r"\bOffset\(",
    "Steps (WITH)": r"\bWITH\b",
    "Several outputs": r"INTO(?s:.*)\bINTO\b",
    "HAVING": r"\bHAVING\b",
    "UNION": r"\bUNION\b",
    "Joins of streams": r"(?<!LEFT )\bJOIN \w+ \w+ TIMESTAMP BY",
    "Absence of events (LEFT JOIN)": r"\bLEFT JOIN \w+ \w+ TIMESTAMP BY",
    "Self joins": r"FROM (\w+) \w+ (?s:.*)JOIN \1 ",
    "Reference data": r"^reference ",
    "LAG": r"\bLAG\(",
    "LAST": r"\bLAST\(",
    "ISFIRST": r"\bISFIRST\(",
    "Analytic functions with WHEN": r"LIMIT DURATION\([^)]*\) WHEN|PARTITION BY \w+ WHEN",
    "Aggregates over a duration": r"\b(?:COUNT|SUM|AVG|MIN|MAX)\([^)]*\) OVER",
    "Detection of anomalies": r"\bAnomalyDetection_",
    "Patterns of events (MATCH_RECOGNIZE)": r"\bMATCH_RECOGNIZE\b",
    "Arrays and records (APPLY)": r"\bAPPLY\b",
    "Nested fields": r"\b\w+\.\w+\.\w+\.?\w*\b",
    "JSON in text": r"\bJSON_PARSE\(",
    "TopOne": r"\bTopOne\(",
    "Collect and CollectTop": r"\bCollect(?:Top)?\(",
    "Percentiles and deviation": r"\b(?:PERCENTILE_CONT|STDEV)\(",
    "Distinct values": r"\bDISTINCT\b",
    "CASE": r"\bCASE\b",
    "Differences of times": r"SELECT(?s:.*)\bDATEDIFF\(",
    "Values of mixed types (TRY_CAST)": r"\bTRY_CAST\(",
    "Declared schemas": r"\bCREATE TABLE\b",
    "JavaScript functions": r"\bUDF\.",
    "JavaScript aggregates": r"\buda\.",
    "Late and out-of-order events": r'"late_arrival"',
    "Substreams (OVER)": r"TIMESTAMP BY \w+ OVER\b",
    "Partitions": r"TIMESTAMP BY \w+ PARTITION BY\b",
    "Bracketed names": r"\[\w",
}

ROWS_SHOWN = 8
INTRODUCTION = """\
# Cookbook

{count} queries for jobs people have, each with events that go in and the rows that come out. They are files
under [examples/queries](../examples/queries) and run as tests: copy a query, change the names, keep the idea.

To try one, give [`tideglass.testing.run`](testing.md) its query and rows. `_arrival` is when an event came,
`_partition` the partition of its input; where they are not shown, events arrive at their time in partition 0.
Without settings nothing is late and events out of order are adjusted. Inputs end, so every window closes.

This page is made from the files by `PYTHONPATH=tests python -m support.cookbook`.
"""


def recipes(domain: str = "") -> list[Case]:
    """All recipes, or those of one domain, in the order of the page."""
    domains = [domain] if domain else DOMAINS
    return [load(path) for each in domains for path in sorted((FOLDER / each).glob("*.case"))]


def page() -> str:
    """The whole page as text."""
    parts = [INTRODUCTION.format(count=len(recipes())), by_domain(), by_construct()]
    for domain, heading in DOMAINS.items():
        parts += [f"## {heading}\n", *(shown(case) for case in recipes(domain))]
    return "\n".join(parts)


def by_domain() -> str:
    lines = ["## By domain\n", "| | |", "|---|---|"]
    lines += [f"| {heading} | {links(recipes(domain))} |" for domain, heading in DOMAINS.items()]
    return "\n".join(lines) + "\n"


def by_construct() -> str:
    lines = ["## By what is used\n", "| | |", "|---|---|"]
    lines += [f"| {name} | {links(showing(name))} |" for name in CONSTRUCTS]
    return "\n".join(lines) + "\n"


def showing(construct: str) -> list[Case]:
    """The recipes that show a construct."""
    pattern = re.compile(CONSTRUCTS[construct], re.MULTILINE)
    return [case for case in recipes() if pattern.search(looked_at(case))]


def looked_at(case: Case) -> str:
    """Query, settings and names of reference data: what the patterns of CONSTRUCTS are about."""
    return "\n".join(
        [case.query, json.dumps(case.settings), *(f"reference {name}" for name in case.reference)]
    )


def links(cases: Sequence[Case]) -> str:
    return ", ".join(f"[{title(case)}](#{case.path.stem})" for case in cases)


def title(case: Case) -> str:
    return case.path.stem.replace("-", " ").capitalize()


def shown(case: Case) -> str:
    """A recipe as a section: sentence, query, settings, functions, rows in, rows out."""
    file = case.path.relative_to(ROOT).as_posix()
    parts = [f"### {title(case)}\n", f"{case.sentence} ([file](../{file}))\n", fenced("sql", case.query)]
    if case.settings:
        settings = ", ".join(f"`{name}` {value}" for name, value in case.settings.items())
        parts.append(f"Settings: {settings}.\n")
    parts += [fenced("javascript", source.strip()) for source in case.functions.values()]
    parts += [table(f"Input `{name}`", rows) for name, rows in case.inputs.items()]
    parts += [table(caption, rows) for caption, rows in reference_rows(case)]
    parts += [table(f"Output `{name}`", rows) for name, rows in case.expected.items()]
    return "\n".join(parts)


def reference_rows(case: Case) -> Iterator[tuple[str, Rows]]:
    """Each table of reference data, or each of its snapshots, under its caption."""
    for name, given in case.reference.items():
        if isinstance(given, list):
            yield f"Reference data `{name}`", given
        else:
            yield from ((f"Reference data `{name}` from {since} on", rows) for since, rows in given.items())


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```\n"


def table(caption: str, rows: Rows) -> str:
    """The first rows; a field that a row lacks is an empty cell."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [f"{caption}:\n", line(cell(name) for name in columns), line("---" for _ in columns)]
    lines += [line(cell(row[name]) if name in row else "" for name in columns) for row in rows[:ROWS_SHOWN]]
    if len(rows) > ROWS_SHOWN:
        lines.append(f"\nand {len(rows) - ROWS_SHOWN} more.")
    return "\n".join(lines) + "\n"


def line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def cell(value: Any) -> str:
    """A value in a table: text as it is, everything else as JSON; as code where Markdown would read it."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if re.fullmatch(r"[\w .:/-]+", text) else "`" + text.replace("|", "\\|") + "`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
