"""Connections to a PostgreSQL server, and what it calls types and tables."""
