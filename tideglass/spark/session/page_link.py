"""A link from Spark's own UI to the page of a job: `http://…:4040/tideglass/` leads there, and its jobs do.

Spark has no public way to add anything to its UI. What is called here is private to it and differs between
versions, so a link that cannot be made is a problem to be logged, and no error.
"""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import SparkSession

PATH = "/tideglass/"


def link_page(spark: SparkSession, url: str) -> str | None:
    """Have Spark's UI, if it has one, lead from `PATH` to the page; answers with what kept it from that."""
    try:
        context = cast("Any", spark.sparkContext)
        ui = context._jsc.sc().ui()
        if ui.isEmpty():
            return "Spark's UI is not enabled"
        jvm = context._jvm
        utils: Any = jvm.org.apache.spark.ui.JettyUtils
        defaults = [getattr(utils, f"createRedirectHandler$default${place}")() for place in (3, 4, 5)]
        six = hasattr(utils, "createRedirectHandler$default$6")
        last = [getattr(utils, "createRedirectHandler$default$6")()] if six else []
        ui.get().attachHandler(utils.createRedirectHandler(PATH, url, *defaults, *last))
    except Exception as error:
        return f"{type(error).__name__}: {error}".split("\n", 1)[0]
    return None
