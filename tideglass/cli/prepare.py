"""`tideglass prepare`: make the files, once, with which jobs start faster on this machine."""

from __future__ import annotations

import typer

#: A window over a step: what most jobs start has been started then.
_QUERY = """
WITH read AS (SELECT device, value FROM events TIMESTAMP BY at)
SELECT device, COUNT(*) AS n, AVG(value) AS mean INTO counts
FROM read GROUP BY device, TumblingWindow(second, 1)
"""


def prepare() -> None:
    """Rehearse a small job on Spark and keep the classes it needed; starts then take half of Java's time.

    The code that reads plain events is compiled and kept, too.
    """
    import tempfile
    from pathlib import Path

    from tideglass.connect.formats.json import fast
    from tideglass.spark.session.class_archive import write_archive
    from tideglass.spark.session.spark_session import local_session
    from tideglass.testing import run

    fast.load()
    events = [{"device": f"d{n % 3}", "value": n / 2, "at": f"2026-01-01T00:00:0{n}Z"} for n in range(8)]
    with tempfile.TemporaryDirectory(prefix="tideglass-prepare-") as folder:

        def rehearse() -> None:
            local_session(2, Path(folder) / "spark.log")
            run(_QUERY, {"events": events}, engine="spark")

        path = write_archive(rehearse)
    typer.echo(f"{path} ({path.stat().st_size // 2**20} MB)")
