"""Joins by the product rule: on equal keys, on ranges and on any condition."""
