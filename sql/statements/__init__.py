"""Statements in a script: where they end, their kinds, and those that DuckDB does not know."""
