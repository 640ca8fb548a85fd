"""Hosts of operators: stages, key groups, and the messages between them."""
