"""Programs of expressions over Arrow tables, and what becomes of rows that fail."""
