"""Nested queries: correlation, decorrelation and their joins with the outer query."""
