"""What may stand for a DataFrame of Spark: its kin of pandas and of Arrow, and the name of a table.

given                              becomes
a DataFrame of pandas              rows with the types Arrow finds for its columns, without its index
a Table or RecordBatch of pyarrow  rows with the same types
a DataFrame of polars              the same, by its Arrow table
text without a slash or suffix     the table of that name in the session's catalog, as it is when it is read
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tideglass.core.errors import InputError

#: A table: up to three names between dots, each plain or in backticks; what Spark reads as one.
_TABLE = re.compile(r"(?:`(?:[^`]|``)+`|\w+)(?:\.(?:`(?:[^`]|``)+`|\w+)){0,2}")
#: Ends of names that are those of files.
_FILE = re.compile(r"\.(?:json|jsonl|ndjson|csv|tsv|parquet|avro|orc|txt|gz)$", re.IGNORECASE)


def is_table_name(value: object) -> bool:
    """Whether a text can be the name of a table, and looks like no file.

    >>> is_table_name("main.tolls.entries"), is_table_name("tolls.json"), is_table_name("data/tolls")
    (True, False, False)
    """
    return isinstance(value, str) and bool(_TABLE.fullmatch(value)) and not _FILE.search(value)


def as_frame(spark: SparkSession, name: str, value: Any) -> DataFrame:
    """The DataFrame that a value is or stands for. Raises InputError for one that stands for none.

    name: of the input, for the message.
    """
    if hasattr(value, "mapInArrow"):
        return value
    if is_table_name(value):
        return _table(spark, name, value)
    library = type(value).__module__.partition(".")[0]
    if library == "pandas" and hasattr(value, "columns"):
        return _of_arrow(spark, pa.Table.from_pandas(_with_text_names(value), preserve_index=False))
    if library == "polars" and hasattr(value, "to_arrow"):
        return _of_arrow(spark, cast("pa.Table", value.to_arrow()))
    if isinstance(value, pa.RecordBatch):
        return _of_arrow(spark, pa.Table.from_batches([value]))
    if isinstance(value, pa.Table):
        return _of_arrow(spark, value)
    raise InputError(
        f"the input {name!r} is {kind_of(value)}; it must be a DataFrame of Spark, of pandas or of Arrow, "
        f"or the name of a table\n  hint: {_remedy(value)}"
    )


def kind_of(value: object) -> str:
    """A value as a message names it.

    >>> kind_of([1])
    'a list'
    """
    module = type(value).__module__.partition(".")[0]
    of = "" if module in ("builtins", "pathlib") else f" of {module}"
    return f"a {type(value).__name__}{of}"


def _with_text_names(frame: Any) -> Any:
    """A DataFrame of pandas whose columns have texts for names, as those of Spark do."""
    return frame if all(isinstance(each, str) for each in frame.columns) else frame.rename(columns=str)


def _of_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table)


def _table(spark: SparkSession, name: str, table: str) -> DataFrame:
    if not spark.catalog.tableExists(table):
        raise InputError(
            f"the input {name!r} is the name of a table, {table!r}, which the session's catalog does not "
            "have\n"
            "  hint: spark.catalog.listTables() lists those it has; of a file give spark.read.json(path)"
        )
    return spark.table(table)


def _remedy(value: object) -> str:
    if isinstance(value, str | Path):
        return "spark.read.json(path), or another reader of Spark"
    return "spark.createDataFrame(rows)"
