"""Joins of streams, and of streams with reference data."""
