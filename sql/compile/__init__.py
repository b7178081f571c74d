"""Compiles plans of views to operators of the circuit; EXPLAIN."""
