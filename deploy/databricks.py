# Databricks notebook source
# MAGIC %md
# MAGIC # A query of Azure Stream Analytics over DataFrames
# MAGIC For a cluster of Databricks Runtime 19 (Spark 4.2) with *dedicated* access.
# MAGIC Not tried there; a test runs these cells on a local Spark.

# COMMAND ----------

# MAGIC %pip install tideglass

# COMMAND ----------

import tideglass

# State of streams lives in RocksDB; a stage needs about as many key groups as the cluster has cores.
spark.conf.set(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)
spark.conf.set("spark.sql.shuffle.partitions", "2")

# COMMAND ----------

# Here from rows; spark.readStream.table("catalog.schema.name") reads a table as it grows.
readings = spark.createDataFrame(
    [
        ("a", "2026-01-01T00:00:01Z", 20.5),
        ("a", "2026-01-01T00:00:03Z", 21.5),
        ("b", "2026-01-01T00:00:04Z", 19.0),
    ],
    "device string, at string, temperature double",
)

# COMMAND ----------

query = """
SELECT device, System.Timestamp() AS windowEnd, AVG(temperature) AS mean
INTO means
FROM readings TIMESTAMP BY at
GROUP BY device, TumblingWindow(second, 5)
"""
means = tideglass.query(spark, query, {"readings": readings})["means"]

# COMMAND ----------

means.show()
