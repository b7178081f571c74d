"""Strings: their functions, patterns, forms and casts."""
