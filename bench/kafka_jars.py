"""Spark's connector for Kafka, as the examples have it."""

from __future__ import annotations

import sys
from pathlib import Path

from tideglass.spark.session.libraries import Libraries

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "kafka"))
from jars import connector_jars


def connector() -> Libraries:
    """For a session that reads topics. Raises JarsUnavailable."""
    return Libraries(jars=connector_jars())
