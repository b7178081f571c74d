"""Operators on ordered rows: top-k, limits and window functions."""
