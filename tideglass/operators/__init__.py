"""Operators: plain objects over Arrow tables that know no Spark, no clock and no files."""
