"""Scripts cut into statements, the kinds of statements, and the statements DuckDB does not know."""
