"""Queries over DataFrames of the user."""
