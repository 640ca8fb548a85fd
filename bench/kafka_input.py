"""Fills a topic with the toll events of the measurements.

python bench/kafka_input.py --address 127.0.0.1:9092 --topic toll --events 1000000
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "kafka"))
from tolls import fill_topic

__all__ = ["fill_topic"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Fill a topic with toll events.")
    parser.add_argument("--address", required=True)
    parser.add_argument("--topic", default="toll")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    count = fill_topic(options.address, options.topic, options.events, options.seed)
    print(f"{count:,} messages in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
