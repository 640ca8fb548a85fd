"""What every program of the benchmark is told, and how it answers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

#: Begins the line of a program's output that holds its answer.
MARK = "measured "


def arguments(queries: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """--query of --data (a folder a stream) to --out/rows, on so many cores.

    --broker and --topic: where those that read messages find the events of --data instead.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--query", choices=queries, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--format", choices=("json", "parquet"), default="json")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--broker")
    parser.add_argument("--topic")
    return parser


def answer(seconds: float, batches: Sequence[tuple[int, float]] = ()) -> None:
    """The last word: seconds from the start of the query to its end; events and seconds of every batch."""
    print(MARK + json.dumps({"seconds": round(seconds, 4), "batches": batches}), flush=True)
