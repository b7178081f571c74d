"""The state of operators between steps: integrals, group tables, hash indexes and versions."""
