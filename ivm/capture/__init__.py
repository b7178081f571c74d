"""Changes that DuckDB runs, captured as deltas."""
