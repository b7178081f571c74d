"""Arrangements: sorted runs of a Z-set under a key, for lookups by key."""
