"""The Spark driver: the only users of pyspark."""
