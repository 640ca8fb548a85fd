"""Aggregate functions: cells that merge, and results."""
