"""The plan of a query: its nodes, its rewriting, its stages, its programs."""
