"""Changes that need no statement of DuckDB's, or one for their rows alone."""
