"""Kafka topics read and written by Spark's connector."""
