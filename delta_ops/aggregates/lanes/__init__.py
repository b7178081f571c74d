"""Accumulators: the int64 lanes of a group that add up."""
