"""Calls of DuckDB: rows and errors as DuckDB gives them, and the settings of its sessions."""
