"""Azure Stream Analytics jobs on Apache Spark, with exact treatment of time."""
