"""Tables of PostgreSQL, SQL Server, Azure SQL and Synapse as outputs: one writer, two dialects."""
