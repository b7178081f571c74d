"""Statements that change the catalog: tables, views, indexes, retention, sinks."""
