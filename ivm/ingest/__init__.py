"""Rows from Python and literals as columns, with keys and constraints checked: the fast path."""
