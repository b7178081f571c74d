"""Rows in PostgreSQL's texts as events of a table."""
