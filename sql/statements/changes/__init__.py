"""Reads the statements that change rows."""
