"""Rows in one total order, in blocks: rank, select and search."""
