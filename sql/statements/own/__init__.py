"""Reads the statements that DuckDB does not know."""
