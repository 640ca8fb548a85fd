"""Kafka topics as inputs and outputs: their settings in a project, and records as bytes."""
