"""Delta Lake tables as outputs."""
