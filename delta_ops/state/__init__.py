"""What operators keep between steps: integrals, group tables, hash indexes and their versions."""
