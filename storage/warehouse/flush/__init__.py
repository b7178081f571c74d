"""The flush: net changes written into DuckDB's tables."""
