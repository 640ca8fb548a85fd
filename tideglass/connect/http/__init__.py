"""Outputs that are services behind HTTP: rows in requests, at least once, each under an id."""
