"""Z-set batches, arrangements, the change log and the DuckDB warehouse."""
