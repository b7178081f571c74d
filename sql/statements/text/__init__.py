"""The text of statements: DuckDB's tokens, and what is found with them alone."""
