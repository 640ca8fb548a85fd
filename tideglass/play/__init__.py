"""The playground: a query, a few events, and what policies and engine make of each (`docs/playground.md`)."""
