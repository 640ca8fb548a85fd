"""The query language: text to tree and back."""
