"""Values, rows and Z-sets in columns: types, equality, order and hashing as DuckDB has them."""
