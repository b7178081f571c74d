"""Queries answered from the contents of views in memory, without a flush and without DuckDB."""
