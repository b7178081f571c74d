"""Upstream tables by their identities, and what has happened to them between two looks."""
