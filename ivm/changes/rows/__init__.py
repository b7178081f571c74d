"""The rows that a change asks for: read by DuckDB, or met in memory."""
