"""Starts Spark's Python workers, with everything they need already imported.

Spark forks a worker from this process for every task that runs at once; what is imported here is
imported once for all of them, which saves each about a second at its start.
"""

from __future__ import annotations

import gc

# pyright: reportUnusedImport=false
import pandas  # noqa: F401
import pyspark.sql.worker.plan_data_source_read  # noqa: F401
from pyspark.daemon import manager

from tideglass.connect.formats.json import fast

fast.load()

if __name__ == "__main__":
    # A worker collects garbage after every task. What is imported is none: looking at it would write to
    # each of its pages and so give each worker a copy of its own.
    gc.collect()
    gc.freeze()
    manager()
