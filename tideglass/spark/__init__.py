"""Spark Structured Streaming as a host of jobs; no other package imports pyspark.

A pyspark that is not supported is refused before any module of it is imported.
"""

from tideglass.spark.versions import check_version, installed_version

check_version(installed_version())
