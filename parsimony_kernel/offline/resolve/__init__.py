"""A statement meets a table: every word becomes a column, a value or a question."""
