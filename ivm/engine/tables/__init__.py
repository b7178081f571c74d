"""The tables as DuckDB stores them, and their rows in memory by keys."""
