"""Kafka topics as inputs and outputs: what a project says of them and records as bytes."""
