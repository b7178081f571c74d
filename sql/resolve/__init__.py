"""Resolves the names in a query: columns, tables, functions, macros and stars."""
