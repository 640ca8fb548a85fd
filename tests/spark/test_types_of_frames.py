"""Types of Spark through a query: which columns keep theirs, which become the language's, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tideglass
from tideglass.core.errors import InputError, QueryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: A row of the table in docs/dataframes.md: a column, the SQL of its value, and its type after the query.
PASSED = {
    "tiny": ("CAST(7 AS tinyint)", "bigint"),
    "wide": ("9007199254740993L", "bigint"),
    "real": ("CAST(1.5 AS float)", "double"),
    "fraction": ("CAST(0.1 AS double)", "double"),
    "words": ("'ä \"quoted\"'", "string"),
    "flag": ("true", "boolean"),
    "moment": ("TIMESTAMP '2026-01-01 12:00:00.123456Z'", "timestamp"),
    "day": ("DATE '2026-01-01'", "timestamp"),
    "amount": ("CAST('12345678901234567890123456789.123456789' AS decimal(38,9))", "decimal(38,9)"),
    "small": ("CAST('0' AS decimal(38,20))", "decimal(38,20)"),
    "bytes": ("X'00FF10'", "binary"),
    "inner": (
        "named_struct('x', 1, 'd', CAST('1.50' AS decimal(5,2)), 'at', TIMESTAMP '2026-01-01 12:00:00.5Z', "
        "'b', X'01', 'on', DATE '1969-12-31', 'l', array(named_struct('f', CAST(0.5 AS float))), "
        "'none', CAST(NULL AS int))",
        "struct<x:int,d:decimal(5,2),at:timestamp,b:binary,on:date,l:array<struct<f:float>>,none:int>",
    ),
    "list": ("array(CAST('1.10' AS decimal(9,2)), NULL)", "array<decimal(9,2)>"),
    "pairs": ("map('k', CAST('2.5' AS decimal(9,1)), 'n', NULL)", "map<string,decimal(9,1)>"),
    "numbered": ("map(1, array('a'), 2, array())", "map<int,array<string>>"),
    "nothing": ("CAST(NULL AS decimal(9,2))", "decimal(9,2)"),
}  # fmt: skip
#: Fields read by a dot, and what else passes values on.
READ = {
    "inner.x": "bigint",
    "inner.d": "decimal(5,2)",
    "inner.at": "timestamp",
    "inner.b": "binary",
    "inner.l": "array<struct<f:float>>",
    "pairs.k": "decimal(9,1)",
    "CASE WHEN tiny > 1 THEN amount ELSE NULL END": "decimal(38,9)",
    "COALESCE(nothing, nothing)": "decimal(9,2)",
    "CAST(amount AS float)": "double",
    "CAST(amount AS nvarchar(max))": "string",
    "CAST(bytes AS nvarchar(max))": "string",
    "CASE WHEN amount IS NULL THEN 0 ELSE 1 END": "bigint",
}


@pytest.fixture(autouse=True)
def few_partitions(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "2")


def one_row(spark: SparkSession) -> DataFrame:
    columns = ", ".join(f"{sql} AS {name}" for name, (sql, _) in PASSED.items())
    return spark.sql(f"SELECT {columns}, TIMESTAMP '2026-01-01 00:00:01Z' AS t")


def selected() -> str:
    read = ", ".join(f"{expr} AS r{n}" for n, expr in enumerate(READ))
    return f"SELECT {', '.join(PASSED)}, {read} INTO o FROM e TIMESTAMP BY t"


def expected(df: DataFrame) -> dict[str, Any]:
    """The values as Spark itself has them, of types that the language has as those of the language."""
    plain = [f"CAST({name} AS {type_}) AS {name}" for name, (_, type_) in PASSED.items()]
    casts = ["inner.x", "inner.d", "inner.at", "inner.b", "inner.l", "pairs['k']", "amount", "nothing"]
    casts += ["CAST(amount AS double)", "CAST(amount AS string)", "base64(bytes)", "1"]
    (row,) = df.selectExpr(*plain, *(f"{expr} AS r{n}" for n, expr in enumerate(casts))).collect()
    return row.asDict(recursive=True)


def check(output: DataFrame, df: DataFrame) -> None:
    assert dict(output.dtypes) == {
        **{name: type_ for name, (_, type_) in PASSED.items()},
        **{f"r{n}": type_ for n, type_ in enumerate(READ.values())},
    }
    (row,) = output.collect()
    assert row.asDict(recursive=True) == expected(df)


def test_every_type_comes_through_a_finished_dataframe_as_the_table_says(spark: SparkSession) -> None:
    df = one_row(spark)
    check(tideglass.query(spark, selected(), {"e": df})["o"], df)


def test_every_type_comes_through_a_stream_as_the_table_says(spark: SparkSession, tmp_path: Path) -> None:
    df = one_row(spark)
    df.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
    output = tideglass.query(spark, selected(), {"e": stream})["o"]
    output.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c")).trigger(
        availableNow=True
    ).start(str(tmp_path / "out")).awaitTermination()
    written = spark.read.schema(output.schema).parquet(str(tmp_path / "out"))
    check(written, df)


def test_types_are_kept_through_windows_steps_joins_and_unions(spark: SparkSession) -> None:
    df = spark.sql(
        "SELECT CAST(id AS decimal(20,3)) AS d, named_struct('p', CAST(id AS decimal(9,2))) AS r, id AS v, "
        "timestamp_seconds(id) AS t FROM range(1, 5)"
    )
    kinds = spark.sql(
        "SELECT CAST(2 AS decimal(20,3)) AS d, CAST('0.25' AS decimal(3,2)) AS rate, X'02' AS b"
    )
    query = """
    WITH g AS (SELECT d, r, COUNT(*) AS n FROM e TIMESTAMP BY t GROUP BY d, r, TumblingWindow(second, 10))
    SELECT d, r.p AS p, r, n INTO grouped FROM g
    SELECT e.d, k.rate, k.b INTO joined FROM e TIMESTAMP BY t JOIN k ON e.d = k.d
    SELECT v, LAG(d) OVER (LIMIT DURATION(minute, 1)) AS before INTO lagged FROM e TIMESTAMP BY t
    SELECT d INTO unions FROM e TIMESTAMP BY t WHERE v = 1
    UNION SELECT NULL AS d FROM e TIMESTAMP BY t WHERE v = 2
    """
    outputs = tideglass.query(spark, query, {"e": df}, reference={"k": kinds})
    types = {name: dict(output.dtypes) for name, output in outputs.items()}
    assert types["grouped"] == {
        "d": "decimal(20,3)", "p": "decimal(9,2)", "r": "struct<p:decimal(9,2)>", "n": "bigint",
    }  # fmt: skip
    assert types["joined"] == {"d": "decimal(20,3)", "rate": "decimal(3,2)", "b": "binary"}
    assert types["lagged"]["before"] == types["unions"]["d"] == "decimal(20,3)"
    first = outputs["grouped"].orderBy("d").first()
    assert str(first) == "Row(d=Decimal('1.000'), p=Decimal('1.00'), r=Row(p=Decimal('1.00')), n=1)"
    ((d, rate, b),) = outputs["joined"].collect()
    assert (str(d), str(rate), bytes(b)) == ("2.000", "0.25", b"\x02")
    assert [str(row.before) for row in outputs["lagged"].orderBy("v").collect()] == [
        "None", "1.000", "2.000", "3.000",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("select", "error", "reported"),
    [
        ("amount * 2 AS x", QueryError, r"amount is decimal\(38,9\), for which the language has no type"),
        ("SUM(amount) AS x", QueryError, "hint: CAST\\(amount AS float\\) is the nearest double"),
        ("inner.d + 1 AS x", QueryError, r"inner\.d is decimal\(5,2\)"),
        ("LEN(bytes) AS x", QueryError, "bytes is binary.*"),
        ("CASE WHEN amount > 1 THEN 1 ELSE 0 END AS x", QueryError, "OPAQUE_TYPE"),
        ("CASE WHEN tiny = 1 THEN amount ELSE 0 END AS x", QueryError, "OPAQUE_TYPE"),
        ("COALESCE(amount, nothing) AS x", QueryError, "holds values of several types"),
        ("span AS x", InputError, "the column 'span' of the input 'e' is interval year"),
    ],
)
def test_what_would_lose_digits_or_meaning_is_refused_in_one_sentence(
    spark: SparkSession, select: str, error: type[Exception], reported: str
) -> None:
    window = " GROUP BY TumblingWindow(second, 1)" if "SUM" in select else ""
    df = one_row(spark).selectExpr("*", "INTERVAL '1' YEAR AS span")
    with pytest.raises(error, match=reported):
        tideglass.query(spark, f"SELECT {select} INTO o FROM e TIMESTAMP BY t{window}", {"e": df})
