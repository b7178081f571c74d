"""Queries, prepared statements, and what EXPLAIN says of them."""
