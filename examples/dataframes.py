# %% [markdown]
# # Your own DataFrames
#
# Any streaming (or finished) DataFrame of Spark can be the input of a query, and what comes back are
# DataFrames: with typed columns, for any sink. The times are those of the query, to the tick; late events,
# silence of an input and restarts are dealt with as in a project.

# %%
from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

import tideglass
from tideglass.spark.session.spark_session import local_session

# %% [markdown]
# A session. Yours will do as well, if its state store is RocksDB; `local_session` sets that and a few
# other things.

# %%
folder = Path(tempfile.mkdtemp(prefix="tideglass-dataframes-"))
spark = local_session(2, log=folder / "spark.log")
spark.conf.set("spark.sql.shuffle.partitions", "2")  # as many as there are cores: each is a state of its own

# %% [markdown]
# Readings of two sensors, as they arrived: one event is out of order by two seconds, one is late by far
# more than the five seconds we are going to wait. They come from a folder; Kafka, Delta or a rate source
# are read the same way.

# %%
readings = [
    # sensor, at, arrived, temperature
    ("north", "12:00:01", "12:00:01", 20.5),
    ("south", "12:00:04", "12:00:04", 18.0),
    ("north", "12:00:02", "12:00:04", 21.5),  # out of order
    ("south", "12:00:09", "12:00:09", 18.5),
    ("north", "12:00:03", "12:00:18", 35.0),  # late: it counts as of 12:00:13
    ("south", "12:00:19", "12:00:19", 19.0),
    ("north", "12:00:31", "12:00:31", 22.0),
]
source = folder / "readings"
source.mkdir()
for number, (sensor, at, arrived, temperature) in enumerate(readings):
    event = {
        "sensor": sensor,
        "at": f"2026-01-01T{at}Z",
        "arrived": f"2026-01-01T{arrived}Z",
        "place": {"floor": 1 if sensor == "north" else 2},
        "temperature": temperature,
    }
    file = source / f"{number:03d}.json"
    file.write_text(json.dumps(event))
    os.utime(file, (number, number))  # Spark streams files in the order of their times, here the arrivals

schema = "sensor STRING, at TIMESTAMP, arrived TIMESTAMP, place STRUCT<floor: INT>, temperature DOUBLE"
stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 3).json(str(source))

# %% [markdown]
# The query. `arrival` names the column that says when an event arrived; without it, a row arrives with its
# batch.

# %%
outputs = tideglass.query(
    spark,
    """
    SELECT sensor, COUNT(*) AS readings, AVG(temperature) AS mean, System.Timestamp() AS until
    INTO perTenSeconds
    FROM readings TIMESTAMP BY at
    GROUP BY sensor, TumblingWindow(second, 10)

    SELECT sensor, place.floor, temperature, System.Timestamp() AS at
    INTO hot
    FROM readings TIMESTAMP BY at
    WHERE temperature > 30
    """,
    inputs={"readings": tideglass.FrameInput(stream, arrival="arrived")},
    settings={"late_arrival": "5s", "out_of_order": "2s", "policy": "adjust"},
)
for name, output in outputs.items():
    print(name)
    output.printSchema()

# %% [markdown]
# Each output is an ordinary streaming DataFrame: choose a sink, a trigger and a checkpoint. Started again
# with the same checkpoint, it goes on where it stopped. One goes to Parquet files, the other through Spark's
# own columns to a function that is given every batch.

# %%
running = (
    outputs["perTenSeconds"]
    .writeStream.format("parquet")
    .option("checkpointLocation", str(folder / "checkpoints" / "perTenSeconds"))
    .trigger(availableNow=True)
    .start(str(folder / "perTenSeconds"))
)
running.awaitTermination()


def keep(batch: DataFrame, batch_id: int) -> None:
    batch.write.mode("overwrite").json(str(folder / "hot" / f"batch-{batch_id}"))


(
    outputs["hot"]
    .withColumn("fahrenheit", fn.col("temperature") * 1.8 + 32)
    .writeStream.foreachBatch(keep)
    .option("checkpointLocation", str(folder / "checkpoints" / "hot"))
    .trigger(availableNow=True)
    .start()
    .awaitTermination()
)
per_ten_seconds = spark.read.parquet(str(folder / "perTenSeconds")).orderBy("until", "sensor")
hot = spark.read.schema("sensor STRING, floor INT, temperature DOUBLE, fahrenheit DOUBLE, at TIMESTAMP").json(
    str(folder / "hot" / "*")
)
per_ten_seconds.show(truncate=False)
hot.show(truncate=False)

# %% [markdown]
# What became of every event: the books of the time policies. Spark's own listeners see the same figures in
# the progress of the query, as observed metrics named `tideglass`.

# %%
books = tideglass.metrics(running)
print(books.by_api_name())
print("observed:", running.lastProgress.observedMetrics["tideglass"]["readings.adjusted_out_of_order"])

# %% [markdown]
# The same over what has been recorded: a finished DataFrame ends, so the last windows come out as well.

# %%
recorded = spark.read.schema(schema).json(str(source))
whole = tideglass.query(
    spark,
    """
    SELECT sensor, COUNT(*) AS readings, AVG(temperature) AS mean, System.Timestamp() AS until
    INTO perTenSeconds
    FROM readings TIMESTAMP BY at GROUP BY sensor, TumblingWindow(second, 10)
    """,
    inputs={"readings": tideglass.FrameInput(recorded, arrival="arrived")},
    settings={"late_arrival": "5s", "out_of_order": "2s", "policy": "adjust"},
)["perTenSeconds"].orderBy("until", "sensor")
whole.show(truncate=False)

# %%
if __name__ == "__main__" and "ipykernel" not in sys.modules:
    spark.stop()
