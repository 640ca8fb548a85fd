"""JSON to columns: a fast pass for plain events, a general decoder for all others."""
