"""Vocabulary of the whole package: time, types, errors. Imports nothing of ours."""
