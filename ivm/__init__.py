"""The incremental view maintenance database for Python and DuckDB."""
