"""Spark's first example of a stream, counted words of text files, until the first of them is there.

    python bench/rivals/hello_stream.py --master spark://HOST:PORT --data FOLDER

It prints `first row` then, and ends.
"""

from __future__ import annotations

import argparse
import tempfile

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tideglass.spark.session.java import use_java


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--master", required=True)
    parser.add_argument("--data", required=True, help="a folder with text files")
    options = parser.parse_args()
    use_java()
    builder = SparkSession.Builder().master(options.master).config("spark.ui.enabled", "false")
    # As many as there are cores, where Spark's own default would keep 200 states.
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    words = spark.readStream.text(options.data).select(f.explode(f.split("value", " ")).alias("word"))

    def show(rows: DataFrame, _: int) -> None:
        if rows.collect():  # all partitions, or Spark calls the batch unfinished
            print("first row", flush=True)

    with tempfile.TemporaryDirectory(prefix="hello-") as checkpoint:
        (
            words.groupBy("word")
            .count()
            .writeStream.outputMode("complete")
            .foreachBatch(show)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )
    spark.stop()


if __name__ == "__main__":
    main()
